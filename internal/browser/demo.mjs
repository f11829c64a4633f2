// Signs in at the demo in Chromium, by the keyboard: see browser.mjs. It also wants {authorize, client}:
// where a client sends its user, and gets them back.
import { browser, finish, look, named, open, press, schemes, want, widths, wrong } from "./browser.mjs";

for (const colorScheme of schemes) {
  for (const width of widths) {
    const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme });
    const page = await open(context, () => `the demo at ${width}, ${colorScheme}`);
    await page.goto(want.authorize);
    if (!page.url().startsWith(want.issuer)) wrong(`the client's user is sent to ${page.url()}`);
    await look(page, "demo-users", "users", width, colorScheme);
    await press(page, named("Alice"), "Alice");
    await page.locator("main", { hasText: "alice@example.com" }).waitFor();
    await look(page, "demo-consent", "consent", width, colorScheme);
    await press(page, named("Allow"), "Allow");
    await page.waitForURL(want.client + "/**");
    if (!page.url().includes("code=")) wrong(`back at the client: ${page.url()}`);
    await context.close();
  }
}
await finish();
