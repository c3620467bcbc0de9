"""A server of the Python SDK before 2.0, behind its WebSocket transport. Usage: websocket_server.py PORT"""

import sys

import uvicorn
from mcp.server.fastmcp import FastMCP
from mcp.server.websocket import websocket_server
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute

mcp = FastMCP("python-ws")


@mcp.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def endpoint(websocket):
    async with websocket_server(websocket.scope, websocket.receive, websocket.send) as (read, write):
        server = mcp._mcp_server
        await server.run(read, write, server.create_initialization_options())


app = Starlette(routes=[WebSocketRoute("/ws", endpoint)])
uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
