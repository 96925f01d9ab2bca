// The only place where HTML of the server becomes elements. The server has escaped the text
// of transcripts, and the policy lets no other code do this.
const policy = globalThis.trustedTypes?.createPolicy("bygones", { createHTML: (html) => html });

export function parseHtml(html) {
  const template = document.createElement("template");
  template.innerHTML = policy ? policy.createHTML(html) : html;
  return template.content;
}

export async function load(url, signal) {
  const response = await fetch(url, { signal, headers: { Accept: "text/html" } });
  if (!response.ok) throw new Error(`${response.status}`);
  return { content: parseHtml(await response.text()), headers: response.headers };
}

// Announces a text to screen readers.
export function announce(text) {
  const region = document.getElementById("live-region");
  if (region) region.textContent = text;
}

export function createElement(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key in element && key !== "list") element[key] = value; else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}
