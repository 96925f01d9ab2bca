// Search as one types: the newest question wins, every state is an address.
import { load, make, say } from "./html.js";

const box = document.getElementById("query");
const answers = document.getElementById("answers");
const list = document.getElementById("hints");
const PAUSE = 90;
let asking = null;
let timer = 0;

// What narrows the search counts everything that was found: asked for at leisure.
const LEISURE = 250;
let later = 0;
let shown = new DocumentFragment();
function narrow(url) {
  const place = answers.querySelector(".facets");
  if (!place || !url.searchParams.get("q")) return;
  place.replaceChildren(shown.cloneNode(true));
  clearTimeout(later);
  later = setTimeout(async () => {
    try {
      const { content } = await load(`/search/facets${url.search}`, asking?.signal);
      shown = content.cloneNode(true);
      place.replaceChildren(content);
    } catch (error) { if (error.name !== "AbortError") say("the counts failed"); }
  }, LEISURE);
}

async function ask(address, { push = false } = {}) {
  asking?.abort();
  asking = new AbortController();
  const url = new URL(address, location.origin);
  try {
    const { content } = await load(`/search/answer${url.search}`, asking.signal);
    answers.replaceChildren(content);
    history[push ? "pushState" : "replaceState"](null, "", url.pathname + url.search);
    narrow(url);
    say(answers.querySelector(".answer-line span")?.textContent ?? "");
  } catch (error) { if (error.name !== "AbortError") say("the search failed"); }
}
function asked() {
  const all = new URLSearchParams();
  if (box.value.trim()) all.set("q", box.value.trim());
  const sort = new URLSearchParams(location.search).get("sort");
  if (sort) all.set("sort", sort);
  return `/search?${all}`;
}
box.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(() => ask(asked()), PAUSE);
  hint();
});
document.getElementById("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(timer);
  hide();
  ask(asked());
});
answers.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!link || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const url = new URL(link.href);
  if (url.pathname !== "/search") return;
  event.preventDefault();
  box.value = url.searchParams.get("q") ?? "";
  ask(link.href, { push: true });
  scrollTo(0, 0);
});
addEventListener("popstate", () => {
  box.value = new URLSearchParams(location.search).get("q") ?? "";
  ask(location.href);
});

// Hints: fields and their values, from the table of the language.
let known = [];
fetch("/search/hints").then((answer) => answer.json()).then((rows) => { known = rows; });
let options = [];
let at = -1;
const word = () => box.value.slice(0, box.selectionStart).split(/\s/).pop().replace(/^-/, "");
function fitting() {
  const typed = word();
  if (!typed) return [];
  const [field, value] = typed.split(":");
  if (value === undefined) {
    return known.filter((one) => one.insert.endsWith(":") && one.insert.startsWith(typed.toLowerCase()) && typed.length);
  }
  const row = known.find((one) => one.insert === `${field}:`);
  return (row?.choices ?? []).filter((one) => one.startsWith(value) && one !== value)
    .map((one) => ({ insert: `${field}:${one}`, meaning: row.meaning, example: "" }));
}
function hint() {
  options = fitting();
  at = -1;
  list.replaceChildren(...options.map((one, number) => {
    const line = make("li", { role: "option", id: `hint-${number}` },
      make("code", {}, one.insert), make("span", {}, one.meaning), make("code", {}, one.example));
    line.setAttribute("aria-selected", "false");
    line.addEventListener("mousedown", (event) => { event.preventDefault(); take(number); });
    return line;
  }));
  list.hidden = !options.length;
  box.setAttribute("aria-expanded", String(!list.hidden));
  box.removeAttribute("aria-activedescendant");
}
function hide() { list.hidden = true; box.setAttribute("aria-expanded", "false"); }
function choose(number) {
  list.children[at]?.setAttribute("aria-selected", "false");
  at = (number + options.length) % options.length;
  list.children[at].setAttribute("aria-selected", "true");
  list.children[at].scrollIntoView({ block: "nearest" });
  box.setAttribute("aria-activedescendant", `hint-${at}`);
}
function take(number) {
  const { insert } = options[number];
  const end = box.selectionStart;
  const start = end - word().length;
  const gap = insert.endsWith(":") ? "" : " ";
  box.setRangeText(insert + gap, start, end, "end");
  box.dispatchEvent(new Event("input"));
  box.focus();
}
box.addEventListener("keydown", (event) => {
  if (list.hidden) {
    if (event.key === "ArrowDown") { answers.querySelector(".hits .hit > a")?.focus(); event.preventDefault(); }
    return;
  }
  if (event.key === "ArrowDown") choose(at + 1);
  else if (event.key === "ArrowUp") choose(at < 0 ? options.length - 1 : at - 1);
  else if ((event.key === "Enter" && at >= 0) || (event.key === "Tab" && options.length)) take(Math.max(at, 0));
  else if (event.key === "Escape") { hide(); event.stopPropagation(); } else return;
  event.preventDefault();
});
box.addEventListener("blur", hide);
if (box.value) narrow(new URL(location.href)); else box.focus();
