// Searches the sessions of an exported folder, in an index next to the page.

const box = document.querySelector(".find");
const list = document.querySelector(".sessions");
const status = document.querySelector(".status");
const index = globalThis.bygonesIndex;

if (box && list && index) {
  const sessions = index.map(([page, title, facts, text]) => ({
    page, title, facts, text, searchText: `${title}\n${facts.split(" · ")[0]}\n${text}`.toLowerCase(),
  }));
  const initialItems = [...list.children];
  box.closest("form").hidden = false;

  const count = (text, word) => text.split(word).length - 1;
  function rank(session, words) {
    let score = 0;
    for (const word of words) {
      const inTitle = count(session.title.toLowerCase(), word);
      const inText = count(session.searchText, word);
      if (!inText) return 0;
      score += 5 * inTitle + Math.min(inText, 5);
    }
    return score;
  }
  function excerpt(text, words) {
    const lowered = text.toLowerCase();
    const start = Math.max(0, Math.min(...words.map((word) => lowered.indexOf(word)).filter((n) => n >= 0), text.length) - 60);
    const part = (start ? "…" : "") + text.slice(start, start + 240);
    const line = document.createElement("p");
    const pattern = new RegExp(words.map((word) => word.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")).join("|"), "gi");
    let end = 0;
    for (const match of part.matchAll(pattern)) {
      line.append(part.slice(end, match.index));
      const mark = document.createElement("mark");
      mark.textContent = match[0];
      line.append(mark);
      end = match.index + match[0].length;
    }
    line.append(part.slice(end));
    return line;
  }
  function show() {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) {
      list.replaceChildren(...initialItems);
      status.textContent = "";
      return;
    }
    const matches = sessions
      .map((session) => ({ session, score: rank(session, words) }))
      .filter(({ score }) => score > 0)
      .sort((a, b) => b.score - a.score);
    status.textContent = matches.length === 1 ? "1 session" : `${matches.length} sessions`;
    const found = document.createElement("ul");
    found.append(...matches.slice(0, 100).map(({ session }) => {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = session.page;
      link.textContent = session.title;
      const facts = document.createElement("p");
      facts.textContent = session.facts;
      item.append(link, facts, excerpt(session.text, words));
      return item;
    }));
    list.replaceChildren(found);
  }
  box.addEventListener("input", show);
  box.closest("form").addEventListener("submit", (event) => event.preventDefault());
  if (box.value) show();
}
