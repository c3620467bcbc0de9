"""A FastMCP 4 server over HTTP. Usage: fastmcp_server.py PORT"""

import sys

from fastmcp import Context, FastMCP

mcp = FastMCP("fastmcp")


@mcp.tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@mcp.tool
async def count(to: int, ctx: Context) -> str:
    """Count, with progress."""
    for step in range(1, to + 1):
        await ctx.report_progress(step, to, f"step {step}")
    return f"counted to {to}"


mcp.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
