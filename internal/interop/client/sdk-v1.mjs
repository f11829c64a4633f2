// @modelcontextprotocol/sdk, the TypeScript SDK of the stateful revisions.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';

export async function connect(url, mode, info, capabilities, handlers) {
  const client = new Client(info, { capabilities });
  client.setRequestHandler(ElicitRequestSchema, handlers.elicit);
  client.setRequestHandler(CreateMessageRequestSchema, handlers.sample);
  client.setRequestHandler(ListRootsRequestSchema, handlers.roots);
  client.setNotificationHandler(LoggingMessageNotificationSchema, handlers.log);
  const transport = new StreamableHTTPClientTransport(new URL(url));
  await client.connect(transport);
  return {
    client,
    version: transport.protocolVersion,
    call: (params, options) => client.callTool(params, undefined, options),
    close: async () => {
      await transport.terminateSession();
      await client.close();
    },
  };
}
