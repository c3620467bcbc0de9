// The scenarios, written once for both TypeScript SDKs; `connect(command, args)` gives a connected client.
// The command line and the report are those of bench/client/src/lib.rs.
import { readFileSync } from "node:fs";

export async function main(connect) {
  const options = parse(process.argv.slice(2));
  const report = await scenarios[options.scenario](options, () => connect(options.command, options.args));
  console.log(JSON.stringify({ connectSeconds: null, ...report }));
}

const scenarios = {
  async sequential(options, connect) {
    const client = await connect();
    const text = "x".repeat(options.payload);
    for (let i = 0; i < options.warmUp; i++) await call(client, text);
    const start = performance.now();
    for (let i = 0; i < options.n; i++) await call(client, text);
    const report = since(start, options.n);
    await client.close();
    return report;
  },

  async inflight(options, connect) {
    const client = await connect();
    const text = "x".repeat(options.payload);
    const workers = async (total) => {
      const each = Math.ceil(total / options.inflight);
      const worker = async () => {
        for (let i = 0; i < each; i++) await call(client, text);
      };
      await Promise.all(Array.from({ length: options.inflight }, worker));
      return each * options.inflight;
    };
    await workers(options.warmUp);
    const start = performance.now();
    const report = since(start, await workers(options.n));
    await client.close();
    return report;
  },

  async list(options, connect) {
    const start = performance.now();
    const client = await connect();
    const connectSeconds = (performance.now() - start) / 1000;
    const tools = await allTools(client);
    const report = since(start, 1);
    if (tools.length !== options.n) throw new Error(`expected ${options.n} tools, got ${tools.length}`);
    await client.close();
    return { ...report, connectSeconds };
  },

  async connect(options, connect) {
    const start = performance.now();
    const clients = await Promise.all(
      Array.from({ length: options.servers }, async () => {
        const client = await connect();
        return [client, await allTools(client)];
      }),
    );
    const report = since(start, options.servers);
    await Promise.all(clients.map(([client]) => client.close()));
    return report;
  },

  async oneshot(options, connect) {
    const start = performance.now();
    const client = await connect();
    await call(client, "x".repeat(options.payload));
    await client.close();
    return since(start, 1);
  },
};

async function call(client, text) {
  const result = await client.callTool({ name: "echo", arguments: { text } });
  if (result.content[0]?.text?.length !== text.length) throw new Error("the echo is not what was sent");
}

async function allTools(client) {
  const tools = [];
  let cursor;
  do {
    const page = await client.listTools(cursor ? { cursor } : undefined);
    tools.push(...page.tools);
    cursor = page.nextCursor;
  } while (cursor);
  return tools;
}

function since(start, calls) {
  const seconds = (performance.now() - start) / 1000;
  const peak = /^VmHWM:\s+(\d+)/m.exec(readFileSync("/proc/self/status", "utf8"));
  return { seconds, calls, peakRssKb: peak ? Number(peak[1]) : null };
}

function parse([scenario, ...rest]) {
  const options = { n: 1, payload: 100, inflight: 64, servers: 1 };
  let flag;
  while ((flag = rest.shift()) !== "--") {
    if (!(flag?.slice(2) in options)) throw new Error(`unknown flag ${flag}`);
    options[flag.slice(2)] = Number(rest.shift());
  }
  const [command, ...args] = rest;
  // Enough for the JIT, however few calls are measured.
  const warmUp = Math.max(2000, Math.floor(options.n / 5));
  return { scenario, ...options, warmUp, command, args };
}
