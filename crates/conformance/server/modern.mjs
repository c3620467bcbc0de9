// A server of version 2 of the TypeScript SDK, for the scenarios of 2026-07-28.

import { createServer } from 'node:http';

import { localhostHostValidation, localhostOriginValidation, toNodeHandler } from '@modelcontextprotocol/node';
import {
  createMcpHandler,
  createRequestStateCodec,
  MissingRequiredClientCapabilityError,
  ProtocolError,
  Server,
} from '@modelcontextprotocol/server';

import * as answers from './answers.mjs';

const INVALID_PARAMS = -32602;
const said = (words) => ({ content: [{ type: 'text', text: words }] });
const states = createRequestStateCodec({ key: 'the key of a test, at least 32 bytes long' });

const required = (name, type) => ({ type: 'object', properties: { [name]: { type } }, required: [name] });
const elicit = (message, name, type = 'string') => ({
  method: 'elicitation/create',
  params: { message, requestedSchema: required(name, type) },
});
const sample = (words, maxTokens) => ({
  method: 'sampling/createMessage',
  params: { messages: [{ role: 'user', content: { type: 'text', text: words } }], maxTokens },
});
const roots = { method: 'roots/list', params: {} };

const ask = (inputRequests, requestState) => ({
  resultType: 'input_required',
  inputRequests,
  ...(requestState && { requestState }),
});

/** Whether a response has the form of an answer to its request. */
function isAnswer(request, response) {
  if (!response || typeof response !== 'object') return false;
  switch (request.method) {
    case 'elicitation/create': {
      if (response.action !== 'accept') return ['decline', 'cancel'].includes(response.action);
      const { required: names, properties } = request.params.requestedSchema;
      return names.every((name) => typeof response.content?.[name] === properties[name].type);
    }
    case 'sampling/createMessage':
      return typeof response.content === 'object';
    default:
      return Array.isArray(response.roots);
  }
}

/** Asks until all answers are there, then ends with them. */
const asking = (inputRequests, end, state) => async (ctx) => {
  const given = ctx.mcpReq.inputResponses ?? {};
  const missing = Object.keys(inputRequests).filter((key) => !isAnswer(inputRequests[key], given[key]));
  const unstated = state && ctx.mcpReq.requestState() === undefined;
  if (missing.length === 0 && !unstated) return end(given);
  return ask(inputRequests, state && (await states.mint(state)));
};

const name = (key = 'user_name') => ({ [key]: elicit('What is your name?', 'name') });
const confirm = { confirm: elicit('Please confirm', 'ok', 'boolean') };
const everything = {
  ...name(),
  greeting: sample('Generate a greeting', 50),
  client_roots: roots,
};

const inputTools = {
  test_input_required_result_elicitation: asking(name(), (given) =>
    said(`Hello, ${given.user_name.content?.name}!`),
  ),
  test_input_required_result_sampling: asking(
    { capital_question: sample('What is the capital of France?', 100) },
    (given) => said(given.capital_question.content.text),
  ),
  test_input_required_result_list_roots: asking({ client_roots: roots }, (given) =>
    said(given.client_roots.roots.map((root) => root.uri).join(' ')),
  ),
  test_input_required_result_request_state: asking(confirm, () => said('state-ok'), { round: 1 }),
  test_input_required_result_tampered_state: asking(confirm, () => said('state-ok'), { round: 1 }),
  test_input_required_result_multiple_inputs: asking(
    everything,
    (given) => said(`Hello, ${given.user_name.content?.name}`),
    { round: 1 },
  ),
  async test_input_required_result_multi_round(ctx) {
    const first = { step1: elicit('Step 1: What is your name?', 'name') };
    const second = { step2: elicit('Step 2: What is your favorite color?', 'color') };
    const given = ctx.mcpReq.inputResponses ?? {};
    const state = ctx.mcpReq.requestState();
    if (state?.round === 2 && isAnswer(second.step2, given.step2)) {
      return said(`${state.name} likes ${given.step2.content?.color}`);
    }
    if (state?.round === 1 && isAnswer(first.step1, given.step1)) {
      const name = given.step1.content?.name;
      return ask(second, await states.mint({ round: 2, name }));
    }
    return ask(first, await states.mint({ round: 1 }));
  },
  async test_input_required_result_capabilities(ctx) {
    const declared = capabilitiesOf(ctx);
    const possible = {
      ...(declared.elicitation && name()),
      ...(declared.sampling && { greeting: sample('Generate a greeting', 50) }),
      ...(declared.roots && { client_roots: roots }),
    };
    return Object.keys(possible).length === 0 ? said('nothing to ask') : asking(possible, () => said('done'))(ctx);
  },
};

const capabilitiesOf = (ctx) =>
  ctx.mcpReq.envelope?.['io.modelcontextprotocol/clientCapabilities'] ?? {};

const notify = (ctx, method, params) => ctx.mcpReq.notify({ method, params });

const tools = {
  ...Object.fromEntries(
    Object.entries(answers.simpleTools).map(([name, run]) => [name, (_, args) => ({ content: run(args) })]),
  ),
  ...inputTools,
  test_error_handling: () => answers.failure,
  async test_tool_with_progress(ctx) {
    const progressToken = ctx.mcpReq._meta?.progressToken;
    for (const progress of [0, 50, 100]) {
      if (progressToken !== undefined) {
        await notify(ctx, 'notifications/progress', { progressToken, progress, total: 100 });
      }
      await answers.pause();
    }
    return said('progressed');
  },
  async test_logging_tool(ctx) {
    if (ctx.mcpReq.envelope?.['io.modelcontextprotocol/logLevel']) {
      await notify(ctx, 'notifications/message', { level: 'info', data: 'logged' });
    }
    return said('logged');
  },
  test_missing_capability(ctx) {
    if (!capabilitiesOf(ctx).sampling) {
      throw new MissingRequiredClientCapabilityError({ requiredCapabilities: { sampling: {} } });
    }
    return said('sampling is there');
  },
  test_trigger_tool_change() {
    extraTool = !extraTool;
    handler.notify.toolsChanged();
    return said('changed');
  },
  test_trigger_prompt_change() {
    extraPrompt = !extraPrompt;
    handler.notify.promptsChanged();
    return said('changed');
  },
  test_streaming_elicitation: inputTools.test_input_required_result_elicitation,
};

const promptAsks = asking(
  { user_context: elicit('What context should the prompt use?', 'context') },
  (given) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `In ${given.user_context.content?.context}` } }],
  }),
);
const prompts = [...answers.prompts, { name: 'test_input_required_result_prompt', description: 'Asks first' }];

const invalid = (message, data) => new ProtocolError(INVALID_PARAMS, message, data);
/** What `test_trigger_tool_change` and `test_trigger_prompt_change` add and remove. */
let extraTool = false;
let extraPrompt = false;

const cached = { ttlMs: 1000, cacheScope: 'public' };

function build() {
  const capabilities = {
    tools: { listChanged: true },
    resources: { subscribe: true, listChanged: true },
    prompts: { listChanged: true },
    logging: {},
    completions: {},
  };
  const server = new Server(
    { name: 'conformance-modern', version: '1.0.0' },
    { capabilities, requestState: { verify: states.verify } },
  );
  const on = (method, run) => server.setRequestHandler(method, run);
  on('tools/list', () => {
    const names = [...Object.keys(tools), ...(extraTool ? ['test_extra_tool'] : [])];
    return { tools: answers.listTools(names), ...cached };
  });
  on('tools/call', ({ params }, ctx) => {
    const run = tools[params.name];
    if (!run) throw invalid(`unknown tool ${params.name}`);
    return params.name in answers.simpleTools ? run(ctx, params.arguments ?? {}) : run(ctx);
  });
  on('resources/list', () => ({ resources: answers.resources, ...cached }));
  on('resources/templates/list', () => ({ resourceTemplates: answers.templates, ...cached }));
  on('resources/read', ({ params }) => {
    const found = answers.read(params.uri);
    if (!found) throw invalid('Resource not found', { uri: params.uri });
    return { contents: [found], ...cached };
  });
  on('prompts/list', () => {
    const extra = extraPrompt ? [{ name: 'test_extra_prompt', description: 'Comes and goes' }] : [];
    return { prompts: [...prompts, ...extra], ...cached };
  });
  on('prompts/get', ({ params }, ctx) => {
    if (params.name === 'test_input_required_result_prompt') return promptAsks(ctx);
    const messages = answers.prompt(params.name, params.arguments);
    if (!messages) throw invalid(`unknown prompt ${params.name}`);
    return { messages };
  });
  on('completion/complete', () => answers.completion);
  return server;
}

const isHost = localhostHostValidation();
const isOrigin = localhostOriginValidation();
const handler = createMcpHandler(build, { legacy: 'reject' });
const serve = toNodeHandler(handler);
const http = createServer((request, response) => {
  if (isHost(request, response) && isOrigin(request, response)) serve(request, response);
});
answers.listen(http);
