// What makes pages live: everything works without it. The server makes all HTML; this puts it in
// its place, keeps times up to date, copies, and asks before what cannot be undone.

const policy = globalThis.trustedTypes?.createPolicy("gatehouse", { createHTML: (text) => text });

// nodes makes nodes of HTML of the server, which has escaped what others wrote. The template keeps
// rows of a table as they are.
function nodes(html) {
  const holder = document.createElement("template");
  holder.innerHTML = policy ? policy.createHTML(html) : html;
  return holder.content;
}

function ago(then) {
  const seconds = Math.round((Date.now() - then) / 1000);
  const say = (n, unit) => `${n} ${unit}${n === 1 ? "" : "s"} ago`;
  if (seconds < -60) return null; // ahead: as the server wrote it
  if (seconds < 5) return "now";
  if (seconds < 60) return say(seconds, "second");
  if (seconds < 3600) return say(Math.floor(seconds / 60), "minute");
  if (seconds < 48 * 3600) return say(Math.floor(seconds / 3600), "hour");
  return say(Math.floor(seconds / 86400), "day");
}

function showTimes() {
  for (const time of document.querySelectorAll("main time[datetime]")) {
    const text = ago(Date.parse(time.dateTime));
    const shown = time.firstElementChild;
    if (text && shown.textContent !== text) shown.textContent = text;
  }
}

// A live part is the element with data-live: its page as an event stream. "part" events replace
// what is in it, "row" events go before its first child, of which at most data-most stay.
function follow(live) {
  const status = document.querySelector("[data-live-status]");
  const say = (text) => { if (status && status.textContent !== text) status.textContent = text; };
  const source = new EventSource(live.dataset.live || location.href);
  const paused = () => live.contains(document.activeElement) && document.activeElement !== document.body || !document.getSelection().isCollapsed;
  let waiting = null;
  const put = () => {
    if (!waiting) return;
    if (paused()) return say("Not live while you are in it");
    const typed = new Map([...live.querySelectorAll("input[id]")].filter((i) => i.value !== i.defaultValue).map((i) => [i.id, i.value]));
    const open = new Set([...live.querySelectorAll("details[open][id]")].map((d) => d.id));
    live.replaceChildren(nodes(waiting));
    for (const d of live.querySelectorAll("details[id]")) if (open.has(d.id)) d.open = true;
    for (const i of live.querySelectorAll("input[id]")) if (typed.has(i.id)) i.value = typed.get(i.id);
    waiting = null;
    say("Live");
    showTimes();
  };
  source.addEventListener("part", (e) => { waiting = e.data; put(); });
  source.addEventListener("row", (e) => {
    const row = nodes(e.data);
    for (const child of row.children) child.classList.add("new");
    live.prepend(row);
    const most = Number(live.dataset.most || 200);
    while (live.children.length > most) live.lastElementChild.remove();
    document.querySelector("[data-live-empty]")?.remove();
  });
  source.addEventListener("open", () => say("Live"));
  source.addEventListener("error", () => say(source.readyState === EventSource.CLOSED ? "Not live: load the page again" : "Not live: connecting again"));
  setInterval(put, 1000);
  addEventListener("pagehide", () => source.close());
  // A page that nobody sees gives its connection back: browsers have few for each host.
  let unseen;
  document.addEventListener("visibilitychange", () => {
    clearTimeout(unseen);
    if (document.hidden) unseen = setTimeout(() => { source.close(); say("Not live while it is hidden"); }, 60000);
    else if (source.readyState === EventSource.CLOSED) location.reload();
  });
}

document.addEventListener("click", async (e) => {
  const button = e.target.closest("[data-copy]");
  if (!button) return;
  const from = document.getElementById(button.dataset.copy);
  await navigator.clipboard.writeText(from.value ?? from.textContent);
  const was = button.textContent;
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = was; }, 1500);
});

document.addEventListener("submit", (e) => {
  const question = e.submitter?.dataset.ask ?? e.target.dataset.ask;
  if (question && !confirm(question)) e.preventDefault();
});

// The box for exact times works without script, which remembers it.
const exact = document.getElementById("exact");
exact.checked = localStorage.getItem("exact") === "true";
exact.addEventListener("change", () => localStorage.setItem("exact", exact.checked));

for (const hidden of document.querySelectorAll("[data-with-script]")) hidden.hidden = false;
for (const live of document.querySelectorAll("[data-live]")) follow(live);
showTimes();
setInterval(showTimes, 10000);
