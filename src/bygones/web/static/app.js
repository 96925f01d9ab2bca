// What every page can do: keys, the theme, filters that act at once, news.
import { elements, load, make, say } from "./html.js";

document.documentElement.classList.add("scripted");

// On a narrow screen the ways scroll: the one that was taken is in sight.
const bar = document.querySelector(".ways");
const way = bar?.querySelector("[aria-current]");
if (way) bar.scrollLeft = way.offsetLeft - bar.offsetLeft - (bar.clientWidth - way.offsetWidth) / 2;

const themes = [...document.querySelectorAll('input[name="theme"]')];
for (const theme of themes) {
  if (theme.value === document.documentElement.dataset.theme) theme.checked = true;
  theme.addEventListener("change", () => {
    if (theme.value === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme.value;
    try { localStorage.setItem("bygones-theme", theme.value); } catch { /* private */ }
  });
}

// Whoever points at a session, or comes to it by keys, is about to open it: its page is made meanwhile.
const PAUSE = 65;
const pointed = new Set();
let soon = 0;
function foresee(link) {
  pointed.add(link.href);
  fetch(link.href, { priority: "low" }).catch(() => pointed.delete(link.href));
}
for (const [name, pause] of [["pointerover", PAUSE], ["focusin", PAUSE], ["pointerdown", 0]]) {
  addEventListener(name, (event) => {
    clearTimeout(soon);
    const link = event.target.closest?.('a[href^="/session/"]');
    if (!link || pointed.has(link.href) || event.button > 0) return;
    if (pause) soon = setTimeout(foresee, pause, link); else foresee(link);
  }, { passive: true });
}

// Keys. A page may bring more of them.
const keys = new Map();
export function onKey(key, told, act) { keys.set(key, { told, act }); }
const isTyping = (target) => target.closest?.("input:not([type=radio]):not([type=checkbox]), textarea, select, [contenteditable]");
let pending = "";
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "Escape" && isTyping(event.target)) { event.target.blur(); return; }
  if (isTyping(event.target)) return;
  if (document.querySelector("dialog[open]")) return;
  const both = `${pending}${event.key}`;
  const found = keys.get(both) ?? keys.get(event.key);
  pending = !pending && event.key === "g" ? "g" : "";
  if (!found) return;
  event.preventDefault();
  found.act(event);
});

onKey("/", "search", () => {
  const box = document.getElementById("query") ?? document.querySelector(".box input");
  box.focus(); box.select();
});
onKey("t", "another theme", () => {
  const at = themes.findIndex((theme) => theme.checked);
  themes[(at + 1) % themes.length]?.click();
});
const ways = [["s", "/", "sessions"], ["p", "/projects", "projects"], ["f", "/files", "files"], ["u", "/usage", "usage"], ["a", "/about", "about"]];
for (const [key, to, told] of ways) onKey(`g${key}`, `go to ${told}`, () => { location.assign(to); });
onKey("?", "these keys", showKeys);

function showKeys() {
  const dialog = document.getElementById("keys");
  const lines = [...keys].map(([key, { told }]) => make("li", {}, make("kbd", {}, key.split("").join(" ")), ` ${told}`));
  dialog.replaceChildren(
    make("h2", { id: "keys-title" }, "Keys"),
    make("ul", { className: "keys" }, ...lines),
    make("form", { method: "dialog" }, make("button", {}, "Close")),
  );
  dialog.showModal();
}

// Lists are walked with j and k, whatever they hold.
const rows = () => [...document.querySelectorAll(".sessions li > a, .hits .hit > a")].filter((one) => one.offsetParent);
function step(by) {
  const all = rows();
  const at = all.indexOf(document.activeElement);
  const next = all[at < 0 ? (by > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + by, 0), all.length - 1)];
  next?.focus();
  next?.scrollIntoView({ block: "nearest" });
}
if (!document.querySelector(".reading")) {
  onKey("j", "next", () => step(1));
  onKey("k", "previous", () => step(-1));
}

// Filters act at once.
for (const form of document.querySelectorAll("form[data-live]")) {
  const submit = () => {
    const asked = new URLSearchParams(new FormData(form));
    for (const [name, value] of [...asked]) if (!value || value === "0") asked.delete(name);
    location.assign(asked.size ? `${form.getAttribute("action")}?${asked}` : form.getAttribute("action"));
  };
  form.addEventListener("change", submit);
  form.addEventListener("submit", (event) => { event.preventDefault(); submit(); });
}

// Older sessions come when the end of the list is near.
async function extend(link) {
  if (link.dataset.busy) return;
  link.dataset.busy = "1";
  try {
    const { content } = await load(link.getAttribute("href"));
    const place = link.closest(".older");
    place.before(content);
    place.remove();
    watchEnd();
  } catch { link.dataset.busy = ""; }
}
const nearEnd = new IntersectionObserver((seen) => {
  for (const one of seen) if (one.isIntersecting) extend(one.target);
}, { rootMargin: "1200px" });
function watchEnd() { for (const link of document.querySelectorAll("a[data-more]")) nearEnd.observe(link); }
watchEnd();
document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-more]");
  if (link) { event.preventDefault(); extend(link); }
  const copy = event.target.closest?.("[data-copy]");
  if (copy) {
    navigator.clipboard.writeText(copy.dataset.copy).then(() => {
      say("copied");
      copy.dataset.done = "1";
      setTimeout(() => delete copy.dataset.done, 1500);
    });
  }
});

// News: pages that want it listen for "grown".
let source = null;
export function listen(act) {
  if (!source) source = new EventSource("/api/live");
  source.addEventListener("message", (event) => act(JSON.parse(event.data)));
  source.addEventListener("missed", () => act(null));
}
addEventListener("pagehide", () => source?.close());

const now = document.getElementById("now");
if (now) {
  listen(async (news) => {
    if (!news) return;
    const answer = await fetch("/");
    if (!answer.ok) return;
    const page = elements(await answer.text());
    for (const id of ["now", "timeline"]) {
      const fresh = page.getElementById ? page.getElementById(id) : page.querySelector(`#${id}`);
      const old = document.getElementById(id);
      if (!fresh || !old || scrollY > 400) continue;
      const held = document.activeElement?.getAttribute?.("href");
      old.replaceWith(fresh);
      if (held) fresh.querySelector(`a[href="${CSS.escape(held)}"]`)?.focus();
    }
    watchEnd();
  });
}
