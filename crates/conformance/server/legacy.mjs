// A server of version 1 of the TypeScript SDK, for the scenarios of 2025-11-25 and earlier.

import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import * as types from '@modelcontextprotocol/sdk/types.js';

import * as answers from './answers.mjs';

const said = (words) => ({ content: [{ type: 'text', text: words }] });

const tools = {
  ...Object.fromEntries(
    Object.entries(answers.simpleTools).map(([name, run]) => [name, (args) => ({ content: run(args) })]),
  ),
  test_error_handling: () => answers.failure,
  async test_tool_with_logging(_, extra) {
    for (const data of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
      await extra.sendNotification({ method: 'notifications/message', params: { level: 'info', data } });
      await answers.pause();
    }
    return said('logged');
  },
  async test_tool_with_progress(_, extra) {
    const progressToken = extra._meta?.progressToken;
    for (const progress of [0, 50, 100]) {
      if (progressToken !== undefined) {
        const params = { progressToken, progress, total: 100 };
        await extra.sendNotification({ method: 'notifications/progress', params });
      }
      await answers.pause();
    }
    return said('progressed');
  },
  async test_sampling({ prompt }, extra) {
    const messages = [{ role: 'user', content: { type: 'text', text: prompt } }];
    const request = { method: 'sampling/createMessage', params: { messages, maxTokens: 100 } };
    const result = await extra.sendRequest(request, types.CreateMessageResultSchema);
    return said(`LLM response: ${result.content.text}`);
  },
  async test_elicitation({ message }, extra) {
    const result = await elicit(extra, message, answers.account);
    return said(`User response: action=${result.action}, content=${JSON.stringify(result.content)}`);
  },
  test_elicitation_sep1034_defaults: (_, extra) => form(extra, answers.defaults),
  test_elicitation_sep1330_enums: (_, extra) => form(extra, answers.enums),
  async test_reconnection(_, extra) {
    extra.closeSSEStream?.();
    // Longer than the gateway waits before its answer becomes a stream.
    await new Promise((done) => setTimeout(done, 1500));
    return said('reconnected');
  },
};

const elicit = (extra, message, requestedSchema) =>
  extra.sendRequest(
    { method: 'elicitation/create', params: { message, requestedSchema } },
    types.ElicitResultSchema,
  );

async function form(extra, schema) {
  const result = await elicit(extra, 'Please fill in the form', schema);
  return said(`Elicitation completed: action=${result.action}, content=${JSON.stringify(result.content)}`);
}

const invalid = (message, data) => new types.McpError(types.ErrorCode.InvalidParams, message, data);

function build() {
  const capabilities = {
    tools: { listChanged: true },
    resources: { subscribe: true, listChanged: true },
    prompts: { listChanged: true },
    logging: {},
    completions: {},
  };
  const server = new Server({ name: 'conformance-legacy', version: '1.0.0' }, { capabilities });
  const on = (schema, run) => server.setRequestHandler(schema, run);
  on(types.ListToolsRequestSchema, () => ({ tools: answers.listTools(Object.keys(tools)) }));
  on(types.CallToolRequestSchema, ({ params }, extra) => {
    const run = tools[params.name];
    if (!run) throw invalid(`unknown tool ${params.name}`);
    return run(params.arguments ?? {}, extra);
  });
  on(types.ListResourcesRequestSchema, () => ({ resources: answers.resources }));
  on(types.ListResourceTemplatesRequestSchema, () => ({ resourceTemplates: answers.templates }));
  on(types.ReadResourceRequestSchema, ({ params }) => {
    const found = answers.read(params.uri);
    if (!found) throw invalid('Resource not found', { uri: params.uri });
    return { contents: [found] };
  });
  on(types.SubscribeRequestSchema, () => ({}));
  on(types.UnsubscribeRequestSchema, () => ({}));
  on(types.ListPromptsRequestSchema, () => ({ prompts: answers.prompts }));
  on(types.GetPromptRequestSchema, ({ params }) => {
    const messages = answers.prompt(params.name, params.arguments);
    if (!messages) throw invalid(`unknown prompt ${params.name}`);
    return { messages };
  });
  on(types.CompleteRequestSchema, () => answers.completion);
  on(types.SetLevelRequestSchema, () => ({}));
  return server;
}

/** Keeps the events of one session. */
function eventStore() {
  const events = [];
  return {
    async storeEvent(streamId, message) {
      events.push({ streamId, message });
      return String(events.length);
    },
    async getStreamIdForEventId(eventId) {
      return events[Number(eventId) - 1]?.streamId;
    },
    async replayEventsAfter(lastEventId, { send }) {
      const { streamId } = events[Number(lastEventId) - 1];
      for (let at = Number(lastEventId); at < events.length; at += 1) {
        const event = events[at];
        if (event.streamId === streamId) await send(String(at + 1), event.message);
      }
      return streamId;
    },
  };
}

const sessions = new Map();

async function transportOf(request) {
  const known = sessions.get(request.headers['mcp-session-id']);
  if (known) return known;
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    eventStore: eventStore(),
    retryInterval: 500,
    onsessioninitialized: (id) => sessions.set(id, transport),
    onsessionclosed: (id) => sessions.delete(id),
  });
  await build().connect(transport);
  return transport;
}


function refuse(response, status) {
  response.writeHead(status, { 'content-type': 'application/json' });
  response.end('{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"refused"}}');
}

const http = createServer(async (request, response) => {
  const { host, origin } = request.headers;
  const isLocal = (authority) => /^(127\.0\.0\.1|localhost|\[::1\])(:\d+)?$/.test(authority);
  if (!isLocal(host ?? '') || (origin && !isLocal(origin.replace(/^https?:\/\//, '')))) {
    return refuse(response, 403);
  }
  const id = request.headers['mcp-session-id'];
  if (id && !sessions.has(id)) return refuse(response, 404);
  await (await transportOf(request)).handleRequest(request, response);
});
answers.listen(http);
