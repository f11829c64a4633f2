// mcp-remote between a client of stdio, on the TypeScript SDK, and a server: it is the one that signs in.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

export async function connect(url, mode, info) {
  const client = new Client(info);
  await client.connect(
    new StdioClientTransport({
      command: process.execPath,
      args: ['node_modules/mcp-remote/dist/proxy.js', url, '--auth-timeout', '120', ...(mode ? mode.split(' ') : [])],
      env: process.env,
    }),
  );
  return { client, call: (params, options) => client.callTool(params, undefined, options), close: () => client.close() };
}
