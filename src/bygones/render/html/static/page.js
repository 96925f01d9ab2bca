// Remembers the theme, handles keys, and unfolds the target of a link. The page can be
// read without this script.

const themes = [...document.querySelectorAll('input[name="theme"]')];
const store = {
  read() { try { return localStorage.getItem("bygones-theme"); } catch { return null; } },
  write(name) { try { localStorage.setItem("bygones-theme", name); } catch { /* private */ } },
};

for (const theme of themes) {
  if (theme.value === store.read()) theme.checked = true;
  theme.addEventListener("change", () => store.write(theme.value));
}

// If another branch is selected, the messages after the fork are hidden. CSS could do
// that too, but the rule would be tried on each of 50,000 messages.
function showSelectedBranch(fork) {
  const isOther = fork.querySelector(":scope > label > .other").checked;
  const hide = (at) => { for (; at; at = at.nextElementSibling) at.hidden = isOther; };
  hide(fork.nextElementSibling);
  if (fork.parentElement.classList.contains("part")) hide(fork.parentElement.nextElementSibling);
}
for (const fork of document.querySelectorAll(".fork")) {
  if (fork.querySelector(":scope > label > .other").checked) showSelectedBranch(fork);
  for (const choice of fork.querySelectorAll(":scope > label > input")) choice.addEventListener("change", () => showSelectedBranch(fork));
}

// The target of a link may be folded, or on a branch that is not selected.
function reveal() {
  let target = null;
  try { target = document.getElementById(decodeURIComponent(location.hash.slice(1))); } catch { return; }
  if (!target) return;
  for (let at = target; at; at = at.parentElement) {
    if (at.localName === "details") at.open = true;
    if (at.classList.contains("branch")) {
      at.parentElement.querySelector(":scope > label > .other").checked = true;
      showSelectedBranch(at.parentElement);
    }
  }
  target.scrollIntoView({ block: "start" });
}
addEventListener("hashchange", reveal);
if (location.hash) reveal();

// Highlight the current prompt in the table of contents.
const links = new Map([...document.querySelectorAll(".toc a")].map((a) => [a.hash.slice(1), a]));
if (links.size && "IntersectionObserver" in window) {
  let current = null;
  const observer = new IntersectionObserver((entries) => {
    for (const { isIntersecting, target } of entries) {
      if (!isIntersecting) continue;
      current?.removeAttribute("aria-current");
      current = links.get(target.id);
      current?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "0px 0px -60% 0px" });
  for (const id of links.keys()) {
    const target = document.getElementById(id);
    if (target) observer.observe(target);
  }
}

const isVisible = (element) => element.getClientRects().length > 0;
function go(selector, step) {
  const all = [...document.querySelectorAll(selector)].filter(isVisible);
  const edge = 8;
  const firstBelow = all.findIndex((element) => element.getBoundingClientRect().top > edge);
  const next = firstBelow < 0 ? all.length : firstBelow;
  let at = next;
  if (step < 0) {
    at = next - 1;
    if (at >= 0 && all[at].getBoundingClientRect().top > -edge) at -= 1;
  } else if (all[next] && all[next].getBoundingClientRect().top < 4 * edge) at = next + 1;
  const target = all[Math.min(Math.max(at, 0), all.length - 1)];
  if (!target) return;
  target.scrollIntoView({ block: "start" });
  target.tabIndex = -1;
  target.focus({ preventScroll: true });
}
function foldAll() {
  const all = [...document.querySelectorAll("main details.call, main details.thought, main details.agent")];
  const open = !all.some((details) => details.open);
  for (const details of all) details.open = open;
}
function nextTheme() {
  const at = themes.findIndex((theme) => theme.checked);
  themes[(at + 1) % themes.length]?.click();
}
const keys = {
  j: () => go("main article", 1),
  k: () => go("main article", -1),
  n: () => go("main > .part > .prompt", 1),
  p: () => go("main > .part > .prompt", -1),
  o: foldAll,
  t: nextTheme,
  "/": () => document.querySelector(".find")?.focus(),
};
addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest?.("input[type=search], textarea, select")) return;
  const action = keys[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});
