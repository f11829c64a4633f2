// skills.mjs MODE URL: reads all skills by the skills client of the TypeScript SDK, which
// checks every entry and every file, and writes what came of it as one JSON object.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills';

const [mode, url] = process.argv.slice(2);
const client = new Client(
  { name: 'interop', version: '1.0.0' },
  { versionNegotiation: { mode: mode === 'legacy' ? mode : { pin: mode } } },
);
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const skills = new SkillsClient(client);
const report = { version: client.getNegotiatedProtocolVersion(), directoryRead: skills.directoryRead, skills: [], failures: [] };

const attempt = async (what, fn) => {
  try {
    return await fn();
  } catch (error) {
    report.failures.push(`${what}: ${error.message ?? error}`);
  }
};

const listed = await attempt('list', () => skills.list());
for (const skill of listed?.skills ?? []) {
  const one = { uri: skill.uri, files: [], children: [] };
  report.skills.push(one);
  await attempt(`get ${skill.uri}`, async () => {
    const got = await skills.get(skill.uri);
    if (JSON.stringify(got.skill) !== JSON.stringify(skill)) throw new Error('it is another entry than in the list');
  });
  await attempt(`read ${skill.uri}`, () => skills.read(skill));
  for (const file of skill.resources === 'dynamic' ? [] : skill.resources) {
    const read = await attempt(`read ${file.uri}`, () => skills.read(skill, file.uri));
    if (read?.verified) one.files.push(file.uri);
  }
  const root = skill.uri.slice(0, -'/SKILL.md'.length);
  const directory = await attempt(`directory ${root}`, () => skills.readDirectory(root));
  one.children = (directory?.resources ?? []).map((child) => child.uri);
}
await client.close();
process.stdout.write(JSON.stringify(report));
