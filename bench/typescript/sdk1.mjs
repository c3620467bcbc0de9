// @modelcontextprotocol/sdk 1.x.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { main } from "./client.mjs";

await main(async (command, args) => {
  const client = new Client({ name: "bench", version: "0" });
  await client.connect(
    command.startsWith("http://")
      ? new StreamableHTTPClientTransport(new URL(command))
      : new StdioClientTransport({ command, args }),
  );
  return client;
});
