"""The official Python SDK as a benchmark client.

The command line and the report are those of bench/client/src/lib.rs. `mode="legacy"`: the `initialize` handshake,
which saves the probe and sends fewer bytes with each call.
"""

import asyncio
import json
import sys
import time

from mcp import Client, StdioServerParameters


def client(options):
    command, *args = options["server"]
    return Client(StdioServerParameters(command=command, args=args), mode="legacy")


async def call(mcp, text):
    result = await mcp.call_tool("echo", {"text": text})
    if len(result.content[0].text) != len(text):
        raise RuntimeError("the echo is not what was sent")


async def all_tools(mcp):
    tools, cursor = [], None
    while True:
        page = await mcp.list_tools(cursor=cursor)
        tools += page.tools
        cursor = page.next_cursor
        if not cursor:
            return tools


async def sequential(options):
    text = "x" * options["payload"]
    async with client(options) as mcp:
        for _ in range(options["warm_up"]):
            await call(mcp, text)
        start = time.perf_counter()
        for _ in range(options["n"]):
            await call(mcp, text)
        return since(start, options["n"])


async def inflight(options):
    text = "x" * options["payload"]

    async def workers(mcp, total):
        each = -(-total // options["inflight"])

        async def worker():
            for _ in range(each):
                await call(mcp, text)

        await asyncio.gather(*(worker() for _ in range(options["inflight"])))
        return each * options["inflight"]

    async with client(options) as mcp:
        await workers(mcp, options["warm_up"])
        start = time.perf_counter()
        return since(start, await workers(mcp, options["n"]))


async def list_tools(options):
    start = time.perf_counter()
    async with client(options) as mcp:
        connected = time.perf_counter() - start
        tools = await all_tools(mcp)
        report = since(start, 1)
        if len(tools) != options["n"]:
            raise RuntimeError(f"expected {options['n']} tools, got {len(tools)}")
        return report | {"connectSeconds": connected}


async def connect(options):
    """A client belongs to the task that opened it, so each has its own and waits there for the end."""
    listed, finish = asyncio.Semaphore(0), asyncio.Event()

    async def one():
        async with client(options) as mcp:
            tools = await all_tools(mcp)
            listed.release()
            await finish.wait()
            return tools

    start = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for _ in range(options["servers"]):
            group.create_task(one())
        for _ in range(options["servers"]):
            await listed.acquire()
        report = since(start, options["servers"])
        finish.set()
    return report


async def oneshot(options):
    start = time.perf_counter()
    async with client(options) as mcp:
        await call(mcp, "x" * options["payload"])
    return since(start, 1)


SCENARIOS = {
    "sequential": sequential,
    "inflight": inflight,
    "list": list_tools,
    "connect": connect,
    "oneshot": oneshot,
}


def since(start, calls):
    seconds = time.perf_counter() - start
    with open("/proc/self/status", encoding="utf-8") as status:
        peak = next((int(line.split()[1]) for line in status if line.startswith("VmHWM:")), None)
    return {"seconds": seconds, "calls": calls, "connectSeconds": None, "peakRssKb": peak}


def parse(arguments):
    split = arguments.index("--")
    flags, server = arguments[1:split], arguments[split + 1 :]
    options = {"n": 1, "payload": 100, "inflight": 64, "servers": 1}
    for flag, value in zip(flags[::2], flags[1::2], strict=True):
        if flag.removeprefix("--") not in options:
            raise SystemExit(f"unknown flag {flag}")
        options[flag.removeprefix("--")] = int(value)
    return options | {"warm_up": max(1, options["n"] // 5), "server": server, "scenario": arguments[0]}


if __name__ == "__main__":
    parsed = parse(sys.argv[1:])
    print(json.dumps(asyncio.run(SCENARIOS[parsed["scenario"]](parsed))))
