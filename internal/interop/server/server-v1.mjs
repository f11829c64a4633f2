// server-v1.mjs stdio | HOST:PORT: a server on @modelcontextprotocol/sdk, the TypeScript
// SDK of the stateful revisions; over HTTP at /mcp, and at /sse over HTTP+SSE.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { completable } from '@modelcontextprotocol/sdk/server/completable.js';
import { McpServer, ResourceTemplate } from '@modelcontextprotocol/sdk/server/mcp.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { z } from 'zod';

const says = (text) => ({ content: [{ type: 'text', text }] });

function make() {
  const server = new McpServer({ name: 'v1', version: '1.0.0' }, { capabilities: { logging: {} } });
  server.registerTool('echo', { inputSchema: { text: z.string() }, outputSchema: { length: z.number() } }, ({ text }) => ({
    ...says(text),
    structuredContent: { length: text.length },
  }));
  server.registerTool('count', { inputSchema: { to: z.number() } }, async ({ to }, { _meta, sendNotification }) => {
    for (let i = 1; i <= to; i++) {
      const params = { progressToken: _meta?.progressToken, progress: i, total: to };
      if (_meta?.progressToken !== undefined) await sendNotification({ method: 'notifications/progress', params });
    }
    return says(`counted to ${to}`);
  });
  server.registerTool('confirm', {}, async () => {
    const requestedSchema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
    const { action, content } = await server.server.elicitInput({ message: 'Who are you?', requestedSchema });
    return says(`${action} ${content?.name}`);
  });
  server.registerTool('sample', {}, async () => {
    const messages = [{ role: 'user', content: { type: 'text', text: 'say something' } }];
    const { content } = await server.server.createMessage({ messages, maxTokens: 10 });
    return says(content.text);
  });
  server.registerTool('roots', {}, async () => says((await server.server.listRoots()).roots[0].name));
  server.registerResource('today', 'memo://today', {}, () => ({ contents: [{ uri: 'memo://today', text: 'nothing to do' }] }));
  server.registerResource('day', new ResourceTemplate('memo://day/{day}', { list: undefined }), {}, (uri, { day }) => ({
    contents: [{ uri: uri.href, text: `memo of ${day}` }],
  }));
  const argsSchema = { code: completable(z.string(), (value) => [`${value}!`]) };
  server.registerPrompt('review', { argsSchema }, ({ code }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Please review: ${code}` } }],
  }));
  return server;
}

const sessions = new Map();

async function serve(request, response) {
  const url = new URL(request.url, 'http://localhost');
  const id = request.headers['mcp-session-id'] ?? url.searchParams.get('sessionId');
  const known = sessions.get(id);
  if (url.pathname === '/messages' && known) return known.handlePostMessage(request, response);
  if (url.pathname === '/mcp' && known) return known.handleRequest(request, response);
  if (id) return response.writeHead(404).end();
  let transport;
  if (url.pathname === '/sse' && request.method === 'GET') {
    transport = new SSEServerTransport('/messages', response);
    sessions.set(transport.sessionId, transport);
  } else if (url.pathname === '/mcp') {
    const onsessioninitialized = (id) => void sessions.set(id, transport);
    transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized });
  } else {
    return response.writeHead(405).end();
  }
  transport.onclose = () => sessions.delete(transport.sessionId);
  await make().connect(transport);
  if (url.pathname === '/mcp') await transport.handleRequest(request, response);
}

const [host, port] = process.argv[2].split(':');
if (host === 'stdio') {
  await make().connect(new StdioServerTransport());
} else {
  createServer((request, response) => void serve(request, response)).listen(Number(port), host);
}
