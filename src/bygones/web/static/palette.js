// The command palette: jump to sessions, projects, files, prompts and searches, or run an action.
import { createElement, request } from "./html.js";

const DELAY = 80;
let dialog = null;
let input, list;
let shortcuts = [];
let entries = [];
let at = 0;
let pending = null;
let timer = 0;

export function showPalette(actions, typed = "") {
  if (dialog?.open) { dialog.close(); return; }
  shortcuts = actions.filter(({ label }) => !["Next", "Previous"].some((word) => label.startsWith(word)));
  if (!dialog) build();
  input.value = typed;
  dialog.showModal();
  input.focus();
  update();
}

function build() {
  input = createElement("input", { type: "search", placeholder: "Jump to a session, project, file, prompt or action", maxLength: 200, spellcheck: false, autocomplete: "off" });
  for (const [name, value] of [["role", "combobox"], ["aria-expanded", "true"], ["aria-controls", "palette-list"], ["aria-label", "Jump to"], ["aria-autocomplete", "list"]]) input.setAttribute(name, value);
  list = createElement("ul", { id: "palette-list", role: "listbox" });
  list.setAttribute("aria-label", "Results");
  dialog = createElement("dialog", { className: "palette" }, input, list);
  dialog.setAttribute("aria-label", "Jump to anything");
  document.body.append(dialog);
  input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(update, DELAY); });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") select(at + 1);
    else if (event.key === "ArrowUp") select(at - 1);
    else if (event.key === "Enter") run(entries[at], event.ctrlKey || event.metaKey);
    else if (event.key === "Escape") dialog.close(); // browsers would only clear the field
    else return;
    event.preventDefault();
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) { dialog.close(); return; }
    const line = event.target.closest("[role=option]");
    if (line) run(entries[Number(line.dataset.at)], event.ctrlKey || event.metaKey);
  });
}

function matchingActions(words) {
  return shortcuts.filter(({ label }) => words.every((word) => label.toLowerCase().includes(word)))
    .slice(0, words.length ? 6 : 4)
    .map(({ key, label, action }) => ({ group: "Actions", label, detail: key.split("").join(" "), action }));
}

async function update() {
  const text = input.value.trim();
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  pending?.abort();
  pending = new AbortController();
  let found = [];
  try {
    const response = await request(`/palette?${new URLSearchParams({ q: text })}`, { signal: pending.signal });
    found = (await response.json()).map(([group, label, detail, url]) => ({ group, label, detail, url }));
  } catch (error) { if (error.name === "AbortError") return; }
  entries = [...found, ...matchingActions(words)];
  if (text) entries.push({ group: "Search", label: `Search everything for “${text}”`, detail: "", url: `/search?${new URLSearchParams({ q: text })}` });
  draw();
}

// The end of a path says more than its start.
const isPath = ({ group }) => group === "Files" || group === "Projects";

function draw() {
  let group = "";
  const lines = [];
  entries.forEach((entry, number) => {
    if (entry.group !== group) {
      group = entry.group;
      lines.push(createElement("li", { className: "group", role: "presentation" }, group));
    }
    const line = createElement("li", { role: "option", id: `palette-${number}` }, createElement("span", {}, entry.label), createElement("small", { className: isPath(entry) ? "path" : "" }, createElement("bdi", {}, entry.detail)));
    line.dataset.at = number;
    line.setAttribute("aria-selected", "false");
    lines.push(line);
  });
  list.replaceChildren(...lines);
  at = 0;
  select(0);
}

function select(number) {
  if (!entries.length) return;
  document.getElementById(`palette-${at}`)?.setAttribute("aria-selected", "false");
  at = (number + entries.length) % entries.length;
  const line = document.getElementById(`palette-${at}`);
  line.setAttribute("aria-selected", "true");
  line.scrollIntoView({ block: "nearest" });
  input.setAttribute("aria-activedescendant", line.id);
}

function run(entry, inNewTab) {
  if (!entry) return;
  if (entry.url && inNewTab) { open(entry.url, "_blank", "noopener"); return; }
  dialog.close();
  if (entry.url) location.assign(entry.url); else entry.action(new Event("palette"));
}
