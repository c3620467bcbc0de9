"""The client of version 1 of the Python SDK: `python1.py http URL | stdio COMMAND ARGS…`."""

import asyncio
import json
import os
import sys
from contextlib import AsyncExitStack

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client

asked = []


async def elicit(_context, params):
    asked.append(params.message)
    return types.ElicitResult(action="accept", content={"name": "Ada", "check": True})


def named(tool):
    return f"mcp__everything__{tool}"


def text(result):
    return "\n".join(getattr(block, "text", "") for block in result.content)


async def main(way, place, *args):
    async with AsyncExitStack() as stack:
        if way == "http":
            read, write, _ = await stack.enter_async_context(streamablehttp_client(place))
        else:
            server = StdioServerParameters(command=place, args=list(args), env=dict(os.environ))
            read, write = await stack.enter_async_context(stdio_client(server))
        client = await stack.enter_async_context(
            ClientSession(read, write, elicitation_callback=elicit)
        )
        await client.initialize()
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
        elicited = await client.call_tool(named("trigger-elicitation-request"), {})
        echo = await client.call_tool(named("echo"), {"message": "héllo"})
        print(
            json.dumps(
                {
                    "tools": [tool.name for tool in tools],
                    "echo": text(echo),
                    "resource": getattr(contents[0], "text", None) or contents[0].blob,
                    "prompts": [prompt.name for prompt in prompts],
                    "prompt": prompt.messages[0].content.text,
                    "progress": progress,
                    "asked": asked,
                    "elicited": text(elicited),
                }
            )
        )


asyncio.run(main(*sys.argv[1:]))
