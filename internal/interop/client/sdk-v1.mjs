// @modelcontextprotocol/sdk, the TypeScript SDK of the stateful revisions.
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { looseObject } from 'zod';

export async function connect(url, mode, info, capabilities, handlers, account) {
  const client = new Client(info, { capabilities });
  client.setRequestHandler(ElicitRequestSchema, handlers.elicit);
  client.setRequestHandler(CreateMessageRequestSchema, handlers.sample);
  client.setRequestHandler(ListRootsRequestSchema, handlers.roots);
  client.setNotificationHandler(LoggingMessageNotificationSchema, handlers.log);
  client.fallbackNotificationHandler = handlers.other;
  // mode: "sse" for HTTP+SSE, a revision to offer, or both; else the SDK's own. With BRIDGE, the path of gatehouse, over
  // its bridge.
  const Transport = mode.startsWith('sse') ? SSEClientTransport : StreamableHTTPClientTransport;
  const [revision] = /\d{4}-\d\d-\d\d/.exec(mode) ?? [];
  const { BRIDGE } = process.env;
  const dial = () => {
    const transport = BRIDGE
      ? new StdioClientTransport({ command: BRIDGE, args: ['connect', '--stdio', url], env: process.env })
      : new Transport(new URL(url), account && { authProvider: account, fetch: account.fetch });
    if (BRIDGE) transport.setProtocolVersion = (version) => (transport.protocolVersion = version);
    if (!revision) return transport;
    const send = transport.send.bind(transport); // the SDK offers its newest revision only
    transport.send = (message, options) => {
      const offer = message.method === 'initialize' && { params: { ...message.params, protocolVersion: revision } };
      return send({ ...message, ...offer }, options);
    };
    return transport;
  };
  let transport = dial();
  try {
    await client.connect(transport);
  } catch (error) {
    if (!(error instanceof UnauthorizedError) || !account) throw error;
    await transport.finishAuth((await account.signIn()).get('code'));
    transport = dial();
    await client.connect(transport);
  }
  return {
    client,
    version: transport.protocolVersion ?? transport._protocolVersion, // of SSE, which does not show it
    call: (params, options) => client.callTool(params, undefined, options),
    level: (level) => client.setLoggingLevel(level),
    listen: async (uris) => {
      for (const uri of uris) await client.subscribeResource({ uri });
      return {};
    },
    request: (method, params) => client.request({ method, params }, looseObject({})),
    close: async () => {
      await transport.terminateSession?.();
      await client.close();
    },
  };
}
