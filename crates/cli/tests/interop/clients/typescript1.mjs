// The client of version 1 of the TypeScript SDK: `typescript1.mjs http URL | stdio COMMAND ARGS…`.

import { createRequire } from 'node:module';

const require = createRequire(`${process.env.PACKAGES}/`);
const { Client } = require('@modelcontextprotocol/sdk/client/index.js');
const { StdioClientTransport } = require('@modelcontextprotocol/sdk/client/stdio.js');
const { StreamableHTTPClientTransport } = require('@modelcontextprotocol/sdk/client/streamableHttp.js');
const { ElicitRequestSchema } = require('@modelcontextprotocol/sdk/types.js');

const [way, place, ...args] = process.argv.slice(2);
const transport =
  way === 'http'
    ? new StreamableHTTPClientTransport(new URL(place))
    : new StdioClientTransport({ command: place, args, env: process.env, stderr: 'inherit' });
const client = new Client(
  { name: 'typescript1', version: '1' },
  { capabilities: { elicitation: { form: {} } } },
);
const asked = [];
client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
  asked.push(params.message);
  return { action: 'accept', content: { name: 'Ada', check: true } };
});
await client.connect(transport);

const name = (tool) => `mcp__everything__${tool}`;
const call = (tool, given, options) =>
  client.callTool({ name: name(tool), arguments: given }, undefined, options);
const text = (result) => result.content.map((block) => block.text).join('\n');

const { tools } = await client.listTools();
const { resources } = await client.listResources();
const { contents } = await client.readResource({ uri: resources[0].uri });
const { prompts } = await client.listPrompts();
const { messages } = await client.getPrompt({ name: name('simple-prompt') });
const progress = [];
await call(
  'trigger-long-running-operation',
  { duration: 0.4, steps: 4 },
  { onprogress: (step) => progress.push(step.progress) },
);
const stop = new AbortController();
const cancelled = await call(
  'trigger-long-running-operation',
  { duration: 60, steps: 600 },
  { onprogress: () => stop.abort('enough'), signal: stop.signal },
).then(
  () => false,
  () => true,
);
const elicited = text(await call('trigger-elicitation-request', {}));
console.log(
  JSON.stringify({
    tools: tools.map((tool) => tool.name),
    echo: text(await call('echo', { message: 'héllo' })),
    resource: contents[0].text ?? contents[0].blob,
    prompts: prompts.map((prompt) => prompt.name),
    prompt: messages[0].content.text,
    progress,
    cancelled,
    asked,
    elicited,
  }),
);
await client.close();
