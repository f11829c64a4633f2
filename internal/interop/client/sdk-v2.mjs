// @modelcontextprotocol/client, the TypeScript SDK of both eras.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

export async function connect(url, mode, info, capabilities, handlers) {
  const client = new Client(info, {
    capabilities,
    versionNegotiation: { mode: mode === 'legacy' || mode === 'auto' ? mode : { pin: mode } },
  });
  client.setRequestHandler('elicitation/create', handlers.elicit);
  client.setRequestHandler('sampling/createMessage', handlers.sample);
  client.setRequestHandler('roots/list', handlers.roots);
  client.setNotificationHandler('notifications/message', handlers.log);
  const transport = new StreamableHTTPClientTransport(new URL(url));
  await client.connect(transport);
  return {
    client,
    version: client.getNegotiatedProtocolVersion(),
    call: (params, options) => client.callTool(params, options),
    close: async () => {
      if (transport.sessionId) await transport.terminateSession();
      await client.close();
    },
  };
}
