// `oidc-provider` as the authorization server, behind it an MCP server of the TypeScript SDK that
// asks it about each token. Usage: oidc_provider.mjs NODE_MODULES MCP_PORT AUTH_PORT
//
// Access tokens live for three seconds, refresh tokens are rotated. `/grants` counts the grants.

import { createRequire } from 'node:module';

const [folder, mcpPort, authPort] = process.argv.slice(2);
const require = createRequire(`${folder}/`);
const { Provider } = require('oidc-provider');
const express = require('express');
const { McpServer } = require('@modelcontextprotocol/sdk/server/mcp.js');
const { StreamableHTTPServerTransport } = require('@modelcontextprotocol/sdk/server/streamableHttp.js');
const { requireBearerAuth } = require('@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js');

const issuer = `http://127.0.0.1:${authPort}`;
const resource = `http://127.0.0.1:${mcpPort}/mcp`;
const ACCESS_TOKEN_SECONDS = 3;

const provider = new Provider(issuer, {
  clients: [{
    client_id: 'mcp-server',
    client_secret: 'for-introspection',
    grant_types: [],
    redirect_uris: [],
    response_types: [],
  }],
  cookies: { keys: ['not a secret'] },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  scopes: ['openid', 'offline_access', 'mcp:tools'],
  ttl: { AccessToken: ACCESS_TOKEN_SECONDS, Grant: 600, Interaction: 600, RefreshToken: 600, Session: 600 },
  rotateRefreshToken: true,
  features: {
    deviceFlow: { enabled: true },
    introspection: { enabled: true, allowedPolicy: () => true },
    registration: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_, indicator) => {
        if (indicator !== resource) throw new Error(`no such resource: ${indicator}`);
        return { scope: 'mcp:tools', accessTokenTTL: ACCESS_TOKEN_SECONDS, accessTokenFormat: 'opaque' };
      },
    },
  },
});

const grants = {};
provider.on('grant.success', (ctx) => {
  const type = ctx.oidc.params.grant_type;
  grants[type] = (grants[type] ?? 0) + 1;
});

const auth = express();
auth.get('/grants', (_, response) => response.json(grants));
auth.use(provider.callback());
auth.listen(authPort, '127.0.0.1');

const verifyAccessToken = async (token) => {
  const response = await fetch(`${issuer}/token/introspection`, {
    method: 'POST',
    headers: { authorization: `Basic ${Buffer.from('mcp-server:for-introspection').toString('base64')}` },
    body: new URLSearchParams({ token }),
  });
  const { active, client_id: clientId, exp: expiresAt, scope, aud } = await response.json();
  if (!active || aud !== resource) {
    const { InvalidTokenError } = require('@modelcontextprotocol/sdk/server/auth/errors.js');
    throw new InvalidTokenError('the token is not valid');
  }
  return { token, clientId, expiresAt, scopes: scope.split(' ') };
};

const mcp = express();
mcp.get('/.well-known/oauth-protected-resource/mcp', (_, response) => response.json({
  resource,
  authorization_servers: [issuer],
  scopes_supported: ['mcp:tools'],
}));
const isSignedIn = requireBearerAuth({
  verifier: { verifyAccessToken },
  requiredScopes: ['mcp:tools'],
  resourceMetadataUrl: `http://127.0.0.1:${mcpPort}/.well-known/oauth-protected-resource/mcp`,
});
mcp.post('/mcp', isSignedIn, express.json(), async (request, response) => {
  const server = new McpServer({ name: 'protected', version: '1' });
  server.registerTool('greet', { description: 'Greets' }, () => ({
    content: [{ type: 'text', text: 'hello' }],
  }));
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
  response.on('close', () => transport.close());
  await server.connect(transport);
  await transport.handleRequest(request, response, request.body);
});
mcp.all('/mcp', isSignedIn, (_, response) => response.status(405).end());
mcp.listen(mcpPort, '127.0.0.1');
