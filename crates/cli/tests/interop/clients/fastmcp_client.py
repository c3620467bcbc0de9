"""fastmcp's client: `fastmcp_client.py http URL | stdio COMMAND ARGS…`."""

import asyncio
import json
import os
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

asked = []


async def elicit(message, _response_type, _params, _context):
    asked.append(message)
    return {"name": "Ada", "check": True}


def named(tool):
    return f"mcp__everything__{tool}"


def text(result):
    return "\n".join(getattr(block, "text", "") for block in result.content)


async def main(way, place, *args):
    server = place
    if way != "http":
        server = StdioTransport(command=place, args=list(args), env=dict(os.environ))
    async with Client(server, elicitation_handler=elicit) as client:
        tools = await client.list_tools()
        resources = await client.list_resources()
        contents = await client.read_resource(resources[0].uri)
        prompts = await client.list_prompts()
        prompt = await client.get_prompt(named("simple-prompt"))
        progress = []

        async def note(done, _total, _message):
            progress.append(done)

        long = named("trigger-long-running-operation")
        await client.call_tool(long, {"duration": 0.4, "steps": 4}, progress_handler=note)
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
