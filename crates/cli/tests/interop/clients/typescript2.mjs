// The client of version 2 of the TypeScript SDK: `typescript2.mjs http URL | stdio COMMAND ARGS…`.

import { pathToFileURL } from 'node:url';

const modules = `${process.env.PACKAGES}/node_modules/@modelcontextprotocol/client/dist`;
const load = (file) => import(pathToFileURL(`${modules}/${file}`));
const { Client, StreamableHTTPClientTransport } = await load('index.mjs');
const { StdioClientTransport } = await load('stdio.mjs');

const [way, place, ...args] = process.argv.slice(2);
const transport =
  way === 'http'
    ? new StreamableHTTPClientTransport(new URL(place))
    : new StdioClientTransport({ command: place, args, env: process.env, stderr: 'inherit' });
const client = new Client(
  { name: 'typescript2', version: '1' },
  { capabilities: { elicitation: { form: {} } }, versionNegotiation: { mode: 'auto' } },
);
const asked = [];
client.setRequestHandler('elicitation/create', ({ params }) => {
  asked.push(params.message);
  return { action: 'accept', content: { name: 'Ada', check: true } };
});
await client.connect(transport);

const name = (tool) => `mcp__everything__${tool}`;
const call = (tool, given, options) => client.callTool({ name: name(tool), arguments: given }, options);
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
    version: client.getNegotiatedProtocolVersion?.(),
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
