// server-v2.mjs stdio | HOST:PORT: a server of 2026-07-28 on @modelcontextprotocol/server,
// the TypeScript SDK of both eras; over HTTP at /mcp.
import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { completable, createMcpHandler, inputRequired, inputResponse, McpServer, ResourceTemplate } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const says = (text) => ({ content: [{ type: 'text', text }] });

// asking is a tool that asks one question and says what was answered.
const asking = (question, said) => (ctx) => {
  const answer = inputResponse(ctx.mcpReq.inputResponses, 'question');
  return answer.kind === 'missing' ? inputRequired({ inputRequests: { question: question() } }) : says(said(answer));
};

function make() {
  const server = new McpServer({ name: 'v2', version: '1.0.0' }, { capabilities: { logging: {} } });
  const echo = { inputSchema: z.object({ text: z.string() }), outputSchema: z.object({ length: z.number() }) };
  server.registerTool('echo', echo, ({ text }) => ({ ...says(text), structuredContent: { length: text.length } }));
  server.registerTool('count', { inputSchema: z.object({ to: z.number() }) }, async ({ to }, { mcpReq }) => {
    const progressToken = mcpReq._meta?.progressToken;
    for (let i = 1; i <= to && progressToken !== undefined; i++) {
      await mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress: i, total: to } });
    }
    return says(`counted to ${to}`);
  });
  const requestedSchema = z.object({ name: z.string() });
  const messages = [{ role: 'user', content: { type: 'text', text: 'say something' } }];
  const confirm = () => inputRequired.elicit({ message: 'Who are you?', requestedSchema });
  server.registerTool('confirm', {}, asking(confirm, ({ action, content }) => `${action} ${content?.name}`));
  const sample = () => inputRequired.createMessage({ messages, maxTokens: 10 });
  server.registerTool('sample', {}, asking(sample, ({ result }) => result.content.text));
  server.registerTool('roots', {}, asking(() => inputRequired.listRoots(), ({ roots }) => roots[0].name));
  server.registerResource('today', 'memo://today', {}, () => ({ contents: [{ uri: 'memo://today', text: 'nothing to do' }] }));
  server.registerResource('day', new ResourceTemplate('memo://day/{day}', { list: undefined }), {}, (uri, { day }) => ({
    contents: [{ uri: uri.href, text: `memo of ${day}` }],
  }));
  const argsSchema = z.object({ code: completable(z.string(), (value) => [`${value}!`]) });
  server.registerPrompt('review', { argsSchema }, ({ code }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `Please review: ${code}` } }],
  }));
  return server;
}

const [host, port] = process.argv[2].split(':');
if (host === 'stdio') {
  serveStdio(make);
} else {
  const handler = createMcpHandler(make, { legacy: 'reject' });
  createServer(async (request, response) => {
    const body = request.method === 'POST' ? Readable.toWeb(request) : undefined;
    const gone = new AbortController();
    response.on('close', () => gone.abort());
    const answer = await handler.fetch(
      new Request(`http://${request.headers.host}${request.url}`, {
        method: request.method,
        headers: request.headers,
        body,
        duplex: 'half',
        signal: gone.signal,
      }),
    );
    response.writeHead(answer.status, Object.fromEntries(answer.headers));
    if (answer.body) Readable.fromWeb(answer.body).pipe(response);
    else response.end();
  }).listen(Number(port), host);
}
