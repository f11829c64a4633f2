// @modelcontextprotocol/sdk, the TypeScript SDK of the stateful revisions.
import { UnauthorizedError } from '@modelcontextprotocol/sdk/client/auth.js';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';

export async function connect(url, mode, info, capabilities, handlers, account) {
  const client = new Client(info, { capabilities });
  client.setRequestHandler(ElicitRequestSchema, handlers.elicit);
  client.setRequestHandler(CreateMessageRequestSchema, handlers.sample);
  client.setRequestHandler(ListRootsRequestSchema, handlers.roots);
  client.setNotificationHandler(LoggingMessageNotificationSchema, handlers.log);
  const dial = () => new StreamableHTTPClientTransport(new URL(url), account && { authProvider: account, fetch: account.fetch });
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
    version: transport.protocolVersion,
    call: (params, options) => client.callTool(params, undefined, options),
    close: async () => {
      await transport.terminateSession();
      await client.close();
    },
  };
}
