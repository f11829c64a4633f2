// What the scripts that look at pages in Chromium have in common. What is wrong is reported, a line
// each. Their argument is a file: {base, issuer, chromium, modules, out} and what each needs.
import { readFileSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";

export const want = JSON.parse(readFileSync(process.argv[2], "utf8"));
const require = createRequire(want.modules + "/");
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

export const widths = [360, 768, 1280];
export const schemes = ["light", "dark"];
const steps = 400; // of the keyboard through a page, at most
const problems = [];
export const wrong = (text) => { problems.push(text); console.log("WRONG " + text); };

export const browser = await chromium.launch({
  executablePath: want.chromium,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

// watch reports what a page must never do.
export function watch(page, where) {
  page.on("pageerror", (e) => wrong(`${where()}: script failed: ${e}`));
  page.on("console", (m) => { if (m.type() === "error" && ![401, 403, 404, ...(want.statuses ?? [])].some((status) => m.text().includes(`status of ${status}`))) wrong(`${where()}: ${m.text()}`); });
  page.on("request", (r) => { if (![want.base, want.issuer, ...(want.others ?? [])].some((at) => r.url().startsWith(at))) wrong(`${where()}: asks ${r.url()}`); });
}

export async function open(context, where) {
  const page = await context.newPage();
  watch(page, where);
  page.on("dialog", (d) => { wrong(`${where()}: a dialog: ${d.message()}`); d.dismiss(); });
  await page.addInitScript(() => addEventListener("securitypolicyviolation", (e) => console.error(`CSP: ${e.violatedDirective} ${e.blockedURI} ${e.sample}`)));
  return page;
}

// reach goes to an element by the keyboard alone.
export async function reach(page, matches, what) {
  for (let i = 0; i < steps; i++) {
    await page.keyboard.press("Tab");
    if (await page.evaluate(matches)) return;
  }
  throw new Error(`the keyboard does not get to ${what}`);
}

// press goes to an element, and presses Enter there.
export async function press(page, matches, what) {
  await reach(page, matches, what);
  await page.keyboard.press("Enter");
}

// named matches the element that has the focus by its text.
export const named = (text) => `document.activeElement.matches("a, button, summary") && document.activeElement.textContent.trim().startsWith(${JSON.stringify(text)})`;

// look finds what is wrong with how a page looks, and keeps a screenshot.
export async function look(page, name, at, width, colorScheme) {
  const beyond = await page.evaluate(() => document.scrollingElement.scrollWidth - innerWidth);
  if (beyond > 0) wrong(`${at} at ${width}: ${beyond} pixels stand out at the right`);
  await page.evaluate(axe);
  const found = await page.evaluate(() => axe.run(document, { resultTypes: ["violations"] }));
  if (!found.passes.length) wrong(`${at}: axe-core has looked at nothing`);
  for (const v of found.violations) wrong(`${at} at ${width}, ${colorScheme}: ${v.id}: ${v.help}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 160)).join(" | ")}`);
  await page.screenshot({ path: `${want.out}/${name}-${width}-${colorScheme}.png`, fullPage: true });
}

// walk finds what on a page the keyboard does not get to, or does not show.
export async function walk(page, at) {
  const missing = await page.evaluate(() => {
    const usable = [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex='0']")]
      .filter((e) => e.checkVisibility() && !e.disabled);
    usable.forEach((e, i) => { e.dataset.usable = i; });
    return usable.length;
  });
  const seen = new Set();
  let unseen = "";
  for (let i = 0; i < missing + 20; i++) {
    await page.keyboard.press("Tab");
    const here = await page.evaluate(() => {
      const e = document.activeElement;
      return { id: e.dataset?.usable, outline: getComputedStyle(e).outlineStyle, html: e.outerHTML.slice(0, 100) };
    });
    if (here.id === undefined) continue;
    if (here.outline === "none") unseen = here.html;
    seen.add(here.id);
  }
  if (unseen) wrong(`${at}: the focus cannot be seen on ${unseen}`);
  const left = await page.evaluate((seen) => [...document.querySelectorAll("[data-usable]")]
    .filter((e) => !seen.includes(e.dataset.usable) && e.type !== "radio").map((e) => e.outerHTML.slice(0, 100)), [...seen]);
  if (left.length) wrong(`${at}: the keyboard does not get to ${left.join(" | ")}`);
}

// finish ends the script, with its result as the exit code.
export async function finish() {
  await browser.close();
  console.log(problems.length ? `${problems.length} wrong` : "all is well");
  process.exit(problems.length ? 1 : 0);
}

mkdirSync(want.out, { recursive: true });
