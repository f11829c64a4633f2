// client.mjs SDK MODE URL [USER | browser [DOCUMENT]]: connects, as a user who signs in if one is
// named, or with whoever signs in in a browser, and as the client that DOCUMENT, a URL, describes. It takes the steps that stand on standard input as a JSON array, one after the other,
// and writes what came of each as one JSON object.
import { text } from 'node:stream/consumers';
import { Account } from './account.mjs';
import { Desktop } from './desktop.mjs';

const [sdk, mode, url, user, document] = process.argv.slice(2);
const { connect } = await import(`./sdk-${sdk}.mjs`);
const steps = JSON.parse(await text(process.stdin));

const account = user === 'browser' ? await Desktop.open(document) : user && new Account(user);
const logs = [];
const peer = await connect(
  url,
  mode,
  { name: 'interop', version: '1.0.0' },
  { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} },
  {
    elicit: async ({ params }) => ({ action: 'accept', ...(params.mode !== 'url' && { content: { name: 'Ada' } }) }),
    sample: async () => ({ role: 'assistant', model: 'none', content: { type: 'text', text: 'sampled' } }),
    roots: async () => ({ roots: [{ uri: process.env.ROOT, name: 'files' }] }),
    log: async (note) => void logs.push(note.params),
  },
  account,
);
const { client } = peer;

// all follows the cursors of a list to its end.
async function all(list, member) {
  const items = [];
  let cursor;
  do {
    const page = await list(cursor === undefined ? {} : { cursor });
    items.push(...page[member]);
    cursor = page.nextCursor;
  } while (cursor !== undefined);
  return { [member]: items };
}

// call calls a tool; step.cancelAfter cancels it after that many progress events.
async function call(step, progress) {
  const abort = new AbortController();
  const onprogress = (event) => {
    progress.push(event);
    if (progress.length === step.cancelAfter) abort.abort('the user changed their mind');
  };
  return peer.call(step.params, { signal: abort.signal, ...(step.progress && { onprogress }) });
}

const operations = {
  'tools/list': () => all((p) => client.listTools(p), 'tools'),
  'resources/list': () => all((p) => client.listResources(p), 'resources'),
  'resources/templates/list': () => all((p) => client.listResourceTemplates(p), 'resourceTemplates'),
  'prompts/list': () => all((p) => client.listPrompts(p), 'prompts'),
  'tools/call': call,
  'resources/read': (step) => client.readResource(step.params),
  'prompts/get': (step) => client.getPrompt(step.params),
  'completion/complete': (step) => client.complete(step.params),
  'logging/setLevel': (step) => client.setLoggingLevel(step.params.level),
  ping: () => client.ping(),
  // The SDKs have no types for these.
  'skills/list': (step) => peer.request(step.method, step.params ?? {}),
  'skills/get': (step) => peer.request(step.method, step.params),
  'resources/directory/read': (step) => peer.request(step.method, step.params),
  // Not of MCP: the access token becomes an old one.
  'account/age': (step) => account.age(step.params.seconds),
};

const outcomes = [];
for (const step of steps) {
  const outcome = { progress: [] };
  try {
    outcome.result = await operations[step.method](step, outcome.progress);
  } catch (error) {
    outcome.error = { code: Number.isInteger(error.code) ? error.code : 0, message: String(error.message ?? error) };
  }
  outcomes.push(outcome);
}
const report = {
  version: peer.version,
  server: client.getServerVersion(),
  capabilities: client.getServerCapabilities(),
  instructions: client.getInstructions(),
  logs,
  outcomes,
  trace: account?.trace,
};
await peer.close();
account?.close?.();
process.stdout.write(JSON.stringify(report));
