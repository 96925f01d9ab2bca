// The only place where HTML of the server becomes elements. The server has escaped the text
// of transcripts, and the policy lets no other code do this.
const policy = globalThis.trustedTypes?.createPolicy("bygones", { createHTML: (html) => html });

export function parseHtml(html) {
  const template = document.createElement("template");
  template.innerHTML = policy ? policy.createHTML(html) : html;
  return template.content;
}

// A request whose error says whether it makes sense to try again.
export async function request(url, options) {
  const response = await fetch(url, options);
  if (response.status === 401) showSignedOut();
  if (!response.ok) throw Object.assign(new Error(`${response.status}`), { status: response.status });
  return response;
}

export async function load(url, signal) {
  const response = await request(url, { signal, headers: { Accept: "text/html" } });
  return { content: parseHtml(await response.text()), headers: response.headers };
}

// After a restart of the server this page has no key any more; reloading leads to the sign-in page.
function showSignedOut() {
  if (document.querySelector(".signed-out")) return;
  const notice = createElement("div", { className: "signed-out", role: "alert" },
    "The server was restarted. ",
    createElement("button", { type: "button", onclick: () => location.reload() }, "Sign in again"));
  document.body.append(notice);
}

// Announces a text to screen readers.
export function announce(text) {
  const region = document.getElementById("live-region");
  if (region) region.textContent = text;
}

// Shows a short message at the bottom of the page for a moment.
let toastTimer = 0;
export function showToast(text) {
  announce(text);
  let toast = document.querySelector(".toast");
  if (!toast) { toast = createElement("div", { className: "toast" }); toast.setAttribute("aria-hidden", "true"); }
  (document.querySelector("dialog[open]") ?? document.body).append(toast);
  toast.textContent = text;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => toast.remove(), 2200);
}

// The clipboard API is missing on plain HTTP addresses of other machines.
export async function copyText(text, label = "") {
  const done = label ? `${label} copied` : "Copied";
  try {
    if (!navigator.clipboard) throw new Error("no clipboard");
    await navigator.clipboard.writeText(text);
  } catch {
    const field = createElement("textarea", { value: text, className: "visually-hidden", readOnly: true });
    (document.querySelector("dialog[open]") ?? document.body).append(field);
    const focused = document.activeElement;
    field.select();
    const isCopied = document.execCommand("copy");
    field.remove();
    focused?.focus?.({ preventScroll: true });
    if (!isCopied) { showToast("Copying failed"); return false; }
  }
  showToast(done);
  return true;
}

// Settings that this browser remembers.
export function readSetting(name, fallback) {
  try { return JSON.parse(localStorage.getItem(`bygones-${name}`)) ?? fallback; } catch { return fallback; }
}
export function writeSetting(name, value) {
  try { localStorage.setItem(`bygones-${name}`, JSON.stringify(value)); } catch { /* private */ }
}

// Whether the page was reached with Back, Forward or Reload.
export const isReturning = ["back_forward", "reload"].includes(performance.getEntriesByType("navigation")[0]?.type);

export function createElement(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key in element && key !== "list") element[key] = value; else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

export const nextFrame = () => new Promise((done) => { requestAnimationFrame(done); });
