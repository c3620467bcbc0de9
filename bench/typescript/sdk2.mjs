// @modelcontextprotocol/client 2.x, with its default handshake (`initialize`): the modern one would start
// a second process to probe the server and send more bytes with each call.
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { main } from "./client.mjs";

await main(async (command, args) => {
  const client = new Client({ name: "bench", version: "0" });
  await client.connect(new StdioClientTransport({ command, args }));
  return client;
});
