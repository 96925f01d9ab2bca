// Reading a session. Messages come in windows: those near the screen are there, the
// others are empty and as high as they were, so the scroll bar tells the truth.
import { onKey, listen } from "./app.js";
import { Finder } from "./find.js";
import { load, make, say } from "./html.js";

const NEAR = 1600;   // pixels around the screen within which windows are loaded
const FAR = 12000;   // pixels beyond which they are emptied
const GUESS = 2100;  // height of a window that nobody has seen

class Conversation {
  constructor(place, { own, branch, total, size, root = null }) {
    Object.assign(this, { place, own, branch, total, size, root });
    this.heights = [];
    this.known = 0;
    this.sum = 0;
    this.loading = new Map();
    this.sections = [];
    this.near = new IntersectionObserver((seen) => this.met(seen), { root, rootMargin: `${NEAR}px 0px` });
    this.far = new IntersectionObserver((seen) => this.left(seen), { root, rootMargin: `${FAR}px 0px` });
    const given = place.querySelector(":scope > .window");
    const at = given ? Number(given.dataset.window) : -1;
    for (let number = 0; number < this.count; number += 1) {
      if (number === at) { this.adopt(given, number); continue; }
      const section = this.blank(number);
      if (number < at) given.before(section); else place.append(section);
    }
    if (given) this.complete(given, at);
  }

  // A page comes with what is seen first: the rest of that window follows.
  complete(section, number) {
    const { from, until } = section.dataset;
    const low = number * this.size;
    const high = Math.min(low + this.size, this.total);
    if (from === undefined) return;
    delete section.dataset.from;
    delete section.dataset.until;
    const part = (start, stop) => (start < stop ? load(this.address("window", { from: start, until: stop })) : null);
    const task = (async () => {
      const [above, below] = await Promise.all([part(low, Number(from)), part(Number(until), high)]);
      if (above) section.prepend(above.content);
      if (below) section.append(below.content);
      this.measure(number, section);
    })().catch(() => undefined).finally(() => this.loading.delete(number));
    this.loading.set(number, task);
  }

  get count() { return Math.max(Math.ceil(this.total / this.size), 1); }

  adopt(section, number) {
    this.sections[number] = section;
    this.near.observe(section);
    this.far.observe(section);
  }

  blank(number) {
    const section = make("section", { className: "window waiting" });
    section.dataset.window = number;
    section.style.height = `${this.guess(number)}px`;
    section.setAttribute("aria-busy", "true");
    this.adopt(section, number);
    return section;
  }

  guess(number) {
    const usual = this.known ? this.sum / this.known : GUESS;
    const share = Math.min(this.total - number * this.size, this.size) / this.size;
    return Math.round(this.heights[number] ?? usual * Math.max(share, 0.05));
  }

  measure(number, section) {
    if (this.heights[number] === undefined) this.known += 1;
    this.sum -= this.heights[number] ?? 0;
    this.heights[number] = section.getBoundingClientRect().height;
    this.sum += this.heights[number];
  }

  address(name, asked) {
    const all = new URLSearchParams({ ...(this.branch ? { branch: this.branch } : {}), ...asked });
    return `${this.own}/${name}?${all}`;
  }

  met(seen) {
    for (const { target, isIntersecting } of seen) {
      target.dataset.near = isIntersecting ? "1" : "";
      if (isIntersecting && target.classList.contains("waiting")) this.fill(Number(target.dataset.window));
    }
  }

  left(seen) {
    for (const { target, isIntersecting } of seen) {
      if (isIntersecting || target.classList.contains("waiting")) continue;
      if (target.contains(document.activeElement)) continue;
      const number = Number(target.dataset.window);
      this.measure(number, target);
      target.style.height = `${this.heights[number]}px`;
      target.classList.add("waiting");
      target.replaceChildren();
    }
  }

  async fill(number) {
    if (this.loading.has(number)) return this.loading.get(number);
    const section = this.sections[number];
    if (!section || this.isRewound || !section.classList.contains("waiting")) return undefined;
    const task = (async () => {
      // Whoever scrolls fast passes by: only what is still near is asked for.
      if (this.loading.size > 3) await new Promise((go) => { setTimeout(go, 120); });
      if (!section.dataset.near && this.loading.size > 3) return;
      const { content, headers } = await load(this.address("window", { from: number * this.size }));
      const total = Number(headers.get("X-Total"));
      if (this.shrank(total)) return;
      this.grow(total);
      section.replaceChildren(content);
      section.classList.remove("waiting");
      section.removeAttribute("aria-busy");
      section.style.height = "";
      this.measure(number, section);
    })().finally(() => this.loading.delete(number));
    this.loading.set(number, task);
    return task.catch(() => undefined);
  }

  // Who shows a branch that was left shows no more of it: its number is another one's now.
  shrank(total) {
    this.isRewound ||= total < this.total;
    return this.isRewound;
  }

  // New messages: further windows at the end, nothing above them moves.
  grow(total) {
    if (!(total > this.total)) return;
    const before = this.count;
    this.total = total;
    for (let number = before; number < this.count; number += 1) this.place.append(this.blank(number));
  }

  // The last window again: what is new is added, what has changed is exchanged.
  async refresh() {
    const number = this.count - 1;
    const section = this.sections[number];
    await this.loading.get(number);
    const { content, headers } = await load(this.address("window", { from: number * this.size }));
    if (this.shrank(Number(headers.get("X-Total")))) return false;
    if (!section.classList.contains("waiting")) {
      const old = [...section.children];
      const fresh = [...content.children];
      fresh.forEach((one, at) => {
        if (!old[at]) section.append(one);
        else if (!alike(old[at], one)) { keepOpen(old[at], one); old[at].replaceWith(one); }
      });
      old.slice(fresh.length).forEach((one) => one.remove());
    }
    this.grow(Number(headers.get("X-Total")));
    return true;
  }

  async reveal(at, anchor) {
    const number = Math.floor(at / this.size);
    const section = this.sections[number];
    if (!section) return null;
    section.dataset.near = "1";
    await this.loading.get(number);
    if (section.classList.contains("waiting")) {
      section.scrollIntoView({ block: "start" });
      await this.fill(number);
      if (section.classList.contains("waiting")) await this.fill(number);
    }
    const target = (anchor && document.getElementById(anchor)) || section;
    for (let up = target; up && up !== section; up = up.parentElement) if (up.localName === "details") up.open = true;
    target.scrollIntoView({ block: "start" });
    // What came into the page meanwhile may have moved it.
    await new Promise((done) => { requestAnimationFrame(done); });
    target.scrollIntoView({ block: "start" });
    return target;
  }
}

const bare = (element) => {
  const copy = element.cloneNode(true);
  copy.querySelectorAll("details[open]").forEach((one) => one.removeAttribute("open"));
  copy.querySelectorAll(".tools-of, .agent-inside").forEach((one) => one.remove());
  copy.classList?.remove("found");
  copy.removeAttribute("tabindex");
  return copy;
};
const alike = (one, other) => bare(one).isEqualNode(bare(other))
  || (one.querySelector("[data-whole]") && one.children.length >= other.children.length);
function keepOpen(old, fresh) {
  for (const one of old.querySelectorAll("details[open][id]")) {
    const again = fresh.querySelector(`#${CSS.escape(one.id)}`);
    if (again) again.open = true;
  }
}

const place = document.getElementById("conversation");
history.scrollRestoration = "manual";
const main = document.querySelector("main.reading");
const talk = new Conversation(place, {
  own: place.dataset.own,
  branch: Number(place.dataset.branch),
  total: Number(place.dataset.total),
  size: Number(place.dataset.size),
});
const isAgent = place.dataset.own.includes("/agent/");

// The outline, and what of it is being read.
const outline = document.getElementById("outline");
const kinds = { prompt: "Prompts", agent: "Agents", edit: "Edits", error: "Errors", compaction: "Compactions" };
const remembered = (() => { try { return JSON.parse(localStorage.getItem("bygones-outline")); } catch { return null; } })();
const wanted = new Set(Array.isArray(remembered) ? remembered : ["prompt", "agent", "compaction"]);
let marks = [];
let shown = [];
let current = null;

// Of a session that grows, only what is new is asked for.
async function loadOutline(start = 0) {
  const answer = await fetch(talk.address("outline", start ? { from: start } : {}));
  if (!answer.ok) return;
  const fresh = (await answer.json()).map(([kind, at, anchor, text]) => ({ kind, at, anchor, text }));
  marks = [...marks.filter((mark) => mark.at < start), ...fresh];
  drawKinds();
  drawOutline();
}

function drawKinds() {
  const group = document.querySelector(".kinds");
  group.replaceChildren(...Object.entries(kinds).flatMap(([kind, told]) => {
    const count = marks.filter((mark) => mark.kind === kind).length;
    if (!count) return [];
    const button = make("button", { type: "button" }, `${told} ${count.toLocaleString("en")}`);
    button.setAttribute("aria-pressed", wanted.has(kind));
    button.addEventListener("click", () => {
      if (wanted.has(kind)) wanted.delete(kind); else wanted.add(kind);
      button.setAttribute("aria-pressed", wanted.has(kind));
      try { localStorage.setItem("bygones-outline", JSON.stringify([...wanted])); } catch { /* private */ }
      drawOutline();
    });
    return [button];
  }));
}

// Of a long outline only the lines in sight are there; the others are room.
const LINE = 27;
let from = -1;
function drawOutline() {
  shown = marks.filter((mark) => wanted.has(mark.kind));
  current = null;
  from = -1;
  drawLines();
  follow();
}
function drawLines() {
  const room = Math.ceil(outline.clientHeight / LINE) || 40;
  const first = Math.max(Math.floor(outline.scrollTop / LINE) - room, 0);
  if (from >= 0 && Math.abs(first - from) < room / 2) return;
  from = first;
  const last = Math.min(first + 3 * room, shown.length);
  const held = document.activeElement?.closest?.("#outline a")?.hash;
  outline.replaceChildren(...shown.slice(first, last).map((mark) => {
    const link = make("a", { href: `#${mark.anchor}`, title: mark.text }, mark.text || "…");
    if (mark === current) link.setAttribute("aria-current", "true");
    return make("li", { className: `o-${mark.kind}` }, link);
  }));
  // Room of the list itself would make it as high as all lines: it must stay what scrolls.
  if (first < last) {
    outline.firstElementChild.style.marginTop = `${first * LINE}px`;
    outline.lastElementChild.style.marginBottom = `${(shown.length - last) * LINE}px`;
  }
  if (held) outline.querySelector(`a[href="${CSS.escape(held)}"]`)?.focus({ preventScroll: true });
}
outline.addEventListener("scroll", () => requestAnimationFrame(drawLines), { passive: true });
addEventListener("resize", () => { from = -1; drawLines(); });

outline.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  if (!link) return;
  event.preventDefault();
  const mark = shown[from + [...outline.children].indexOf(link.parentElement)];
  if (mark) go(mark.at, mark.anchor);
  document.querySelector(".outline").classList.remove("open");
});

async function go(at, anchor) {
  const target = await talk.reveal(at, anchor);
  if (!target) return;
  if (anchor) history.replaceState(null, "", `${location.pathname}${location.search}#${anchor}`);
  document.querySelector(".found")?.classList.remove("found");
  if (target.id) target.classList.add("found");
  target.tabIndex = -1;
  target.focus({ preventScroll: true });
}

// Where the reader is: the last line of the outline above the upper third.
function firstFrom(list, fits) {
  let low = 0;
  let high = list.length;
  while (low < high) { const middle = (low + high) >> 1; if (fits(list[middle])) high = middle; else low = middle + 1; }
  return low;
}
function here() {
  const line = innerHeight / 3;
  const number = Math.max(firstFrom(talk.sections, (one) => one.getBoundingClientRect().top > line) - 1, 0);
  let at = firstFrom(shown, (mark) => mark.at >= number * talk.size) - 1;
  while (at + 1 < shown.length && shown[at + 1].at < (number + 1) * talk.size) {
    const element = document.getElementById(shown[at + 1].anchor);
    if (element && element.getBoundingClientRect().top > line) break;
    at += 1;
  }
  return at;
}
let due = false;
function follow() {
  due = false;
  const at = here();
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
addEventListener("scroll", () => { if (!due) { due = true; requestAnimationFrame(follow); } }, { passive: true });

// Keys: through messages and prompts.
const shownArticles = () => [...place.querySelectorAll(":scope > .window > article")].filter((one) => one.getClientRects().length);
function step(by) {
  const all = shownArticles();
  const edge = parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop) || 0;
  const top = (one) => one.getBoundingClientRect().top - edge;
  let at = by > 0 ? all.findIndex((one) => top(one) > 4) : all.findLastIndex((one) => top(one) < -4);
  if (at < 0) at = by > 0 ? all.length - 1 : 0;
  focusOn(all[at]);
}
function focusOn(target) {
  if (!target) return;
  target.scrollIntoView({ block: "start" });
  target.tabIndex = -1;
  target.focus({ preventScroll: true });
}
// Whether a place is below the upper edge of what is seen (1), above it (-1), or there.
function side({ at, anchor }) {
  const edge = parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop) || 0;
  const element = document.getElementById(anchor);
  if (element) return Math.sign(Math.round((element.getBoundingClientRect().top - edge) / 6));
  const section = talk.sections[Math.floor(at / talk.size)];
  return section && section.getBoundingClientRect().top > edge ? 1 : -1;
}
function jump(kind, by) {
  const list = marks.filter((mark) => mark.kind === kind);
  const next = by > 0 ? list.find((mark) => side(mark) > 0) : list.findLast((mark) => side(mark) < 0);
  if (next) go(next.at, next.anchor); else say(`no further ${kind}`);
}
onKey("j", "next message", () => step(1));
onKey("k", "previous message", () => step(-1));
onKey("n", "next prompt", () => jump("prompt", 1));
onKey("p", "previous prompt", () => jump("prompt", -1));
onKey("e", "next error", () => jump("error", 1));
onKey("E", "previous error", () => jump("error", -1));
onKey("gg", "beginning", () => go(0, ""));
// To the very end: what is loaded on the way there may be higher than it was thought.
async function toEnd() {
  await talk.reveal(talk.total - 1, "");
  for (let tries = 0; tries < 30; tries += 1) {
    scrollTo(0, document.body.scrollHeight);
    await new Promise((done) => { requestAnimationFrame(() => requestAnimationFrame(done)); });
    if (!talk.loading.size && scrollY + innerHeight >= document.body.scrollHeight - 2) return;
    await Promise.all(talk.loading.values());
  }
}
onKey("G", "end", toEnd);
onKey("o", "fold or unfold all", () => {
  const all = [...place.querySelectorAll("details.call, details.thought, details.agent")];
  const open = !all.some((one) => one.open);
  for (const one of all) one.open = open;
});
onKey("l", "outline", () => document.querySelector(".outline").classList.toggle("open"));
for (const button of document.querySelectorAll('[data-act="outline"]')) {
  button.addEventListener("click", () => document.querySelector(".outline").classList.toggle("open"));
}

// What can be had of a message: its link, its records, its Markdown.
const chosen = () => document.activeElement?.closest?.("article") ?? place.querySelector("article.found") ?? shownArticles().find((one) => one.getBoundingClientRect().bottom > 80);
const ownOf = (article) => article.closest("[data-own]")?.dataset ?? place.dataset;
function permalink(article) {
  const of = ownOf(article);
  const asked = new URLSearchParams(Number(of.branch) ? { branch: of.branch } : {});
  asked.set("at", article.id);
  return `${location.origin}${of.own}?${asked}#${article.id}`;
}
async function copy(words, told) {
  await navigator.clipboard.writeText(words);
  say(`${told} copied`);
}
async function textOf(article, name) {
  const of = ownOf(article);
  const asked = new URLSearchParams({ at: article.id, ...(Number(of.branch) ? { branch: of.branch } : {}) });
  const answer = await fetch(`${of.own}/${name}?${asked}`);
  return answer.ok ? answer.text() : `${answer.status}`;
}
const acts = {
  link: (article) => copy(permalink(article), "link"),
  markdown: async (article) => copy(await textOf(article, "markdown"), "Markdown"),
  raw: async (article) => {
    const dialog = document.getElementById("keys");
    const close = make("form", { method: "dialog" }, make("button", {}, "Close"));
    dialog.replaceChildren(make("h2", { id: "keys-title" }, "The record as it was written"), make("pre", {}, await textOf(article, "raw")), close);
    dialog.showModal();
  },
};
for (const [key, name, told] of [["c", "link", "copy a link to the message"], ["m", "markdown", "copy the message as Markdown"], ["r", "raw", "show the raw record"]]) {
  onKey(key, told, () => { const article = chosen(); if (article) acts[name](article); });
}
function equip(article) {
  if (article.querySelector(":scope > .tools-of") || !article.id) return;
  const bar = make("div", { className: "tools-of" });
  for (const [name, told] of [["link", "Link"], ["markdown", "Markdown"], ["raw", "Raw"]]) {
    const button = make("button", { type: "button" }, told);
    button.addEventListener("click", () => acts[name](article));
    bar.append(button);
  }
  article.append(bar);
}
for (const name of ["pointerover", "focusin"]) {
  main.addEventListener(name, (event) => { const article = event.target.closest?.("article"); if (article) equip(article); });
}

// Long outputs: their end is asked for when somebody unfolds it.
main.addEventListener("toggle", async (event) => {
  const fold = event.target;
  if (!fold.matches?.("details[data-rest][open]")) return;
  fold.removeAttribute("data-rest");
  const article = fold.closest("article");
  const call = fold.closest(".call[id]") ?? article;
  const at = [...call.querySelectorAll("details.more")].indexOf(fold);
  const of = ownOf(article);
  const asked = new URLSearchParams({ at: article.id, ...(Number(of.branch) ? { branch: of.branch } : {}) });
  const told = await load(`${of.own}/message?${asked}`).catch(() => null);
  const whole = told?.content.querySelector(`#${CSS.escape(call.id)}`);
  const rest = whole?.querySelectorAll("details.more")[at] ?? whole?.querySelector("pre.diff");
  if (!rest) { fold.setAttribute("data-rest", ""); fold.open = false; say("that could not be had"); return; }
  call.setAttribute("data-whole", "");
  if (rest.localName === "details") fold.append(...[...rest.children].slice(1)); else fold.append(rest);
}, true);

// Agents: beside the conversation, or in it.
let panel = null;
let opener = null;
function closePanel() {
  const had = panel?.contains(document.activeElement) || document.activeElement === document.body;
  panel?.remove();
  main.classList.remove("with-panel");
  // Whoever read the agent goes on where its line is.
  if (panel && had && opener?.isConnected) opener.focus({ preventScroll: true });
  panel = opener = null;
}
async function openPanel(link) {
  const own = new URL(link.href).pathname;
  closePanel();
  opener = link;
  const inside = make("div", { className: "conversation" });
  panel = make("aside", { className: "panel" }, make("header", {},
    make("h2", {}, link.textContent),
    make("a", { href: own }, "Page"),
    make("button", { type: "button", onclick: closePanel }, "Close")), inside);
  panel.setAttribute("aria-label", "Agent");
  main.append(panel);
  main.classList.add("with-panel");
  await fillAgent(inside, own, panel);
  panel.querySelector("button").focus({ preventScroll: true });
}
async function fillAgent(inside, own, root) {
  Object.assign(inside.dataset, { own, branch: 0 });
  const { content, headers } = await load(`${own}/window?from=0`);
  const first = make("section", { className: "window" }, content);
  first.dataset.window = 0;
  inside.append(first);
  const total = Number(headers.get("X-Total"));
  return new Conversation(inside, { own, branch: 0, total, size: talk.size, root });
}
main.addEventListener("click", (event) => {
  const link = event.target.closest?.("p.agent > a");
  if (!link || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  if (event.altKey || link.closest(".panel")) {
    const line = link.closest("p.agent");
    const open = line.nextElementSibling;
    if (open?.classList.contains("agent-inside")) { open.remove(); return; }
    const inside = make("div", { className: "agent-inside conversation" });
    line.after(inside);
    fillAgent(inside, new URL(link.href).pathname, link.closest(".panel"));
  } else openPanel(link);
});
addEventListener("keydown", (event) => {
  if (event.key !== "Escape" || document.querySelector("dialog[open]")) return;
  if (panel) closePanel(); else finder.close();
});

// A link to a message leads there, wherever it is.
async function toHash() {
  const anchor = decodeURIComponent(location.hash.slice(1));
  if (!/^[mcat]-/.test(anchor)) return false;
  const near = document.getElementById(anchor);
  if (near) { go(Number(near.closest(".window")?.dataset.window ?? 0) * talk.size, anchor); return true; }
  const { headers } = await load(talk.address("window", { at: anchor })).catch(() => ({}));
  if (!headers) return false;
  await go(Number(headers.get("X-Window")) * talk.size, anchor);
  return true;
}
addEventListener("hashchange", toHash);

const asked = new URLSearchParams(location.search);
const first = place.querySelector(".window:not(.waiting)");
let arrived = Promise.resolve("");
if (location.hash) toHash();
else if (asked.get("at")) {
  const anchor = document.getElementById(asked.get("at")) ? asked.get("at") : `m-${asked.get("at")}`;
  arrived = go(Number(first.dataset.window) * talk.size, anchor).then(() => anchor);
}
else if (Number(first?.dataset.window)) first.scrollIntoView({ block: "start" });
loadOutline();

// What is being written appears, and does not move what is being read.
if (!isAgent && !Number(place.dataset.branch)) {
  let busy = null;
  listen((news) => {
    if (news && news.id !== place.dataset.session) return;
    busy = (busy ?? Promise.resolve()).then(async () => {
      const before = talk.total;
      const last = (talk.count - 1) * talk.size;
      const went = await talk.refresh().catch(() => true);
      if (!went) pill("rewound: show the live branch", () => location.assign(location.pathname));
      if (talk.total > before) { tellRunning(); tellNew(talk.total - before); finder.again(); await loadOutline(last); }
    });
  });
}
// The mark of a session in which something is said; it goes when nothing was for a while.
let silent = 0;
function tellRunning() {
  const title = document.querySelector(".top h1");
  if (!title.querySelector(".running")) title.append(make("span", { className: "running" }, "running"));
  clearTimeout(silent);
  silent = setTimeout(() => title.querySelector(".running")?.remove(), Number(place.dataset.running) * 1000);
}
let fresh = 0;
function tellNew(count) {
  const end = talk.sections.at(-1).getBoundingClientRect();
  if (end.top < innerHeight && end.bottom < innerHeight + 200) return;
  fresh += count;
  pill(`${fresh} new ↓`, () => {
    fresh = 0;
    toEnd();
  });
}
function pill(words, act) {
  document.querySelector(".latest")?.remove();
  const made = make("button", { type: "button", className: "latest" }, words);
  made.addEventListener("click", () => { made.remove(); act(); });
  document.body.append(made);
  say(words);
}

// Find in the session.
const finder = new Finder({ place, talk, go, side });
onKey("f", "find in the session", () => finder.open());
for (const button of document.querySelectorAll('[data-act="find"]')) button.addEventListener("click", () => finder.open());
if (asked.get("find")) {
  Promise.all([finder.open(asked.get("find").slice(0, 500)), arrived]).then(([, anchor]) => { if (anchor) finder.show(anchor); });
}
for (const button of document.querySelectorAll('[data-act="copy"]')) {
  button.addEventListener("click", async () => {
    const answer = await fetch(button.dataset.from);
    if (!answer.ok) return;
    await copy(await answer.text(), "Markdown");
    button.dataset.done = "1";
    setTimeout(() => delete button.dataset.done, 1500);
  });
}

// What a reader adds: a star, tags, a note.
async function annotate(change) {
  const answer = await fetch(`/api/sessions/${encodeURIComponent(place.dataset.session)}/annotations`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(change),
  });
  if (!answer.ok) { say("that could not be kept"); return null; }
  say("kept");
  return (await answer.json()).items[0];
}
const star = document.querySelector('[data-act="star"]');
async function toggleStar() {
  const told = await annotate({ is_starred: star.getAttribute("aria-pressed") !== "true" });
  if (told) star.setAttribute("aria-pressed", String(told.is_starred));
}
if (star) {
  star.addEventListener("click", toggleStar);
  onKey("s", "star the session", toggleStar);
}
document.getElementById("annotations")?.addEventListener("change", (event) => {
  const { name, value } = event.target;
  annotate(name === "tags" ? { tags: value.split(/[\s,]+/).filter(Boolean) } : { note: value });
});
document.getElementById("annotations")?.addEventListener("submit", (event) => { event.preventDefault(); document.activeElement.blur(); });
