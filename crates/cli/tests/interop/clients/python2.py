"""The client of version 2 of the Python SDK: `python2.py http URL | stdio COMMAND ARGS…`."""

import asyncio
import json
import os
import sys

import anyio
from mcp import Client, StdioServerParameters, types

asked = []


async def elicit(_context, params):
    asked.append(params.message)
    return types.ElicitResult(action="accept", content={"name": "Ada", "check": True})


def named(tool):
    return f"mcp__everything__{tool}"


def text(result):
    return "\n".join(getattr(block, "text", "") for block in result.content)


async def main(way, place, *args):
    server = place
    if way != "http":
        server = StdioServerParameters(command=place, args=list(args), env=dict(os.environ))
    async with Client(server, elicitation_callback=elicit) as client:
        tools = (await client.list_tools()).tools
        resources = (await client.list_resources()).resources
        contents = (await client.read_resource(resources[0].uri)).contents
        prompts = (await client.list_prompts()).prompts
        prompt = await client.get_prompt(named("simple-prompt"))
        progress = []

        async def note(done, _total, _message):
            progress.append(done)

        long = named("trigger-long-running-operation")
        await client.call_tool(long, {"duration": 0.4, "steps": 4}, progress_callback=note)
        with anyio.CancelScope() as scope:

            async def stop(*_):
                scope.cancel()

            await client.call_tool(long, {"duration": 60, "steps": 600}, progress_callback=stop)
        elicited = await client.call_tool(named("trigger-elicitation-request"), {})
        echo = await client.call_tool(named("echo"), {"message": "héllo"})
        print(
            json.dumps(
                {
                    "version": client.protocol_version,
                    "tools": [tool.name for tool in tools],
                    "echo": text(echo),
                    "resource": getattr(contents[0], "text", None) or contents[0].blob,
                    "prompts": [prompt.name for prompt in prompts],
                    "prompt": prompt.messages[0].content.text,
                    "progress": progress,
                    "cancelled": scope.cancelled_caught,
                    "asked": asked,
                    "elicited": text(elicited),
                }
            )
        )


asyncio.run(main(*sys.argv[1:]))
