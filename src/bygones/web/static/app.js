// On every page: keys, the theme, filters, prefetching and live updates.
import { copyText, createElement, isReturning, load, parseHtml, readSetting, writeSetting } from "./html.js";

// On a narrow screen the navigation scrolls: show the current item.
const nav = document.querySelector(".nav-items");
const currentItem = nav?.querySelector("[aria-current]");
if (currentItem) nav.scrollLeft = currentItem.offsetLeft - nav.offsetLeft - (nav.clientWidth - currentItem.offsetWidth) / 2;

const themes = [...document.querySelectorAll('input[name="theme"]')];
for (const theme of themes) {
  if (theme.value === document.documentElement.dataset.theme) theme.checked = true;
  theme.addEventListener("change", () => {
    if (theme.value === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme.value;
    try { localStorage.setItem("bygones-theme", theme.value); } catch { /* private */ }
  });
}

// Pointing at a session, or focusing it, prefetches its page.
const PREFETCH_DELAY = 65;
const prefetched = new Set();
let prefetchTimer = 0;
function prefetch(link) {
  prefetched.add(link.href);
  fetch(link.href, { priority: "low" }).catch(() => prefetched.delete(link.href));
}
for (const [name, delay] of [["pointerover", PREFETCH_DELAY], ["focusin", PREFETCH_DELAY], ["pointerdown", 0]]) {
  addEventListener(name, (event) => {
    clearTimeout(prefetchTimer);
    const link = event.target.closest?.('a[href^="/session/"]');
    if (!link || prefetched.has(link.href) || event.button > 0) return;
    if (delay) prefetchTimer = setTimeout(prefetch, delay, link); else prefetch(link);
  }, { passive: true });
}

// Keyboard shortcuts. Pages may add more.
const keys = new Map();
export function onKey(key, label, action) { keys.set(key, { label, action }); }
const isTyping = (target) => target.closest?.("input:not([type=radio], [type=checkbox], [type=range]), textarea, select, [contenteditable]");
let pending = "";
addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === "k") {
    event.preventDefault();
    openPalette();
    return;
  }
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && isTyping(event.target)) { event.target.blur(); return; }
  if (isTyping(event.target)) return;
  if (document.querySelector("dialog[open]")) return;
  const shortcut = keys.get(`${pending}${event.key}`) ?? keys.get(event.key);
  pending = !pending && event.key === "g" ? "g" : "";
  if (!shortcut) return;
  event.preventDefault();
  shortcut.action(event);
});

onKey("/", "Search", () => {
  const input = document.getElementById("query") ?? document.querySelector(".header-search input");
  input.focus(); input.select();
});
onKey("t", "Switch theme", () => {
  const at = themes.findIndex((theme) => theme.checked);
  themes[(at + 1) % themes.length]?.click();
});
const pages = [["s", "/", "sessions"], ["p", "/projects", "projects"], ["r", "/prompts", "prompts"], ["f", "/files", "files"], ["u", "/usage", "usage"], ["a", "/about", "about"]];
for (const [key, url, name] of pages) onKey(`g${key}`, `Go to ${name}`, () => { location.assign(url); });
// The palette is loaded when it is used first. What is typed meanwhile is for it.
async function openPalette() {
  let typed = "";
  let isCancelled = false;
  const collect = (event) => {
    if (event.key === "Escape") isCancelled = true;
    else if (event.key.length === 1 && !event.ctrlKey && !event.metaKey) typed += event.key;
    else return;
    event.preventDefault();
    event.stopImmediatePropagation();
  };
  addEventListener("keydown", collect, true);
  try {
    const { showPalette } = await import("./palette.js");
    const shortcuts = [...keys].map(([key, { label, action }]) => ({ key, label, action }));
    if (!isCancelled) showPalette([...headerActions(), ...shortcuts], typed);
  } finally { removeEventListener("keydown", collect, true); }
}
// What the header of a session offers and no key does.
function headerActions() {
  const elements = document.querySelectorAll(".actions > a, .actions > button:not([data-act=star], [data-act=find], [data-act=outline])");
  return [...elements].map((element) => ({ key: "", label: element.ariaLabel ?? element.textContent.trim(), action: () => element.click() }));
}
for (const button of document.querySelectorAll('[data-act="palette"]')) button.addEventListener("click", openPalette);

onKey("?", "Show keyboard shortcuts", showKeys);

function showKeys() {
  const dialog = document.getElementById("keys");
  const lines = [["Ctrl K", { label: "Jump to anything" }], ...keys].map(([key, { label }]) => createElement("li", {}, createElement("kbd", {}, key.includes(" ") ? key : key.split("").join(" ")), ` ${label}`));
  dialog.replaceChildren(
    createElement("h2", { id: "keys-title" }, "Keyboard shortcuts"),
    createElement("ul", { className: "keys" }, ...lines),
    createElement("form", { method: "dialog" }, createElement("button", {}, "Close")),
  );
  dialog.showModal();
}

// j and k move through lists.
const rows = () => [...document.querySelectorAll(".sessions .row-title, .hits .hit > a")].filter((link) => link.offsetParent);
function step(by) {
  const all = rows();
  const at = all.indexOf(document.activeElement);
  const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1)];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}
if (!document.querySelector(".reading")) {
  onKey("j", "Next session", () => step(1));
  onKey("k", "Previous session", () => step(-1));
}

// Filters are applied when they change.
for (const form of document.querySelectorAll("form[data-live]")) {
  const submit = () => {
    const query = new URLSearchParams(new FormData(form));
    for (const [name, value] of [...query]) if (!value || value === "0") query.delete(name);
    location.assign(query.size ? `${form.getAttribute("action")}?${query}` : form.getAttribute("action"));
  };
  form.addEventListener("change", submit);
  form.addEventListener("submit", (event) => { event.preventDefault(); submit(); });
}

// Older sessions are loaded when the end of the list is near.
let loadedParts = 0;
async function loadMore(link) {
  if (link.dataset.busy) return;
  link.dataset.busy = "1";
  try {
    const { content } = await load(link.dataset.more || link.getAttribute("href"));
    const place = link.closest(".older");
    place.before(content);
    place.remove();
    loadedParts += 1;
    watchEnd();
  } catch {
    link.dataset.busy = "";
    link.textContent = "Loading failed. Try again";
    nearEnd.unobserve(link);
  }
}
const nearEnd = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) loadMore(entry.target);
}, { rootMargin: "1200px" });
function watchEnd() { for (const link of document.querySelectorAll("a[data-more]")) nearEnd.observe(link); }

// Back, Forward and Reload return to the same place of a list, after the parts that were loaded.
async function restoreList() {
  const saved = isReturning ? history.state?.list : null;
  if (saved?.parts) {
    history.scrollRestoration = "manual";
    for (let part = 0; part < saved.parts; part += 1) {
      const link = document.querySelector("a[data-more]");
      if (link) await loadMore(link);
    }
    scrollTo(0, saved.top);
    const row = document.querySelector(`[data-session="${CSS.escape(saved.row ?? "")}"]`);
    if (row) scrollBy(0, row.getBoundingClientRect().top - saved.rowTop);
  }
  watchEnd();
  let timer = 0;
  const save = () => {
    clearTimeout(timer);
    if (loadedParts) history.scrollRestoration = "manual";
    const row = [...document.querySelectorAll("[data-session]")].find((one) => one.getBoundingClientRect().top >= 0);
    const list = { parts: loadedParts, top: scrollY, row: row?.dataset.session, rowTop: row?.getBoundingClientRect().top };
    history.replaceState({ ...history.state, list }, "");
  };
  addEventListener("scroll", () => { clearTimeout(timer); timer = setTimeout(save, 120); }, { passive: true });
  addEventListener("click", save, true);
}
if (!document.querySelector(".reading")) restoreList();
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-more]");
  if (link) { event.preventDefault(); loadMore(link); }
  const copy = event.target.closest?.("[data-copy]");
  if (copy) copyText(copy.dataset.copy);
});

// Live updates: `action` gets the session that has changed, or null if events were missed.
let source = null;
const updateActions = [];
export function onSessionUpdate(action) {
  updateActions.push(action);
  if (!source) listenForUpdates();
}
function listenForUpdates() {
  source = new EventSource("/api/live");
  source.addEventListener("message", (event) => { for (const action of updateActions) action(JSON.parse(event.data)); });
  source.addEventListener("missed", () => { for (const action of updateActions) action(null); });
  // After the server has stopped, another user's program may listen on its port and would
  // get the cookie. So a tab connects again only when it is used.
  source.addEventListener("error", () => {
    source.close();
    const controller = new AbortController();
    const resume = () => { controller.abort(); listenForUpdates(); };
    for (const kind of ["pointerdown", "keydown"]) addEventListener(kind, resume, { signal: controller.signal });
  });
}
addEventListener("pagehide", () => source?.close());

// The list of sessions: bulk actions, density, and live updates.
const bulk = document.getElementById("bulk");
if (bulk) {
  const boxes = () => [...bulk.querySelectorAll("tbody [name=session]")];
  const selectAll = bulk.querySelector('[data-act="select-all"]');
  let last = null;
  const count = () => {
    const chosen = boxes().filter((box) => box.checked).length;
    bulk.querySelector("[data-count]").textContent = `${chosen} selected`;
    selectAll.checked = chosen > 0 && chosen === boxes().length;
    selectAll.indeterminate = chosen > 0 && !selectAll.checked;
  };
  bulk.addEventListener("click", (event) => {
    const box = event.target.closest?.("tbody [name=session]");
    if (!box) return;
    const all = boxes();
    if (event.shiftKey && last?.isConnected) {
      const [low, high] = [all.indexOf(last), all.indexOf(box)].sort((a, b) => a - b);
      for (const other of all.slice(low, high + 1)) other.checked = box.checked;
    }
    last = box;
  });
  bulk.addEventListener("change", (event) => {
    if (event.target === selectAll) for (const box of boxes()) box.checked = selectAll.checked;
    count();
  });
  onKey("x", "Select session", () => {
    const box = document.activeElement?.closest?.("tr")?.querySelector("[name=session]");
    if (box) { box.checked = !box.checked; count(); }
  });
}
for (const density of document.querySelectorAll("[name=density]")) {
  if (density.value === readSetting("density", "compact")) density.checked = true;
  density.addEventListener("change", () => writeSetting("density", density.value));
}
if (document.querySelector("main.home")) {
  onSessionUpdate(async (update) => {
    if (!update || scrollY > 400 || bulk?.querySelector("tbody :checked")) return;
    const response = await fetch(location.href);
    if (!response.ok) return;
    const fresh = parseHtml(await response.text()).querySelector("#timeline");
    const old = document.getElementById("timeline");
    if (!fresh || !old) return;
    const focused = document.activeElement?.closest?.("#timeline a")?.getAttribute("href");
    old.replaceWith(fresh);
    loadedParts = 0;
    if (focused) fresh.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    watchEnd();
  });
}
