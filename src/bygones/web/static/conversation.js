// The messages of a conversation, loaded in windows: those near the viewport are filled, the
// others are placeholders of the same height, so that the scroll bar is right.
import { createElement, load, nextFrame } from "./html.js";

const NEAR = 1600;   // pixels around the viewport within which windows are loaded
const FAR = 12000;   // pixels beyond which they are emptied
const GUESS = 2100;  // height of a window that was not measured yet
const LONGEST_WAIT = 16000;

export class Conversation {
  constructor(place, { own, branch, total, size, root = null, onFilled = null }) {
    Object.assign(this, { place, own, branch, total, size, root, onFilled });
    this.heights = [];
    this.known = 0;
    this.sum = 0;
    this.loading = new Map();
    this.sections = [];
    this.near = new IntersectionObserver((entries) => this.onNear(entries), { root, rootMargin: `${NEAR}px 0px` });
    this.far = new IntersectionObserver((entries) => this.onFar(entries), { root, rootMargin: `${FAR}px 0px` });
    const given = place.querySelector(":scope > .window");
    const at = given ? Number(given.dataset.window) : -1;
    place.querySelector(":scope > .spacer")?.remove();
    for (let number = 0; number < this.count; number += 1) {
      if (number === at) { this.adopt(given, number); continue; }
      const section = this.placeholder(number);
      if (number < at) given.before(section); else place.append(section);
    }
    if (given) this.complete(given, at);
  }

  // A page contains the messages that are visible first; the rest of that window follows.
  complete(section, number) {
    const { from, until } = section.dataset;
    const low = number * this.size;
    const high = Math.min(low + this.size, this.total);
    if (from === undefined) return;
    const part = (start, stop) => (start < stop ? this.request(this.url("window", { from: start, until: stop }), section) : null);
    const task = (async () => {
      const [above, below] = await Promise.all([part(low, Number(from)), part(Number(until), high)]);
      this.stay(() => {
        if (above) section.prepend(above.content);
        if (below) section.append(below.content);
        this.setComplete(section);
        this.onFilled?.(section);
      });
      this.measure(number, section);
    })().catch(() => undefined).finally(() => this.loading.delete(number));
    this.loading.set(number, task);
  }

  setComplete(section) {
    delete section.dataset.from;
    delete section.dataset.until;
  }

  get count() { return Math.max(Math.ceil(this.total / this.size), 1); }

  adopt(section, number) {
    this.sections[number] = section;
    this.near.observe(section);
    this.far.observe(section);
  }

  placeholder(number) {
    const section = createElement("section", { className: "window waiting" });
    section.dataset.window = number;
    section.style.height = `${this.guess(number)}px`;
    section.setAttribute("aria-busy", "true");
    this.adopt(section, number);
    return section;
  }

  guess(number) {
    const usual = this.known ? this.sum / this.known : GUESS;
    const share = Math.min(this.total - number * this.size, this.size) / this.size;
    return Math.round(this.heights[number] ?? usual * Math.max(share, 0.05));
  }

  measure(number, section) {
    if (this.heights[number] === undefined) this.known += 1;
    this.sum -= this.heights[number] ?? 0;
    this.heights[number] = section.getBoundingClientRect().height;
    this.sum += this.heights[number];
  }

  url(name, parameters) {
    const query = new URLSearchParams({ ...(this.branch ? { branch: this.branch } : {}), ...parameters });
    return `${this.own}/${name}?${query}`;
  }

  // Loads a part of the conversation. If that fails, the page says so and tries again, as long
  // as the part is near the viewport.
  async request(url, section) {
    for (let attempt = 0; ; attempt += 1) {
      try {
        const response = await load(url);
        section.querySelector(":scope > .load-problem")?.remove();
        return response;
      } catch (error) {
        const isFinal = error.status >= 400 && error.status < 500;
        await this.showProblem(section, attempt, isFinal);
        if (section.dataset.near === "") { section.querySelector(":scope > .load-problem")?.remove(); throw error; }
      }
    }
  }

  // Shows that loading failed, until it is time for the next attempt.
  showProblem(section, attempt, isFinal) {
    let line = section.querySelector(":scope > .load-problem");
    return new Promise((done) => {
      const button = createElement("button", { type: "button", onclick: done }, "Try again");
      const text = isFinal ? "These messages could not be loaded. " : "These messages could not be loaded; trying again. ";
      if (!line) { line = createElement("p", { className: "load-problem", role: "status" }); section.append(line); }
      line.replaceChildren(text, button);
      if (!isFinal) setTimeout(done, Math.min(1000 * 2 ** attempt, LONGEST_WAIT));
      addEventListener("online", done, { once: true });
    });
  }

  onNear(entries) {
    for (const { target, isIntersecting } of entries) {
      target.dataset.near = isIntersecting ? "1" : "";
      if (!isIntersecting) continue;
      const number = Number(target.dataset.window);
      if (target.classList.contains("waiting")) this.fill(number);
      else if (!this.loading.has(number)) this.complete(target, number);
    }
  }

  onFar(entries) {
    for (const { target, isIntersecting } of entries) {
      if (isIntersecting || target.classList.contains("waiting")) continue;
      if (target.contains(document.activeElement)) continue;
      const number = Number(target.dataset.window);
      this.measure(number, target);
      target.style.height = `${this.heights[number]}px`;
      target.classList.add("waiting");
      target.replaceChildren();
    }
  }

  async fill(number) {
    if (this.loading.has(number)) return this.loading.get(number);
    const section = this.sections[number];
    if (!section || this.isRewound || !section.classList.contains("waiting")) return undefined;
    const task = (async () => {
      // After fast scrolling, only windows that are still near are loaded.
      if (this.loading.size > 3) await new Promise((go) => { setTimeout(go, 120); });
      if (!section.dataset.near && this.loading.size > 3) return;
      const { content, headers } = await this.request(this.url("window", { from: number * this.size }), section);
      const total = Number(headers.get("X-Total"));
      if (this.detectRewind(total)) return;
      this.grow(total);
      this.stay(() => {
        section.replaceChildren(content);
        this.setComplete(section);
        section.classList.remove("waiting");
        section.removeAttribute("aria-busy");
        section.style.height = "";
        this.onFilled?.(section);
      });
      this.measure(number, section);
    })().catch(() => undefined).finally(() => this.loading.delete(number));
    this.loading.set(number, task);
    return task;
  }

  // A conversation that gets shorter was rewound: this branch now has another number.
  detectRewind(total) {
    this.isRewound ||= total < this.total;
    return this.isRewound;
  }

  // New messages are added as windows at the end, so nothing above them moves.
  grow(total) {
    if (!(total > this.total)) return;
    const before = this.count;
    this.total = total;
    for (let number = before; number < this.count; number += 1) this.place.append(this.placeholder(number));
  }

  // Loads the last window again: adds new messages and replaces changed ones.
  async refresh() {
    const number = this.count - 1;
    const section = this.sections[number];
    await this.loading.get(number);
    const { content, headers } = await load(this.url("window", { from: number * this.size }));
    if (this.detectRewind(Number(headers.get("X-Total")))) return false;
    if (!section.classList.contains("waiting")) {
      const old = [...section.children];
      const fresh = [...content.children];
      fresh.forEach((element, at) => {
        if (!old[at]) section.append(element);
        else if (!isSame(old[at], element)) { keepOpen(old[at], element); old[at].replaceWith(element); }
      });
      old.slice(fresh.length).forEach((element) => element.remove());
      this.setComplete(section);
    }
    this.grow(Number(headers.get("X-Total")));
    return true;
  }

  // Waits for requests, but not for those that are tried again and again.
  settled() {
    const limit = new Promise((done) => { setTimeout(done, 3000); });
    return Promise.race([Promise.all(this.loading.values()), limit]);
  }

  // The message at the top of the viewport, and how far it is from there.
  position() {
    for (const section of this.sections) {
      if (section.getBoundingClientRect().bottom < 0) continue;
      for (const article of section.querySelectorAll(":scope > [id]")) {
        const { top, bottom } = article.getBoundingClientRect();
        if (bottom > 0) return { window: Number(section.dataset.window), anchor: article.id, top };
      }
      return { window: Number(section.dataset.window), anchor: "", top: section.getBoundingClientRect().top };
    }
    return null;
  }

  // Makes a change without moving the message that is being read. Browsers do that themselves,
  // but not if a script has just scrolled.
  stay(change) {
    const message = this.root || !scrollY ? null : this.firstVisible();
    const before = message?.getBoundingClientRect().top;
    change();
    const moved = message?.isConnected ? message.getBoundingClientRect().top - before : 0;
    if (Math.abs(moved) >= 1) scrollBy({ top: moved, behavior: "instant" });
  }

  firstVisible() {
    for (const section of this.sections) {
      const { top, bottom } = section.getBoundingClientRect();
      if (top > innerHeight) return null;
      if (bottom < 0) continue;
      for (const article of section.querySelectorAll(":scope > [id]")) if (article.getBoundingClientRect().bottom > 0) return article;
    }
    return null;
  }

  // Scrolls to a position of before.
  async restore({ window: number, anchor, top }) {
    const target = await this.reveal(number * this.size, anchor);
    if (!target) return;
    for (let tries = 0; tries < 3; tries += 1) {
      scrollBy(0, target.getBoundingClientRect().top - top);
      await nextFrame();
      await this.settled();
    }
    scrollBy(0, target.getBoundingClientRect().top - top);
  }

  async reveal(at, anchor) {
    const number = Math.floor(at / this.size);
    const section = this.sections[number];
    if (!section) return null;
    // Of several calls, only the last one scrolls.
    const call = this.lastCall = {};
    const scroll = (element) => { if (this.lastCall === call) element.scrollIntoView({ block: "start" }); };
    section.dataset.near = "1";
    await this.loading.get(number);
    if (section.classList.contains("waiting")) {
      scroll(section);
      await this.fill(number);
      if (section.classList.contains("waiting")) await this.fill(number);
    }
    const target = (anchor && document.getElementById(anchor)) || section;
    for (let up = target; up && up !== section; up = up.parentElement) if (up.localName === "details") up.open = true;
    scroll(target);
    // Content that was loaded in the meantime may have moved it.
    await nextFrame();
    scroll(target);
    return target;
  }
}

const withoutState = (element) => {
  const copy = element.cloneNode(true);
  copy.querySelectorAll("details[open]").forEach((details) => details.removeAttribute("open"));
  copy.querySelectorAll(".message-actions, .inline-agent").forEach((element) => element.remove());
  copy.classList?.remove("target");
  copy.removeAttribute("tabindex");
  return copy;
};
const isSame = (old, fresh) => withoutState(old).isEqualNode(withoutState(fresh))
  || (old.querySelector("[data-whole]") && old.children.length >= fresh.children.length);
function keepOpen(old, fresh) {
  for (const details of old.querySelectorAll("details[open][id]")) {
    const replacement = fresh.querySelector(`#${CSS.escape(details.id)}`);
    if (replacement) replacement.open = true;
  }
}
