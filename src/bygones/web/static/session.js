// The page of a session: outline, keys, actions, agents and live updates.
import { onKey, onSessionUpdate } from "./app.js";
import { Conversation } from "./conversation.js";
import { Finder } from "./find.js";
import { announce, copyText, createElement, isReturning, load, parseHtml, readSetting, request, showToast, writeSetting } from "./html.js";

const place = document.getElementById("conversation");
history.scrollRestoration = "manual";
const main = document.querySelector("main.reading");
const conversation = new Conversation(place, {
  own: place.dataset.own,
  branch: Number(place.dataset.branch),
  total: Number(place.dataset.total),
  size: Number(place.dataset.size),
  onFilled: prepare,
});
const isAgent = place.dataset.own.includes("/agent/");

// The outline, and the entry that is being read.
const outline = document.getElementById("outline");
const kinds = { prompt: "Prompts", agent: "Agents", edit: "Edits", error: "Errors", compaction: "Compactions" };
const savedKinds = readSetting("outline", null);
const shownKinds = new Set(Array.isArray(savedKinds) ? savedKinds : ["prompt", "agent", "compaction"]);
let marks = [];
let shown = [];
let current = null;

// When a session grows, only new entries are loaded.
async function loadOutline(start = 0) {
  const response = await fetch(conversation.url("outline", start ? { from: start } : {}));
  if (!response.ok) return;
  const fresh = (await response.json()).map(([kind, at, anchor, text]) => ({ kind, at, anchor, text }));
  marks = [...marks.filter((mark) => mark.at < start), ...fresh];
  drawFilters();
  drawOutline();
}

function drawFilters() {
  const group = document.querySelector(".outline-filters");
  group.replaceChildren(...Object.entries(kinds).flatMap(([kind, label]) => {
    const count = marks.filter((mark) => mark.kind === kind).length;
    if (!count) return [];
    const button = createElement("button", { type: "button" }, `${label} ${count.toLocaleString("en")}`);
    button.setAttribute("aria-pressed", shownKinds.has(kind));
    button.addEventListener("click", () => {
      if (shownKinds.has(kind)) shownKinds.delete(kind); else shownKinds.add(kind);
      button.setAttribute("aria-pressed", shownKinds.has(kind));
      writeSetting("outline", [...shownKinds]);
      drawOutline();
    });
    return [button];
  }));
}

// Of a long outline, only the visible lines exist; margins take the place of the others.
const LINE = 27;
let from = -1;
function drawOutline() {
  shown = marks.filter((mark) => shownKinds.has(mark.kind));
  current = null;
  from = -1;
  drawLines();
  updateCurrent();
}
function drawLines() {
  const room = Math.ceil(outline.clientHeight / LINE) || 40;
  const first = Math.max(Math.floor(outline.scrollTop / LINE) - room, 0);
  if (from >= 0 && Math.abs(first - from) < room / 2) return;
  from = first;
  const last = Math.min(first + 3 * room, shown.length);
  const focused = document.activeElement?.closest?.("#outline a")?.hash;
  outline.replaceChildren(...shown.slice(first, last).map((mark) => {
    const link = createElement("a", { href: `#${mark.anchor}`, title: mark.text }, mark.text || "…");
    if (mark === current) link.setAttribute("aria-current", "true");
    return createElement("li", { className: `o-${mark.kind}` }, link);
  }));
  // Padding of the list would make it as high as all lines; it has to stay the scroll container.
  if (first < last) {
    outline.firstElementChild.style.marginTop = `${first * LINE}px`;
    outline.lastElementChild.style.marginBottom = `${(shown.length - last) * LINE}px`;
  }
  if (focused) outline.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
}
outline.addEventListener("scroll", () => requestAnimationFrame(drawLines), { passive: true });
addEventListener("resize", () => { from = -1; drawLines(); });

outline.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!link) return;
  event.preventDefault();
  const mark = shown[from + [...outline.children].indexOf(link.parentElement)];
  if (mark) go(mark.at, mark.anchor);
  toggleOutline(false);
});

// On a narrow screen the outline covers a part of the page, until it is closed.
const sidebar = document.querySelector(".outline");
const outlineButtons = document.querySelectorAll('[data-act="outline"]');
function toggleOutline(open = !sidebar.classList.contains("open")) {
  sidebar.classList.toggle("open", open);
  for (const button of outlineButtons) button.setAttribute("aria-expanded", String(open));
  if (open) { from = -1; drawLines(); }
}
onKey("l", "Show or hide outline", () => toggleOutline());
for (const button of outlineButtons) button.addEventListener("click", () => toggleOutline());
sidebar.querySelector('[data-act="close-outline"]').addEventListener("click", () => { toggleOutline(false); outlineButtons[0]?.focus(); });
addEventListener("pointerdown", (event) => {
  if (sidebar.classList.contains("open") && !event.target.closest('.outline, [data-act="outline"]')) toggleOutline(false);
});

async function go(at, anchor) {
  const target = await conversation.reveal(at, anchor);
  if (!target) return;
  if (anchor) history.replaceState(history.state, "", `${location.pathname}${location.search}#${anchor}`);
  place.querySelector(".target")?.classList.remove("target");
  if (target.id) target.classList.add("target");
  target.tabIndex = -1;
  target.focus({ preventScroll: true });
  savePosition(); // the page may be left at once
}

// The current outline entry is the last one above the upper third of the viewport.
function firstIndex(list, matches) {
  let low = 0;
  let high = list.length;
  while (low < high) { const middle = (low + high) >> 1; if (matches(list[middle])) high = middle; else low = middle + 1; }
  return low;
}
function currentIndex() {
  // At the end of the page, the last entry is current even if it is near the bottom.
  const isEnd = scrollY > 0 && scrollY + innerHeight >= document.documentElement.scrollHeight - 2;
  const line = isEnd ? innerHeight : innerHeight / 3;
  const number = Math.max(firstIndex(conversation.sections, (section) => section.getBoundingClientRect().top > line) - 1, 0);
  let at = firstIndex(shown, (mark) => mark.at >= number * conversation.size) - 1;
  while (at + 1 < shown.length && shown[at + 1].at < (number + 1) * conversation.size) {
    const element = document.getElementById(shown[at + 1].anchor);
    if (element && element.getBoundingClientRect().top > line) break;
    at += 1;
  }
  return at;
}
let isScheduled = false;
function updateCurrent() {
  isScheduled = false;
  const at = currentIndex();
  if (shown[at] === current) return;
  current = shown[at] ?? null;
  outline.querySelector("[aria-current]")?.removeAttribute("aria-current");
  if (!current) return;
  const top = at * LINE;
  if (top < outline.scrollTop || top + LINE > outline.scrollTop + outline.clientHeight) {
    outline.scrollTop = top - outline.clientHeight / 3;
    drawLines();
  }
  outline.children[at - from]?.firstElementChild.setAttribute("aria-current", "true");
}
addEventListener("scroll", () => { if (!isScheduled) { isScheduled = true; requestAnimationFrame(updateCurrent); } }, { passive: true });

// Keys that move through messages and prompts.
const shownArticles = () => [...place.querySelectorAll(":scope > .window > article")].filter((article) => article.getClientRects().length);
function step(by) {
  const all = shownArticles();
  const edge = parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop) || 0;
  const top = (article) => article.getBoundingClientRect().top - edge;
  let at = by > 0 ? all.findIndex((article) => top(article) > 4) : all.findLastIndex((article) => top(article) < -4);
  if (at < 0) at = by > 0 ? all.length - 1 : 0;
  focusOn(all[at]);
}
function focusOn(target) {
  if (!target) return;
  target.scrollIntoView({ block: "start" });
  target.tabIndex = -1;
  target.focus({ preventScroll: true });
}
// Returns 1 if a message is below the top of the viewport, -1 if it is above, and 0 if it is there.
function compareToViewport({ at, anchor }) {
  const edge = parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop) || 0;
  const element = document.getElementById(anchor);
  if (element) return Math.sign(Math.round((element.getBoundingClientRect().top - edge) / 6));
  const section = conversation.sections[Math.floor(at / conversation.size)];
  return section && section.getBoundingClientRect().top > edge ? 1 : -1;
}
function jump(kind, by) {
  const list = marks.filter((mark) => mark.kind === kind);
  const next = by > 0 ? list.find((mark) => compareToViewport(mark) > 0) : list.findLast((mark) => compareToViewport(mark) < 0);
  if (next) go(next.at, next.anchor); else announce(`No more ${kind}s`);
}
onKey("j", "Next message", () => step(1));
onKey("k", "Previous message", () => step(-1));
// While matches are shown, n and N move through them, as in less and vim.
onKey("n", "Next prompt, or next match while finding", () => { if (finder.hasMatches) finder.move(1); else jump("prompt", 1); });
onKey("N", "Previous match while finding", () => finder.move(-1));
onKey("p", "Previous prompt", () => jump("prompt", -1));
onKey("e", "Next error", () => jump("error", 1));
onKey("E", "Previous error", () => jump("error", -1));
onKey("gg", "Go to start", async () => { await go(0, ""); scrollTo(0, 0); });
// Scrolls to the end; windows that are loaded on the way may be higher than estimated. What the
// reader does next ends it.
async function toEnd() {
  const done = new AbortController();
  for (const type of ["keydown", "pointerdown", "wheel"]) addEventListener(type, () => done.abort(), { passive: true, signal: done.signal });
  await conversation.reveal(conversation.total - 1, "");
  for (let tries = 0; tries < 30 && !done.signal.aborted; tries += 1) {
    scrollTo(0, document.body.scrollHeight);
    await new Promise((painted) => { requestAnimationFrame(() => requestAnimationFrame(painted)); });
    if (!conversation.loading.size && scrollY + innerHeight >= document.body.scrollHeight - 2) break;
    await conversation.settled();
  }
  done.abort();
}
onKey("G", "Go to end", toEnd);
// Alone, the browser would stop at the end as it is estimated, and on the way to the start where a
// window is loaded. Lists and code scroll by themselves.
addEventListener("keydown", (event) => {
  if (!["Home", "End"].includes(event.key) || event.shiftKey || event.altKey || event.metaKey) return;
  if (event.target.closest("input, textarea, select, aside, pre, .table, dialog") || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  if (event.key === "End") return void toEnd();
  conversation.lastCall = null; // what is still loaded for another key does not scroll
  scrollTo(0, 0);
});
// Folds: messages that are loaded later are expanded or collapsed like the others, and what is
// being read stays where it is.
const FOLDS = "details.call, details.thought, details.agent";
let isExpanded = null;
function setFolds(root) {
  if (isExpanded === null) return;
  for (const details of root.querySelectorAll(FOLDS)) details.open = isExpanded;
}
function prepare(section) {
  setFolds(section);
  for (const box of section.querySelectorAll("pre")) if (box.tabIndex < 0 && box.scrollWidth > box.clientWidth) box.tabIndex = 0;
}
// The page itself contains code without colors, so that it comes sooner.
async function loadColors() {
  const plain = [...place.querySelectorAll("pre[data-plain], pre.plain")];
  for (const article of new Set(plain.map((code) => code.closest("article")))) {
    const response = await load(conversation.url("message", { at: article.id })).catch(() => null);
    const colored = [...(response?.content.querySelectorAll("pre.diff, .prose pre") ?? [])];
    for (const code of article.querySelectorAll("pre[data-plain], pre.plain")) {
      const at = colored.findIndex((other) => other.textContent === code.textContent);
      if (at < 0) continue;
      code.removeAttribute("data-plain");
      code.classList.remove("plain");
      code.replaceChildren(...colored.splice(at, 1)[0].childNodes);
    }
  }
}
loadColors();
onKey("o", "Expand or collapse all", () => {
  const before = conversation.position();
  isExpanded = !(isExpanded ?? [...place.querySelectorAll(FOLDS)].every((details) => details.open));
  setFolds(place);
  const element = before?.anchor && document.getElementById(before.anchor);
  if (element) scrollBy(0, element.getBoundingClientRect().top - before.top);
  announce(isExpanded ? "Expanded" : "Collapsed");
});

// The timeline: where errors, agents and compactions are, and how the context grew.
const strip = document.getElementById("session-timeline");
async function loadTimeline() {
  if (!strip) return;
  const { content } = await load(conversation.url("timeline", {})).catch(() => ({}));
  if (!content?.firstElementChild) return;
  strip.replaceChildren(content);
  showPlace();
}
strip?.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-at]");
  if (!link || event.metaKey || event.ctrlKey) return;
  event.preventDefault();
  go(Number(link.dataset.at), link.dataset.anchor);
});
function showPlace() {
  const here = strip?.querySelector(".here");
  if (!here) return;
  const number = Math.max(firstIndex(conversation.sections, (section) => section.getBoundingClientRect().top > innerHeight / 3) - 1, 0);
  const section = conversation.sections[number];
  const { top, height } = section.getBoundingClientRect();
  const share = Math.min(Math.max((innerHeight / 3 - top) / Math.max(height, 1), 0), 1);
  const at = Math.min((number + share) * conversation.size, conversation.total);
  here.setAttribute("d", `M${(at / conversation.total * 1000).toFixed(1)} 0V64`);
}
let isPlaceScheduled = false;
addEventListener("scroll", () => { if (!isPlaceScheduled) { isPlaceScheduled = true; requestAnimationFrame(() => { isPlaceScheduled = false; showPlace(); }); } }, { passive: true });

// What is shown: tools and thinking. The style sheet hides them, also without this script.
for (const name of ["tools", "thinking"]) {
  const box = document.getElementById(`show-${name}`);
  box.checked = readSetting(`show-${name}`, true);
  box.addEventListener("change", () => {
    const before = conversation.position();
    writeSetting(`show-${name}`, box.checked);
    const element = before?.anchor && document.getElementById(before.anchor);
    if (element?.getClientRects().length) scrollBy(0, element.getBoundingClientRect().top - before.top);
  });
}

// The sidebar shows the outline, or other sessions.
const beside = document.getElementById("beside");
async function showSide(side) {
  const isList = side === "sessions";
  for (const button of document.querySelectorAll("[data-side]")) button.setAttribute("aria-pressed", String(button.dataset.side === side));
  outline.hidden = isList;
  document.querySelector(".outline-filters").hidden = isList;
  beside.hidden = !isList;
  writeSetting("side", side);
  if (!isList || beside.firstChild) return;
  const { content } = await load(`/session/${encodeURIComponent(place.dataset.session)}/beside`).catch(() => ({}));
  if (!content) { showToast("Loading failed"); return; }
  beside.replaceChildren(content);
  const current = beside.querySelector("[aria-current]");
  if (current) beside.scrollTop = current.offsetTop - beside.offsetTop - beside.clientHeight / 3;
}
for (const button of document.querySelectorAll("[data-side]")) button.addEventListener("click", () => showSide(button.dataset.side));
if (readSetting("side", "outline") === "sessions") showSide("sessions");

// One button copies the code, command, output or diff under the pointer.
const copyButton = createElement("button", { type: "button", className: "copy-code", title: "Copy", hidden: true });
copyButton.setAttribute("aria-label", "Copy");
copyButton.append(document.querySelector('[data-act="copy"] .icon')?.cloneNode(true) ?? "⧉");
document.body.append(copyButton);
let copied = null;
function showCopyButton(event) {
  if (event.target === copyButton || copyButton.contains(event.target)) return;
  const box = event.target.closest?.("main pre");
  copied = box;
  copyButton.hidden = !box;
  if (!box) return;
  const { top, right } = box.getBoundingClientRect();
  copyButton.style.top = `${top + scrollY + 5}px`;
  copyButton.style.left = `${right + scrollX - 32}px`;
}
addEventListener("pointerover", showCopyButton);
addEventListener("focusin", showCopyButton);
copyButton.addEventListener("click", () => {
  if (!copied) return;
  const lines = copied.matches(".diff") ? [...copied.children].map((line) => line.textContent.replace(/\n$/, "")) : null;
  copyText(lines ? `${lines.join("\n")}\n` : copied.textContent, lines ? "Diff" : "Text");
});

// Pictures are enlarged in a dialog.
main.addEventListener("click", (event) => {
  const link = event.target.closest?.("a.picture-link");
  if (!link || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  const alt = link.querySelector("img").alt;
  const dialog = createElement("dialog", { className: "lightbox" }, createElement("img", { src: link.href, alt }), createElement("p", {}, alt));
  dialog.setAttribute("aria-label", alt || "Picture");
  dialog.addEventListener("click", () => dialog.close());
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
});

// Actions of a message: its link, its records, its Markdown.
const currentArticle = () => document.activeElement?.closest?.("article") ?? place.querySelector("article.target") ?? shownArticles().find((article) => article.getBoundingClientRect().bottom > 80);
const datasetOf = (article) => article.closest("[data-own]")?.dataset ?? place.dataset;
function permalink(article) {
  const dataset = datasetOf(article);
  const query = new URLSearchParams(Number(dataset.branch) ? { branch: dataset.branch } : {});
  query.set("at", article.id);
  return `${location.origin}${dataset.own}?${query}#${article.id}`;
}
async function textOf(article, name) {
  const dataset = datasetOf(article);
  const query = new URLSearchParams({ at: article.id, ...(Number(dataset.branch) ? { branch: dataset.branch } : {}) });
  const response = await request(`${dataset.own}/${name}?${query}`);
  return response.text();
}
const actions = {
  link: (article) => copyText(permalink(article), "Link"),
  markdown: async (article) => copyText(await textOf(article, "markdown"), "Markdown"),
  raw: async (article) => showDialog("Original record", createElement("pre", {}, await textOf(article, "raw"))),
  sent: async (article) => showDialog("What Claude was sent", parseHtml(await textOf(article, "sent"))),
  fork: async (article) => showDialog("Continue from here in Claude Code", parseHtml(await textOf(article, "fork"))),
};
const act = (name, article) => actions[name](article).catch(() => showToast("Loading failed"));
function showDialog(title, content) {
  const dialog = document.getElementById("keys");
  const close = createElement("form", { method: "dialog" }, createElement("button", {}, "Close"));
  dialog.replaceChildren(createElement("h2", { id: "keys-title" }, title), content, close);
  dialog.showModal();
}
const hasRequests = place.dataset.sent === "1";
for (const [key, name, label] of [["c", "link", "Copy link to message"], ["m", "markdown", "Copy message as Markdown"], ["r", "raw", "Show the original record"]]) {
  onKey(key, label, () => { const article = currentArticle(); if (article) act(name, article); });
}
function addActions(article) {
  if (article.querySelector(":scope > .message-actions") || !article.id) return;
  const menu = createElement("div", { className: "menu" });
  const own = hasRequests ? [["sent", "Sent", "What Claude was sent"]] : [];
  if (hasRequests && article.matches(".prompt") && !datasetOf(article).own.includes("/agent/")) own.push(["fork", "Continue from here", "Continue from here in Claude Code"]);
  for (const [name, label, title] of [["link", "Link", "Copy link"], ["markdown", "Markdown", "Copy as Markdown"], ["raw", "Raw", "Show the original record"], ...own]) {
    const button = createElement("button", { type: "button", title }, label);
    button.addEventListener("click", () => { toggle.setAttribute("aria-expanded", "false"); act(name, article); });
    menu.append(button);
  }
  const toggle = createElement("button", { type: "button", className: "more-actions", title: "Actions" }, "⋯");
  toggle.setAttribute("aria-label", "Actions");
  toggle.setAttribute("aria-expanded", "false");
  toggle.addEventListener("click", () => toggle.setAttribute("aria-expanded", String(toggle.getAttribute("aria-expanded") !== "true")));
  article.append(createElement("div", { className: "message-actions" }, toggle, menu));
}
const closeMenus = (except) => {
  for (const toggle of main.querySelectorAll('.more-actions[aria-expanded="true"]')) if (toggle !== except) toggle.setAttribute("aria-expanded", "false");
};
main.addEventListener("pointerdown", (event) => { if (!event.target.closest(".message-actions")) closeMenus(); });
for (const name of ["pointerover", "focusin"]) {
  main.addEventListener(name, (event) => { const article = event.target.closest?.("article"); if (article) addActions(article); });
}

// The rest of a long output is loaded when it is unfolded.
main.addEventListener("toggle", async (event) => {
  const fold = event.target;
  if (!fold.matches?.("details[data-rest][open]")) return;
  fold.removeAttribute("data-rest");
  const article = fold.closest("article");
  const call = fold.closest(".call[id]") ?? article;
  const at = [...call.querySelectorAll("details.more")].indexOf(fold);
  const dataset = datasetOf(article);
  const query = new URLSearchParams({ at: article.id, ...(Number(dataset.branch) ? { branch: dataset.branch } : {}) });
  const response = await load(`${dataset.own}/message?${query}`).catch(() => null);
  const whole = response?.content.querySelector(`#${CSS.escape(call.id)}`);
  const rest = whole?.querySelectorAll("details.more")[at] ?? whole?.querySelector("pre.diff");
  if (!rest) { fold.setAttribute("data-rest", ""); fold.open = false; announce("Loading failed"); return; }
  call.setAttribute("data-whole", "");
  if (rest.localName === "details") fold.append(...[...rest.children].slice(1)); else fold.append(rest);
}, true);

// Agents open beside the conversation, or inside it.
let panel = null;
let opener = null;
function closePanel() {
  const hadFocus = panel?.contains(document.activeElement) || document.activeElement === document.body;
  panel?.remove();
  main.classList.remove("with-panel");
  // Return the focus to the line of the agent.
  if (panel && hadFocus && opener?.isConnected) opener.focus({ preventScroll: true });
  panel = opener = null;
}
async function openPanel(link) {
  const own = new URL(link.href).pathname;
  closePanel();
  opener = link;
  const inside = createElement("div", { className: "conversation" });
  panel = createElement("aside", { className: "panel" }, createElement("header", {},
    createElement("h2", {}, link.textContent),
    createElement("a", { href: own }, "Open as page"),
    createElement("button", { type: "button", onclick: closePanel }, "Close")), inside);
  panel.setAttribute("aria-label", "Agent");
  main.append(panel);
  main.classList.add("with-panel");
  await fillAgent(inside, own, panel);
  panel.querySelector("button").focus({ preventScroll: true });
}
async function fillAgent(inside, own, root) {
  Object.assign(inside.dataset, { own, branch: 0 });
  const loaded = await load(`${own}/window?from=0`).catch(() => null);
  if (!loaded) { inside.append(createElement("p", { className: "load-problem", role: "status" }, "Loading failed")); return; }
  const { content, headers } = loaded;
  const first = createElement("section", { className: "window" }, content);
  first.dataset.window = 0;
  inside.append(first);
  const total = Number(headers.get("X-Total"));
  new Conversation(inside, { own, branch: 0, total, size: conversation.size, root });
}
main.addEventListener("click", (event) => {
  const link = event.target.closest?.("p.agent > a");
  if (!link || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  if (event.altKey || link.closest(".panel")) {
    const line = link.closest("p.agent");
    const open = line.nextElementSibling;
    if (open?.classList.contains("inline-agent")) { open.remove(); return; }
    const inside = createElement("div", { className: "inline-agent conversation" });
    line.after(inside);
    fillAgent(inside, new URL(link.href).pathname, link.closest(".panel"));
  } else openPanel(link);
});
addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || document.querySelector("dialog[open]")) return;
  if (main.querySelector('.more-actions[aria-expanded="true"]')) closeMenus();
  else if (sidebar.classList.contains("open")) toggleOutline(false);
  else if (panel) closePanel(); else finder.close();
});

// Scrolls to the message that the hash of the URL names.
async function toHash() {
  let anchor = "";
  try { anchor = decodeURIComponent(location.hash.slice(1)); } catch { return ""; } // not from us
  if (!/^[mcat]-/.test(anchor)) return "";
  const near = document.getElementById(anchor);
  if (near) { await go(Number(near.closest(".window")?.dataset.window ?? 0) * conversation.size, anchor); return anchor; }
  const { headers } = await load(conversation.url("window", { at: anchor })).catch(() => ({}));
  if (!headers) return "";
  await go(Number(headers.get("X-Window")) * conversation.size, anchor);
  return anchor;
}
addEventListener("hashchange", toHash);

// Back, Forward and Reload return to the message that was being read.
const saved = isReturning ? history.state?.reading : null;
let saveTimer = 0;
function savePosition() {
  clearTimeout(saveTimer);
  const reading = conversation.position();
  if (reading) history.replaceState({ ...history.state, reading }, "");
}
addEventListener("scroll", () => { clearTimeout(saveTimer); saveTimer = setTimeout(savePosition, 120); }, { passive: true });
addEventListener("click", savePosition, true);

const parameters = new URLSearchParams(location.search);
const first = place.querySelector(".window:not(.waiting)");
let arrived = Promise.resolve("");
if (saved) arrived = conversation.restore(saved).then(() => "");
else if (location.hash) arrived = toHash();
else if (parameters.get("at")) {
  const anchor = document.getElementById(parameters.get("at")) ? parameters.get("at") : `m-${parameters.get("at")}`;
  arrived = go(Number(first.dataset.window) * conversation.size, anchor).then(() => anchor);
}
else if (Number(first?.dataset.window)) first.scrollIntoView({ block: "start" });
if (first) prepare(first);
loadOutline();
loadTimeline();

// Live updates; they do not move what is being read.
if (!isAgent && !Number(place.dataset.branch)) {
  let busy = null;
  onSessionUpdate((update) => {
    if (update && update.id !== place.dataset.session) return;
    busy = (busy ?? Promise.resolve()).then(async () => {
      const before = conversation.total;
      const last = (conversation.count - 1) * conversation.size;
      const isCurrent = await conversation.refresh().catch(() => true);
      if (!isCurrent) showNotice("This branch was abandoned by a rewind. Show the live branch.", () => location.assign(location.pathname));
      refreshHeader();
      if (conversation.total > before) { showRunning(); showNewCount(conversation.total - before); finder.refresh(); await loadOutline(last); loadTimeline(); }
    });
  });
}
// The facts of the header, without what is being edited there.
async function refreshHeader() {
  const { content } = await load(conversation.url("header", {})).catch(() => ({}));
  for (const selector of [".top h1 .title", ".essentials", ".session-facts"]) {
    const fresh = content?.querySelector(selector);
    const old = document.querySelector(selector);
    if (fresh && old && !old.isEqualNode(fresh)) old.replaceWith(fresh);
  }
}
// The badge of a running session; it disappears after a while without messages.
let runningTimer = 0;
function showRunning() {
  const title = document.querySelector(".top h1");
  if (!title.querySelector(".running")) title.append(createElement("span", { className: "running" }, "running"));
  clearTimeout(runningTimer);
  runningTimer = setTimeout(() => title.querySelector(".running")?.remove(), Number(place.dataset.running) * 1000);
}
let newCount = 0;
function showNewCount(count) {
  const end = conversation.sections.at(-1).getBoundingClientRect();
  if (end.top < innerHeight && end.bottom < innerHeight + 200) return;
  newCount += count;
  showNotice(`${newCount} new ↓`, () => {
    newCount = 0;
    toEnd();
  });
}
function showNotice(text, action) {
  document.querySelector(".new-messages")?.remove();
  const button = createElement("button", { type: "button", className: "new-messages" }, text);
  button.addEventListener("click", () => { button.remove(); action(); });
  document.body.append(button);
  announce(text);
}

// Find in the session.
const finder = new Finder({ place, conversation, go, compareToViewport });
onKey("f", "Find in session", () => finder.open());
onKey(".", "Next match", () => finder.move(1));
onKey(",", "Previous match", () => finder.move(-1));
for (const button of document.querySelectorAll('[data-act="find"]')) button.addEventListener("click", () => finder.open());
if (parameters.get("find")) {
  finder.target = parameters.get("at") ?? "";
  Promise.all([finder.open(parameters.get("find").slice(0, 500)), arrived]).then(([, anchor]) => { if (anchor) finder.arrive(anchor); });
}
for (const button of document.querySelectorAll('[data-act="copy"]')) {
  button.addEventListener("click", async () => {
    const response = await request(button.dataset.from).catch(() => null);
    if (response) await copyText(await response.text(), "Markdown"); else showToast("Loading failed");
  });
}

// Annotations: a star, tags, a note. They are saved one after the other.
let saving = Promise.resolve();
const annotate = (change) => (saving = saving.then(() => saveAnnotations(change)));
async function saveAnnotations(change) {
  const response = await request(`/api/sessions/${encodeURIComponent(place.dataset.session)}/annotations`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(change),
  }).catch(() => null);
  showToast(response ? "Saved" : "Saving failed");
  return response !== null;
}
const star = document.querySelector('[data-act="star"]');
async function toggleStar() {
  const wanted = star.getAttribute("aria-pressed") !== "true";
  star.setAttribute("aria-pressed", String(wanted));
  if (!await annotate({ is_starred: wanted })) star.setAttribute("aria-pressed", String(!wanted));
}
if (star) {
  star.addEventListener("click", toggleStar);
  onKey("s", "Star or unstar session", toggleStar);
}
document.getElementById("annotations")?.addEventListener("change", (event) => {
  const { name, value } = event.target;
  annotate(name === "tags" ? { tags: value.split(/[\s,]+/).filter(Boolean) } : { note: value });
});
document.getElementById("annotations")?.addEventListener("submit", (event) => { event.preventDefault(); document.activeElement.blur(); });
