// The one place where markup of the server becomes elements. The server has escaped
// whatever came from a transcript; the policy lets no other code do this.
const policy = globalThis.trustedTypes?.createPolicy("bygones", { createHTML: (made) => made });

export function elements(made) {
  const holder = document.createElement("template");
  holder.innerHTML = policy ? policy.createHTML(made) : made;
  return holder.content;
}

export async function load(address, signal) {
  const answer = await fetch(address, { signal, headers: { Accept: "text/html" } });
  if (!answer.ok) throw new Error(`${answer.status}`);
  return { content: elements(await answer.text()), headers: answer.headers };
}

// Words for everybody, also for those who hear the page.
export function say(words) {
  const place = document.getElementById("said");
  if (place) place.textContent = words;
}

export function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (key in made && key !== "list") made[key] = value; else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}
