// @modelcontextprotocol/client, the TypeScript SDK of both eras.
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { looseObject } from 'zod';

export async function connect(url, mode, info, capabilities, handlers, account) {
  const client = new Client(info, {
    capabilities,
    versionNegotiation: { mode: mode === 'legacy' || mode === 'auto' ? mode : { pin: mode } },
  });
  client.setRequestHandler('elicitation/create', handlers.elicit);
  client.setRequestHandler('sampling/createMessage', handlers.sample);
  client.setRequestHandler('roots/list', handlers.roots);
  client.setNotificationHandler('notifications/message', handlers.log);
  client.fallbackNotificationHandler = handlers.other;
  const { BRIDGE } = process.env; // the path of gatehouse, to go over its bridge
  const dial = () =>
    BRIDGE
      ? new StdioClientTransport({ command: BRIDGE, args: ['connect', '--stdio', url], env: process.env })
      : new StreamableHTTPClientTransport(new URL(url), account && { authProvider: account, fetch: account.fetch });
  let transport = dial();
  try {
    await client.connect(transport);
  } catch (error) {
    if (!(error instanceof UnauthorizedError) || !account) throw error;
    await transport.finishAuth(await account.signIn());
    transport = dial();
    await client.connect(transport);
  }
  const sessions = client.getNegotiatedProtocolVersion() < '2026';
  let _meta; // without sessions, each call says what it wants logged
  return {
    client,
    version: client.getNegotiatedProtocolVersion(),
    call: (params, options) => client.callTool({ ...params, ...(_meta && { _meta }) }, options),
    level: async (level) => {
      if (sessions) return client.setLoggingLevel(level);
      _meta = { 'io.modelcontextprotocol/logLevel': level };
      return {};
    },
    listen: async (uris) => {
      if (!sessions) await client.listen({ toolsListChanged: true, resourceSubscriptions: uris });
      else for (const uri of uris) await client.subscribeResource({ uri });
      return {};
    },
    request: (method, params) => client.request({ method, params }, looseObject({})),
    close: async () => {
      if (transport.sessionId) await transport.terminateSession();
      await client.close();
    },
  };
}
