// Find in a session: all matches in order, unfolded and highlighted, also in messages that
// are not loaded yet, on other branches and in agents.
import { createElement } from "./html.js";

const LETTER = "[\\p{L}\\p{N}]";
const BLOCK = "p, li, pre, td, th, h2, h3, h4, h5, h6, div, summary, header, article";
const MAX_HIGHLIGHTS = 4000;
const isWide = (term) => /^[\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc]/.test(term);
const pluralize = (count, singular, plural) => `${count.toLocaleString("en")} ${count === 1 ? singular : plural}`;

// A run of consecutive index terms as a regular expression. Terms are lower case, without accents.
function runPattern(run, isPrefix) {
  let pattern = isWide(run[0]) ? "" : `(?<!${LETTER})`;
  run.forEach((term, at) => {
    if (at) pattern += `[^\\p{L}\\p{N}]${isWide(term) ? "*" : "+"}`;
    pattern += term.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
  });
  if (isWide(run.at(-1))) return pattern;
  return pattern + (isPrefix ? `${LETTER}*` : `(?!${LETTER})`);
}
function matchPattern(result) {
  const patterns = [...result.runs.map((run) => runPattern(run, false)), ...result.prefixes.map((run) => runPattern(run, true))];
  if (!patterns.length) return null;
  return new RegExp(patterns.sort((a, b) => b.length - a.length).join("|"), "giu");
}
const withoutAccents = (text) => text.replace(/[^\x00-\x7f]/g, (character) => character.normalize("NFD")[0]);

// Yields the ranges of an element that match. A match does not cross paragraphs.
function* matchRanges(element, pattern) {
  const texts = [];
  let whole = "";
  let last = null;
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (node.parentElement.closest(".message-actions, article > header")) continue;
    const block = node.parentElement.closest(BLOCK);
    if (last && block !== last) whole += "\n";
    last = block;
    texts.push({ node, start: whole.length });
    whole += withoutAccents(node.data);
  }
  let at = 0;
  for (const match of whole.matchAll(pattern)) {
    const end = match.index + match[0].length;
    if (!match[0]) continue;
    while (at + 1 < texts.length && texts[at + 1].start <= match.index) at += 1;
    let to = at;
    while (to + 1 < texts.length && texts[to + 1].start < end) to += 1;
    const range = new Range();
    range.setStart(texts[at].node, Math.min(match.index - texts[at].start, texts[at].node.length));
    range.setEnd(texts[to].node, Math.min(end - texts[to].start, texts[to].node.length));
    yield range;
  }
}

export class Finder {
  constructor({ place, conversation, go, compareToViewport }) {
    Object.assign(this, { place, conversation, go, compareToViewport });
    this.form = null;
    this.target = "";
    this.reset();
    this.changes = new MutationObserver(() => this.scheduleHighlight());
  }

  get hasMatches() { return this.form !== null && this.places.length > 0; }

  reset() {
    this.words = "";
    this.places = [];
    this.at = -1;
    this.pattern = null;
    this.pending = null;
  }

  open(words = "") {
    if (this.form) { this.input.select(); return this.pending; }
    this.output = createElement("output", {});
    this.output.setAttribute("aria-live", "polite");
    this.input = createElement("input", { type: "search", placeholder: "Find in this session", maxLength: 500 });
    this.input.setAttribute("aria-label", "Find in this session");
    this.others = createElement("ul", {});
    this.form = createElement("form", { className: "finder" }, this.input, this.output,
      createElement("button", { type: "button", title: "Previous match (N)", ariaLabel: "Previous match", onclick: () => this.move(-1) }, "↑"),
      createElement("button", { type: "button", title: "Next match (n)", ariaLabel: "Next match", onclick: () => this.move(1) }, "↓"),
      createElement("button", { type: "button", title: "Close", onclick: () => this.close() }, "×"), this.others);
    this.form.setAttribute("role", "search");
    let timer = 0;
    this.input.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(() => this.search(), 150); });
    this.form.addEventListener("submit", async (event) => {
      event.preventDefault();
      clearTimeout(timer);
      await this.search();
      if (this.at < 0) this.nearest(); else this.move(1);
    });
    this.form.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.close();
    });
    this.conversation.stay(() => this.place.before(this.form));
    this.changes.observe(this.place, { childList: true, subtree: true });
    this.input.value = words;
    if (!words) this.input.focus();
    return this.search();
  }

  close() {
    if (!this.form) return;
    this.changes.disconnect();
    this.form.remove();
    this.form = null;
    this.forgetTarget();
    this.reset();
    this.highlight();
    document.querySelector("article.target")?.focus({ preventScroll: true });
  }

  search() {
    if (this.input.value !== this.words) { this.words = this.input.value; this.pending = this.request(); }
    return this.pending;
  }

  // New messages may match, too.
  refresh() {
    if (this.form && this.words.trim()) this.pending = this.request(this.places[this.at]?.[1]);
  }

  async request(current = "") {
    const words = this.words;
    if (!current) this.showResults({ places: [], others: [], runs: [], prefixes: [] });
    if (!words.trim()) { this.output.textContent = ""; return; }
    if (this.searched !== undefined && this.searched !== words) this.forgetTarget();
    this.searched = words;
    const response = await fetch(this.conversation.url("find", { q: words, ...(this.target ? { at: this.target } : {}) }));
    const result = response.ok ? await response.json() : null;
    if (this.words !== words || !this.form) return;
    if (!result) { this.output.textContent = "Invalid query"; return; }
    this.showResults(result);
    this.at = current ? this.places.findIndex(([, anchor]) => anchor === current) : -1;
    if (this.at >= 0) this.showPosition();
    else if (this.places.length) this.output.textContent = pluralize(this.places.length, "match", result.is_partial ? "matches or more" : "matches");
    else this.output.textContent = noMatchText(result);
  }

  showResults(result) {
    this.places = result.places;
    this.at = -1;
    this.pattern = matchPattern(result);
    // Matches elsewhere are links that search there at once.
    this.others.replaceChildren(...result.others.map(([name, count, url]) => createElement("li", {},
      createElement("a", { href: url }, `${count.toLocaleString("en")} in ${name}`))));
    this.highlight();
  }

  showPosition() {
    this.output.textContent = `${(this.at + 1).toLocaleString("en")} of ${this.places.length.toLocaleString("en")}`;
  }

  // Starts with the first match below the top of the viewport.
  nearest() {
    const below = this.places.findIndex(([at, anchor]) => this.compareToViewport({ at, anchor }) >= 0);
    this.at = (below < 0 ? 0 : below) - 1;
    this.move(1);
  }

  async move(by) {
    if (!this.places.length) return;
    this.at = (this.at + by + this.places.length) % this.places.length;
    const [at, anchor] = this.places[this.at];
    this.showPosition();
    const hadFocus = document.activeElement === this.input;
    await this.go(at, anchor);
    this.show(anchor);
    if (hadFocus) this.input.focus({ preventScroll: true });
  }

  // After a click on a search result: its message is the current match, and the server marked the words.
  arrive(anchor) {
    const target = document.getElementById(anchor);
    this.at = this.places.findIndex(([, other]) => other === (target?.closest("article")?.id ?? anchor));
    if (this.at >= 0) this.showPosition();
    const hit = document.getElementById("hit");
    if (!hit) { this.show(anchor); return; }
    const { top, bottom } = hit.getBoundingClientRect();
    if (top < 0 || bottom > innerHeight) hit.scrollIntoView({ block: "center" });
  }

  forgetTarget() {
    this.target = "";
    for (const mark of this.place.querySelectorAll("article mark")) mark.replaceWith(...mark.childNodes);
  }

  // Opens the folds around the matches and scrolls to the first. Without a visible match, it is in text that is not loaded.
  show(anchor) {
    const article = document.getElementById(anchor);
    if (!article || !this.words.trim()) return;
    if (!this.pattern) {
      // A regular expression or a field: only the server knows what matches.
      for (const fold of article.querySelectorAll("details")) fold.open = true;
      return;
    }
    const ranges = [...matchRanges(article, this.pattern)];
    const folded = ranges.map((range) => range.startContainer.parentElement).filter((element) => !element.closest("summary"));
    const hidden = ranges.length ? folded : [...article.querySelectorAll("details[data-rest]")];
    if (!ranges.length && !hidden.length) this.output.textContent += ", in a part that is not shown";
    for (const element of hidden) {
      for (let up = element; up && up !== article; up = up.parentElement) if (up.localName === "details") up.open = true;
    }
    const first = ranges.find((range) => range.getClientRects().length);
    const { top, bottom } = first?.getBoundingClientRect() ?? { top: innerHeight / 2, bottom: 0 };
    if (top < 0 || bottom > innerHeight) scrollBy(0, top - innerHeight / 3);
  }

  scheduleHighlight() {
    if (this.isScheduled) return;
    this.isScheduled = true;
    requestAnimationFrame(() => { this.isScheduled = false; this.highlight(); });
  }

  // Uses the CSS highlight API, which does not change the document.
  highlight() {
    if (!globalThis.Highlight || !CSS.highlights) return;
    CSS.highlights.delete("words");
    if (!this.pattern) return;
    const highlights = new Highlight();
    for (const [, anchor] of this.places) {
      const article = document.getElementById(anchor);
      if (!article) continue;
      for (const range of matchRanges(article, this.pattern)) highlights.add(range);
      if (highlights.size > MAX_HIGHLIGHTS) break;
    }
    CSS.highlights.set("words", highlights);
  }
}

function noMatchText(result) {
  if (result.is_partial) return "No matches in the part that was searched. Try a more specific query.";
  return result.others.length ? "No matches here" : "No matches here (only the start of a long tool result is searched)";
}
