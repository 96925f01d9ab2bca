// Finding words in a session: every place in its order, unfolded and marked, also where
// nothing is loaded yet, on other branches and in agents.
import { make } from "./html.js";

const SIGN = "[\\p{L}\\p{N}]";
const BLOCK = "p, li, pre, td, th, h2, h3, h4, h5, h6, div, summary, header, article";
const MOST = 4000;  // marks at once
const isWide = (term) => /^[\u2e80-\u9fff\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff66-\uffdc]/.test(term);
const isTold = (count, one, more) => `${count.toLocaleString("en")} ${count === 1 ? one : more}`;

// Terms behind each other, as the server found them: small letters without accents.
function written(run, isBegun) {
  let made = isWide(run[0]) ? "" : `(?<!${SIGN})`;
  run.forEach((term, at) => {
    if (at) made += `[^\\p{L}\\p{N}]${isWide(term) ? "*" : "+"}`;
    made += term.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&");
  });
  if (isWide(run.at(-1))) return made;
  return made + (isBegun ? `${SIGN}*` : `(?!${SIGN})`);
}
function patternOf(told) {
  const ways = [...told.written.map((run) => written(run, false)), ...told.begun.map((run) => written(run, true))];
  if (!ways.length) return null;
  return new RegExp(ways.sort((one, other) => other.length - one.length).join("|"), "giu");
}
const plain = (text) => text.replace(/[^\x00-\x7f]/g, (sign) => sign.normalize("NFD")[0]);

// Where a pattern stands in an element. Words do not go on from one paragraph to another.
function* spans(element, pattern) {
  const texts = [];
  let whole = "";
  let last = null;
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (node.parentElement.closest(".tools-of")) continue;
    const block = node.parentElement.closest(BLOCK);
    if (last && block !== last) whole += "\n";
    last = block;
    texts.push({ node, start: whole.length });
    whole += plain(node.data);
  }
  let at = 0;
  for (const found of whole.matchAll(pattern)) {
    const end = found.index + found[0].length;
    if (!found[0]) continue;
    while (at + 1 < texts.length && texts[at + 1].start <= found.index) at += 1;
    let to = at;
    while (to + 1 < texts.length && texts[to + 1].start < end) to += 1;
    const range = new Range();
    range.setStart(texts[at].node, Math.min(found.index - texts[at].start, texts[at].node.length));
    range.setEnd(texts[to].node, Math.min(end - texts[to].start, texts[to].node.length));
    yield range;
  }
}

export class Finder {
  constructor({ place, talk, go, side }) {
    Object.assign(this, { place, talk, go, side });
    this.form = null;
    this.rest();
    this.changes = new MutationObserver(() => this.markSoon());
  }

  rest() {
    this.words = "";
    this.places = [];
    this.at = -1;
    this.pattern = null;
    this.looking = null;
  }

  open(words = "") {
    if (this.form) { this.box.select(); return this.looking; }
    this.output = make("output", {});
    this.output.setAttribute("aria-live", "polite");
    this.box = make("input", { type: "search", placeholder: "Find in this session", maxLength: 500 });
    this.box.setAttribute("aria-label", "Find in this session");
    this.others = make("ul", {});
    this.form = make("form", { className: "finder" }, this.box, this.output,
      make("button", { type: "button", title: "Previous", onclick: () => this.move(-1) }, "↑"),
      make("button", { type: "button", title: "Next", onclick: () => this.move(1) }, "↓"),
      make("button", { type: "button", title: "Close", onclick: () => this.close() }, "×"), this.others);
    this.form.setAttribute("role", "search");
    let later = 0;
    this.box.addEventListener("input", () => { clearTimeout(later); later = setTimeout(() => this.look(), 150); });
    this.form.addEventListener("submit", async (event) => {
      event.preventDefault();
      clearTimeout(later);
      await this.look();
      if (this.at < 0) this.nearest(); else this.move(1);
    });
    this.form.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      this.close();
    });
    this.place.before(this.form);
    this.changes.observe(this.place, { childList: true, subtree: true });
    this.box.value = words;
    if (!words) this.box.focus();
    return this.look();
  }

  close() {
    if (!this.form) return;
    this.changes.disconnect();
    this.form.remove();
    this.form = null;
    this.rest();
    this.mark();
    document.querySelector("article.found")?.focus({ preventScroll: true });
  }

  look() {
    if (this.box.value !== this.words) { this.words = this.box.value; this.looking = this.ask(); }
    return this.looking;
  }

  // What was looked for may stand in what was said since.
  again() {
    if (this.form && this.words.trim()) this.looking = this.ask(this.places[this.at]?.[1]);
  }

  async ask(held = "") {
    const words = this.words;
    if (!held) this.take({ places: [], others: [], written: [], begun: [] });
    if (!words.trim()) { this.output.textContent = ""; return; }
    const answer = await fetch(this.talk.address("find", { q: words }));
    const told = answer.ok ? await answer.json() : null;
    if (this.words !== words || !this.form) return;
    if (!told) { this.output.textContent = "not understood"; return; }
    this.take(told);
    this.at = held ? this.places.findIndex(([, anchor]) => anchor === held) : -1;
    if (this.at >= 0) this.tellPlace();
    else if (this.places.length) this.output.textContent = isTold(this.places.length, "place", told.is_partial ? "places or more" : "places");
    else this.output.textContent = nothing(told);
  }

  take(told) {
    this.places = told.places;
    this.at = -1;
    this.pattern = patternOf(told);
    // What stands elsewhere leads there, and is looked for there at once.
    this.others.replaceChildren(...told.others.map(([name, count, to]) => make("li", {},
      make("a", { href: to }, `${count.toLocaleString("en")} in ${name}`))));
    this.mark();
  }

  tellPlace() {
    this.output.textContent = `${(this.at + 1).toLocaleString("en")} of ${this.places.length.toLocaleString("en")}`;
  }

  // The first is the next from where one reads.
  nearest() {
    const below = this.places.findIndex(([at, anchor]) => this.side({ at, anchor }) >= 0);
    this.at = (below < 0 ? 0 : below) - 1;
    this.move(1);
  }

  async move(by) {
    if (!this.places.length) return;
    this.at = (this.at + by + this.places.length) % this.places.length;
    const [at, anchor] = this.places[this.at];
    this.tellPlace();
    const had = document.activeElement === this.box;
    await this.go(at, anchor);
    this.show(anchor);
    if (had) this.box.focus({ preventScroll: true });
  }

  // What is found in a fold is seen: the folds around it open, and the words are in sight. Where they show nowhere, they are in what was not loaded.
  show(anchor) {
    const article = document.getElementById(anchor);
    if (!article || !this.words.trim()) return;
    if (!this.pattern) {
      // A pattern or a field: only the server knows where that is.
      for (const fold of article.querySelectorAll("details")) fold.open = true;
      return;
    }
    const found = [...spans(article, this.pattern)];
    const folds = found.map((range) => range.startContainer.parentElement).filter((one) => !one.closest("summary"));
    const hidden = found.length ? folds : [...article.querySelectorAll("details[data-rest]")];
    for (const one of hidden) {
      for (let up = one; up && up !== article; up = up.parentElement) if (up.localName === "details") up.open = true;
    }
    const first = found.find((range) => range.getClientRects().length);
    const { top, bottom } = first?.getBoundingClientRect() ?? { top: innerHeight / 2, bottom: 0 };
    if (top < 0 || bottom > innerHeight) scrollBy(0, top - innerHeight / 3);
  }

  markSoon() {
    if (this.due) return;
    this.due = true;
    requestAnimationFrame(() => { this.due = false; this.mark(); });
  }

  // Marks are drawn over the page: no element is made, so nothing that reads it sees them.
  mark() {
    if (!globalThis.Highlight || !CSS.highlights) return;
    CSS.highlights.delete("words");
    if (!this.pattern) return;
    const marks = new Highlight();
    for (const [, anchor] of this.places) {
      const article = document.getElementById(anchor);
      if (!article) continue;
      for (const range of spans(article, this.pattern)) marks.add(range);
      if (marks.size > MOST) break;
    }
    CSS.highlights.set("words", marks);
  }
}

function nothing(told) {
  if (told.is_partial) return "nothing in what was looked at, which was not all: narrow it down";
  return told.others.length ? "nothing here" : "nothing here (of results, only the beginning is searched)";
}
