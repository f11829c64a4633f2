// Opens every page of a console in Chromium: see browser.mjs. It also wants {endpoint, token,
// pages: [{path, name, says}]}, where says is a text of the page.
import { browser, finish, look, named, open, press, reach, schemes, walk, want, watch, widths, wrong } from "./browser.mjs";

// Signing in, by the keyboard.
async function signIn() {
  const context = await browser.newContext();
  const page = await open(context, () => "signing in");
  await page.goto(want.base + "/console/calls?user=alice");
  if (!page.url().includes("/console/sign-in?to=")) wrong(`without a session: ${page.url()}`);
  await press(page, `document.activeElement.textContent.trim() === "Sign in"`, "Sign in");
  await page.waitForURL((url) => url.href === want.base + "/console/calls?user=alice");
  const state = await context.storageState();
  await context.close();
  return state;
}

const state = await signIn();

// A call that worked and one that was refused, with all that is known of them.
{
  const context = await browser.newContext({ storageState: state });
  const page = await open(context, () => "looking for a call");
  for (const [name, query] of [["call", "upstream=crm&outcome=ok"], ["call-refused", "decision=deny"]]) {
    await page.goto(want.base + "/console/calls?" + query);
    want.pages.push({ name, path: await page.locator("main tbody a").first().getAttribute("href"), says: "bob" });
  }
  await context.close();
}

// Each page, at each width, light and dark.
for (const colorScheme of schemes) {
  for (const width of widths) {
    const context = await browser.newContext({ storageState: state, viewport: { width, height: 900 }, colorScheme });
    let at = "";
    const page = await open(context, () => `${at} at ${width}, ${colorScheme}`);
    for (const { path, name } of want.pages) {
      at = path;
      const answer = await page.goto(want.base + path);
      if (answer.status() !== 200) { wrong(`${path}: ${answer.status()}`); continue; }
      await look(page, name, path, width, colorScheme);
    }
    at = "/console/sign-ins with a tested token"; // no URL leads there
    await page.goto(want.base + "/console/sign-ins");
    await page.fill("[name=token]", want.token);
    await page.click("button:text-is('Test it')");
    await page.waitForSelector("main h3:text-is('What policy knows of it')");
    if (await page.inputValue("[name=token]") || page.url().includes(want.token.slice(0, 20))) wrong(`${at}: the token is still there`);
    await look(page, "sign-ins-tested", at, width, colorScheme);
    await context.close();
  }
}

// The keyboard gets to everything that can be used, and shows where it is.
{
  const context = await browser.newContext({ storageState: state, viewport: { width: 1280, height: 900 } });
  let at = "";
  const page = await open(context, () => `${at} by keyboard`);
  for (const { path } of want.pages) {
    at = path;
    await page.goto(want.base + path);
    await walk(page, path);
  }
  await context.close();
}

// Without script, all pages are there, with what they are for.
{
  const context = await browser.newContext({ storageState: state, javaScriptEnabled: false });
  const page = await context.newPage();
  for (const { path, says } of want.pages) {
    const answer = await page.goto(want.base + path);
    if (answer.status() !== 200 || !(await page.locator("h1").count())) wrong(`${path} without script: ${answer.status()}`);
    if (!(await page.locator("main").textContent()).includes(says)) wrong(`${path} does not say ${says}`);
  }
  await context.close();
}

// A call is seen while somebody looks, without loading the page again.
{
  const context = await browser.newContext({ storageState: state });
  const page = await open(context, () => "the live tail");
  await page.goto(want.base + "/console/calls");
  await page.waitForSelector("[data-live-status]:text('Live')");
  const name = "crm__find";
  const before = await page.locator("main tbody tr", { hasText: name }).count();
  await fetch(want.endpoint, {
    method: "POST",
    headers: {
      authorization: "Bearer " + want.token, "content-type": "application/json", accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": name,
    },
    body: JSON.stringify({
      jsonrpc: "2.0", id: 1, method: "tools/call",
      params: { name, arguments: { text: "x" }, _meta: { "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientInfo": { name: "browser-test", version: "1" }, "io.modelcontextprotocol/clientCapabilities": {} } },
    }),
  });
  await page.waitForFunction(([name, before]) => [...document.querySelectorAll("main tbody tr")].filter((r) => r.textContent.includes(name)).length > before, [name, before]);
  await context.close();
}

// Everything that can be done, by the keyboard alone: where, what is typed into which fields, what is
// pressed in turn, and what the page then says.
{
  const context = await browser.newContext({ storageState: state });
  const page = await context.newPage();
  let doing = "";
  watch(page, () => doing);
  page.on("dialog", (d) => d.accept());
  for (const [path, fields, buttons, says] of [
    ["/console/calls", { user: "bob" }, ["Find"], "crm__find"],
    ["/console/servers/crm", {}, ["Probe again"], "The server was probed"],
    ["/console/servers/crm", {}, ["Reconnect"], "The server has new connections"],
    ["/console/servers/crm", {}, ["Disable"], "The server is disabled"],
    ["/console/servers/crm", {}, ["Enable"], "The server is enabled again"],
    ["/console/servers/odd", {}, ["New", "Approve"], "It is approved, written to the lock file"],
    ["/console/catalog", { user: "bob" }, ["Show"], "crm__find"],
    ["/console/catalog/tool?name=crm__find", { arguments: '{"text": "typed"}' }, ["Call it"], "onerror"],
    ["/console/policy", { name: "crm/drop", user: "bob" }, ["Ask"], "nobody-drops"],
    ["/console/policy/replay", { draft: "policy: {default: deny}\nupstreams: [{name: crm, url: 'http://127.0.0.1:1/'}]\n" }, ["Try it"], "refused, and were not"],
    ["/console/approvals", { reason: "not today" }, ["Refuse"], "You refused the call"],
    ["/console/configuration/edit", { text: "no_such_key: 1\n" }, ["Check"], "Line 1"],
    ["/console/sign-ins", { token: "Bearer " + want.token }, ["Test it"], "What policy knows of it"],
    ["/console/sign-ins", { token: "not-a-token" }, ["Test it"], "If the issuer makes opaque tokens"],
    ["/console/first-run", { text: '{"mcpServers": {"new": {"url": "https://mcp.example.com/mcp"}}}' }, ["Show the YAML"], "https://mcp.example.com/mcp"],
  ]) {
    doing = `${buttons.join(", ")} at ${path}`;
    await page.goto(want.base + path);
    for (const [name, text] of Object.entries(fields)) {
      await reach(page, `document.activeElement.name === ${JSON.stringify(name)}`, name);
      await page.keyboard.press("Control+A");
      await page.keyboard.insertText(text);
    }
    for (const button of buttons) await press(page, named(button), button);
    await page.locator("main", { hasText: says }).waitFor({ timeout: 20000 }).catch(() => wrong(`${doing}: the page does not say ${says}, but: ${page.url()}`));
  }
  await context.close();
}

// Times say how long ago something was, or when: without script, and remembered with it.
{
  const plain = await browser.newContext({ storageState: state, javaScriptEnabled: false });
  let page = await plain.newPage();
  const at = page.locator("main time").first();
  await page.goto(want.base + "/console/calls");
  if (!/ago|now/.test(await at.innerText())) wrong(`a time without dates: ${await at.innerText()}`);
  await page.getByLabel("Times as dates").check();
  if (!/^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC$/.test(await at.innerText())) wrong(`a time with dates: ${await at.innerText()}`);
  await plain.close();
  const context = await browser.newContext({ storageState: state });
  page = await open(context, () => "times");
  await page.goto(want.base + "/console/calls");
  await reach(page, `document.activeElement.id === "exact"`, "the box for dates");
  await page.keyboard.press("Space");
  await page.goto(want.base + "/console/sessions");
  if (!/UTC$/.test(await page.locator("main time").first().innerText())) wrong("that times are dates is forgotten");
  await context.close();
}

// What ends a session, by the keyboard, asks first.
{
  const context = await browser.newContext({ storageState: state });
  const page = await context.newPage();
  watch(page, () => "ending a session");
  const asked = [];
  page.on("dialog", (d) => { asked.push(d.message()); d.accept(); });
  await page.goto(want.base + "/console/sessions");
  await press(page, `document.activeElement.matches("button.danger")`, "End");
  await page.waitForSelector(".notice:text('The session has ended.')");
  if (asked.length !== 1) wrong(`ending a session asked ${asked.length} times`);
  await press(page, `document.activeElement.textContent.trim() === "Sign out"`, "Sign out");
  await page.waitForURL("**/console/sign-in");
  await page.goto(want.base + "/console/sessions");
  if (!page.url().includes("/console/sign-in")) wrong("after signing out: " + page.url());
  await context.close();
}

await finish();
