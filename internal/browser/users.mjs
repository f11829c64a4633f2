// Opens the pages for users in Chromium: see browser.mjs. It also wants {local, far, odd, others,
// statuses}: two URLs where users are asked for consent, one that is none, where pages may lead besides,
// and further statuses that pages may have.
import { browser, finish, look, named, open, press, schemes, walk, want, widths, wrong } from "./browser.mjs";

// says waits for a page.
async function says(page, text) {
  await page.locator("main", { hasText: text }).waitFor({ timeout: 20000 });
}

// pages are the pages in turn: name, how to get there, and what is then said. The one changes what the
// next one shows, so the accounts are as they were at the end.
const pages = [
  ["consent-local", (page) => page.goto(want.local), "A program on this computer"],
  ["consent-far", (page) => page.goto(want.far), "client.example"],
  ["consent-refused", async (page) => { await page.goto(want.local); await says(page, "Let "); await press(page, named("Do not allow"), "Do not allow"); }, /access_denied|did not work/],
  ["consent-problem", (page) => page.goto(want.odd), "That did not work"],
  ["accounts", (page) => page.goto(want.base + "/account"), "Not signed in"],
  ["account-sign-in", (page) => press(page, named("Sign in at crm"), "Sign in at crm"), "Go on to"],
  ["account-done", (page) => press(page, named("Go on to"), "Go on"), "You are signed in at crm"],
  ["accounts-signed-in", (page) => press(page, named("Your accounts"), "Your accounts"), "Signed in at"],
  ["account-refused", async (page) => { await press(page, named("Sign in at odd"), "Sign in at odd"); await says(page, "Go on to"); await press(page, named("Go on to"), "Go on"); }, "You are not signed in"],
  ["account-out", async (page) => { await page.goto(want.base + "/account"); await press(page, named("Sign out of crm"), "Sign out"); }, "Not signed in"],
  ["account-none", (page) => page.goto(want.base + "/account/nowhere"), "There is no such page"],
  ["account-left", async (page) => { await page.goto(want.base + "/account"); await press(page, named("Sign out of this page"), "Sign out of this page"); }, "You are signed out"],
];

// once are pages that look as others here: they are opened at one width.
const once = ["consent-refused", "account-none"];

// Each page, at each width, light and dark, by the keyboard alone.
for (const colorScheme of schemes) {
  for (const width of widths) {
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme, javaScriptEnabled: true });
    let at = "";
    const page = await open(context, () => `${at} at ${width}, ${colorScheme}`);
    const first = width === widths[0] && colorScheme === schemes[0];
    for (const [name, go, said] of pages) {
      if (!first && once.includes(name)) continue;
      at = name;
      try {
        await go(page);
        await says(page, said);
      } catch (e) {
        wrong(`${at}: no ${said} at ${page.url()}: ${e.message.split("\n")[0]}: ${(await page.locator("body").innerText()).slice(0, 300)}`);
        continue;
      }
      if (!page.url().startsWith(want.base)) continue; // it is the client's
      await look(page, name, at, width, colorScheme);
      if (first) await walk(page, at);
    }
    await context.close();
  }
}

// Without script, consent is given and comes back to the client with a code.
{
  const context = await browser.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  await page.goto(want.local);
  const text = await page.locator("main").innerText();
  if (/[\u202e\u200b\u001b]/.test(text) || !text.includes("⟨U+202E⟩")) wrong(`hostile names in consent: ${text}`);
  await page.locator("button", { hasText: "Allow" }).first().click();
  await page.locator("main", { hasText: "back at the client: a code" }).waitFor({ timeout: 20000 });
  await context.close();
}

await finish();
