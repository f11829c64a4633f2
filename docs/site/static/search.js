// Search over all pages, in the browser: index.json has their texts.
const script = document.currentScript;
const field = document.getElementById("search");
const found = document.getElementById("found");
const pages = document.getElementById("pages");
let index;

// score counts words that a page has: in its title they count more.
function score(page, words) {
  const title = page.title.toLowerCase(), text = page.text.toLowerCase();
  let sum = 0;
  for (const word of words) {
    if (!title.includes(word) && !text.includes(word)) return 0;
    sum += (title.includes(word) ? 50 : 0) + Math.min(text.split(word).length - 1, 20);
  }
  return sum;
}

// around returns the text around the first word.
function around(text, word) {
  const at = Math.max(text.toLowerCase().indexOf(word) - 40, 0);
  return (at > 0 ? "…" : "") + text.slice(at, at + 120).replace(/\s+/g, " ") + "…";
}

async function search() {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  found.hidden = words.length === 0;
  pages.hidden = !found.hidden;
  if (found.hidden) return;
  index ??= fetch(script.dataset.index).then((answer) => answer.json());
  const hits = (await index).map((page) => [score(page, words), page]).filter(([sum]) => sum > 0);
  hits.sort(([a], [b]) => b - a);
  found.replaceChildren(...hits.slice(0, 12).map(([, page]) => {
    const item = document.createElement("li"), link = document.createElement("a"), text = document.createElement("small");
    link.href = page.url;
    link.textContent = page.title;
    text.textContent = around(page.text, words[0]);
    item.append(link, text);
    return item;
  }));
  if (hits.length === 0) found.textContent = "No page has all these words.";
}

field.addEventListener("input", search);
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && document.activeElement !== field) {
    event.preventDefault();
    field.focus();
  }
});
