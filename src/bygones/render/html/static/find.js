// Finds sessions of this folder by words, in an index that lies beside the page.

const box = document.querySelector(".find");
const list = document.querySelector(".sessions");
const status = document.querySelector(".status");
const rows = globalThis.bygonesIndex;

if (box && list && rows) {
  const known = rows.map(([page, title, facts, text]) => ({
    page, title, facts, text, low: `${title}\n${facts.split(" · ")[0]}\n${text}`.toLowerCase(),
  }));
  const first = [...list.children];
  box.closest("form").hidden = false;

  const count = (text, word) => text.split(word).length - 1;
  function rank(one, words) {
    let score = 0;
    for (const word of words) {
      const inTitle = count(one.title.toLowerCase(), word);
      const inText = count(one.low, word);
      if (!inText) return 0;
      score += 5 * inTitle + Math.min(inText, 5);
    }
    return score;
  }
  function marked(text, words) {
    const low = text.toLowerCase();
    const at = Math.max(0, Math.min(...words.map((word) => low.indexOf(word)).filter((n) => n >= 0), text.length) - 60);
    const part = (at ? "…" : "") + text.slice(at, at + 240);
    const line = document.createElement("p");
    const sign = new RegExp(words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|"), "gi");
    let last = 0;
    for (const found of part.matchAll(sign)) {
      line.append(part.slice(last, found.index));
      const mark = document.createElement("mark");
      mark.textContent = found[0];
      line.append(mark);
      last = found.index + found[0].length;
    }
    line.append(part.slice(last));
    return line;
  }
  function show() {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) {
      list.replaceChildren(...first);
      status.textContent = "";
      return;
    }
    const found = known
      .map((one) => ({ one, score: rank(one, words) }))
      .filter(({ score }) => score > 0)
      .sort((a, b) => b.score - a.score);
    status.textContent = found.length === 1 ? "1 session" : `${found.length} sessions`;
    list.replaceChildren(...found.slice(0, 100).map(({ one }) => {
      const row = document.createElement("li");
      const link = document.createElement("a");
      link.href = one.page;
      link.textContent = one.title;
      const facts = document.createElement("p");
      facts.textContent = one.facts;
      row.append(link, facts, marked(one.text, words));
      return row;
    }));
  }
  box.addEventListener("input", show);
  box.closest("form").addEventListener("submit", (event) => event.preventDefault());
  if (box.value) show();
}
