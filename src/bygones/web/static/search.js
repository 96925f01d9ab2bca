// Search as you type. A new request cancels the one before, and every state has a URL.
import { announce, createElement, load } from "./html.js";

const input = document.getElementById("query");
const answers = document.getElementById("answers");
const list = document.getElementById("hints");
const SEARCH_DELAY = 90;
let request = null;
let timer = 0;

// Facets count everything that was found, so they are loaded after the results.
const FACETS_DELAY = 250;
let facetsTimer = 0;
let shownFacets = new DocumentFragment();
function loadFacets(url) {
  const facets = answers.querySelector(".facets");
  if (!facets || !url.searchParams.get("q")) return;
  facets.replaceChildren(shownFacets.cloneNode(true));
  clearTimeout(facetsTimer);
  facetsTimer = setTimeout(async () => {
    try {
      const { content } = await load(`/search/facets${url.search}`, request?.signal);
      shownFacets = content.cloneNode(true);
      facets.replaceChildren(content);
    } catch (error) { if (error.name !== "AbortError") announce("Loading the filters failed"); }
  }, FACETS_DELAY);
}

async function search(target, { push = false } = {}) {
  request?.abort();
  request = new AbortController();
  const url = new URL(target, location.origin);
  try {
    const { content } = await load(`/search/answer${url.search}`, request.signal);
    answers.replaceChildren(content);
    history[push ? "pushState" : "replaceState"](null, "", url.pathname + url.search);
    loadFacets(url);
    announce(answers.querySelector(".result-summary span")?.textContent ?? "");
  } catch (error) { if (error.name !== "AbortError") announce("Search failed"); }
}
function searchUrl() {
  const query = new URLSearchParams();
  if (input.value.trim()) query.set("q", input.value.trim());
  const sort = new URLSearchParams(location.search).get("sort");
  if (sort) query.set("sort", sort);
  return `/search?${query}`;
}
input.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(() => search(searchUrl()), SEARCH_DELAY);
  showHints();
});
document.getElementById("search-form").addEventListener("submit", (event) => {
  event.preventDefault();
  clearTimeout(timer);
  hideHints();
  search(searchUrl());
});
answers.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!link || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const url = new URL(link.href);
  if (url.pathname !== "/search") return;
  event.preventDefault();
  input.value = url.searchParams.get("q") ?? "";
  search(link.href, { push: true });
  scrollTo(0, 0);
});
addEventListener("popstate", () => {
  input.value = new URLSearchParams(location.search).get("q") ?? "";
  search(location.href);
});

// Hints: fields of the query language and their values.
let known = [];
fetch("/search/hints").then((response) => response.json()).then((rows) => { known = rows; });
let options = [];
let at = -1;
const word = () => input.value.slice(0, input.selectionStart).split(/\s/).pop().replace(/^-/, "");
function matchingHints() {
  const typed = word();
  if (!typed) return [];
  const [field, value] = typed.split(":");
  if (value === undefined) {
    return known.filter((hint) => hint.insert.endsWith(":") && hint.insert.startsWith(typed.toLowerCase()) && typed.length);
  }
  const row = known.find((hint) => hint.insert === `${field}:`);
  return (row?.choices ?? []).filter((choice) => choice.startsWith(value) && choice !== value)
    .map((choice) => ({ insert: `${field}:${choice}`, meaning: row.meaning, example: "" }));
}
function showHints() {
  options = matchingHints();
  at = -1;
  list.replaceChildren(...options.map((option, number) => {
    const line = createElement("li", { role: "option", id: `hint-${number}` },
      createElement("code", {}, option.insert), createElement("span", {}, option.meaning), createElement("code", {}, option.example));
    line.setAttribute("aria-selected", "false");
    line.addEventListener("mousedown", (event) => { event.preventDefault(); insertHint(number); });
    return line;
  }));
  list.hidden = !options.length;
  input.setAttribute("aria-expanded", String(!list.hidden));
  input.removeAttribute("aria-activedescendant");
}
function hideHints() { list.hidden = true; input.setAttribute("aria-expanded", "false"); }
function selectHint(number) {
  list.children[at]?.setAttribute("aria-selected", "false");
  at = (number + options.length) % options.length;
  list.children[at].setAttribute("aria-selected", "true");
  list.children[at].scrollIntoView({ block: "nearest" });
  input.setAttribute("aria-activedescendant", `hint-${at}`);
}
function insertHint(number) {
  const { insert } = options[number];
  const end = input.selectionStart;
  const start = end - word().length;
  const gap = insert.endsWith(":") ? "" : " ";
  input.setRangeText(insert + gap, start, end, "end");
  input.dispatchEvent(new Event("input"));
  input.focus();
}
input.addEventListener("keydown", (event) => {
  if (list.hidden) {
    if (event.key === "ArrowDown") { answers.querySelector(".hits .hit > a")?.focus(); event.preventDefault(); }
    return;
  }
  if (event.key === "ArrowDown") selectHint(at + 1);
  else if (event.key === "ArrowUp") selectHint(at < 0 ? options.length - 1 : at - 1);
  else if ((event.key === "Enter" && at >= 0) || (event.key === "Tab" && options.length)) insertHint(Math.max(at, 0));
  else if (event.key === "Escape") { hideHints(); event.stopPropagation(); } else return;
  event.preventDefault();
});
input.addEventListener("blur", hideHints);
if (input.value) loadFacets(new URL(location.href)); else input.focus();
