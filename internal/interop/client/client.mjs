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
const changed = 'notifications/tools/list_changed';

// notes are the notifications that have come, and next is settled by the next of them.
const notes = [];
let tell;
let next;
const expect = () => (next = new Promise((resolve) => (tell = resolve)));
expect();
const note = async ({ method, params }) => {
  notes.push({ method, params });
  tell();
  expect();
};
const found = (from, method, about = '') =>
  notes.slice(from).filter((n) => n.method === method && JSON.stringify(n.params ?? {}).includes(about));

// until waits until a test of what has come holds.
async function until(test) {
  const late = AbortSignal.timeout(60_000);
  const over = new Promise((resolve) => late.addEventListener('abort', resolve, { once: true }));
  for (;;) {
    const coming = next; // and may come during the test
    if (await test()) return true;
    if (late.aborted) return false;
    await Promise.race([coming, over]);
  }
}

const peer = await connect(
  url,
  mode,
  { name: 'interop', version: '1.0.0' },
  { elicitation: { form: {}, url: {} }, sampling: {}, roots: {} },
  {
    elicit: async ({ params }) => ({ action: 'accept', ...(params.mode !== 'url' && { content: { name: 'Ada' } }) }),
    sample: async () => ({ role: 'assistant', model: 'none', content: { type: 'text', text: 'sampled' } }),
    roots: async () => ({ roots: [{ uri: process.env.ROOT, name: 'files' }] }),
    log: async (message) => {
      logs.push(message.params);
      await note(message);
    },
    other: note,
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
  'logging/setLevel': (step) => peer.level(step.params.level),
  ping: () => client.ping(),
  listen: (step) => peer.listen(step.params.uris),
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
  const from = notes.length;
  try {
    outcome.result = await operations[step.method](step, outcome.progress);
  } catch (error) {
    outcome.error = { code: Number.isInteger(error.code) ? error.code : 0, message: String(error.message ?? error) };
  }
  if (step.await) outcome.noticed = await until(() => found(from, step.await, step.about).length > 0);
  if (step.listed) {
    let seen = 0;
    outcome.noticed = await until(async () => {
      const notices = found(from, changed).length;
      if (notices === seen) return false;
      seen = notices; // a list that is fetched after a notification has to name the tool
      return (await operations['tools/list']()).tools.some((tool) => tool.name === step.listed);
    });
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
