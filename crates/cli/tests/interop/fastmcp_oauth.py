"""A FastMCP 4 server behind its own OAuth provider. Usage: fastmcp_oauth.py PORT

Access tokens live for five seconds, and refresh tokens are rotated. The provider deletes the refresh
token of an expired access token that it sees, so a client must refresh before.
"""

import sys

from fastmcp import FastMCP
from fastmcp.server.auth.auth import ClientRegistrationOptions, RevocationOptions
from fastmcp.server.auth.providers import in_memory

in_memory.DEFAULT_ACCESS_TOKEN_EXPIRY_SECONDS = 5

port = int(sys.argv[1])
mcp = FastMCP(
    "protected",
    auth=in_memory.InMemoryOAuthProvider(
        base_url=f"http://127.0.0.1:{port}",
        client_registration_options=ClientRegistrationOptions(
            enabled=True, valid_scopes=["mcp:tools"], default_scopes=["mcp:tools"]
        ),
        revocation_options=RevocationOptions(enabled=True),
        required_scopes=["mcp:tools"],
    ),
)


@mcp.tool
def greet() -> str:
    """Greet."""
    return "hello"


mcp.run(transport="http", host="127.0.0.1", port=port, show_banner=False)
