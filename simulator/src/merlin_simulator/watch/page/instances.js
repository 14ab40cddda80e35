// The instances: memory and disk as bars, every model there is on them.

import { arrange, element, mark, nameOf, say } from "./elements.js";
import { ago, bytes, number } from "./words.js";

const DENSE_FROM = 49; // models in memory from which one gets a line only
const SHOWN = 400; // models in memory, and names of those on disk, that get an element
const SHOWN_ON_DISK = 40;
const RECENCY_S = [5, 30, 120]; // the shades' limits

export class Instances {
  constructor(parent) {
    this.parent = parent;
    this.cards = new Map();
  }

  draw(state, now) {
    const many = new Set(state.instances.map((instance) => `${instance.variant} ${instance.fleet}`)).size > 1;
    const nodes = state.instances.map((instance) => {
      if (!this.cards.has(instance.name)) this.cards.set(instance.name, new Card(instance.name));
      const card = this.cards.get(instance.name);
      card.draw(instance, state.memory_threshold, now, many);
      return card.node;
    });
    arrange(this.parent, nodes);
    mark(this.parent, "count", Math.min(nodes.length, 4));
    const names = new Set(state.instances.map((instance) => instance.name));
    for (const name of this.cards.keys()) if (!names.has(name)) this.cards.delete(name);
  }
}

class Card {
  constructor(name) {
    const title = `instance-${name}`;
    this.state = element("span", { class: "state" });
    this.variant = element("p", { class: "variant" });
    this.flight = element("span", { class: "flight" });
    this.numbers = element("a", { class: "numbers", rel: "noreferrer", text: "metrics" });
    this.message = element("p", { class: "message" });
    this.memory = new Bar("Memory");
    this.disk = new Bar("Disk");
    this.count = element("h4");
    this.tiles = element("ul", { class: "tiles", "aria-label": `Models in memory of ${name}` });
    this.diskCount = element("h4");
    this.chips = element("ul", { class: "chips", "aria-label": `Models on disk only of ${name}` });
    this.node = element(
      "article", { class: "instance", "aria-labelledby": title },
      element("header", {}, element("h3", { id: title, text: name }), this.state, this.flight, this.numbers), this.variant,
      this.message, this.memory.node, this.disk.node, this.count, this.tiles, this.diskCount, this.chips,
    );
    this.models = new Map();
    this.names = new Map();
    keysGoThrough(this.tiles);
  }

  draw(instance, threshold, now, many) {
    say(this.state, instance.state);
    mark(this.node, "state", instance.state);
    say(this.variant, many ? variantOf(instance) : "");
    say(this.flight, `${instance.in_flight} in flight`);
    this.drawNumbers(instance);
    say(this.message, instance.message);
    const models = [...instance.models].sort((a, b) => (a.target_model < b.target_model ? -1 : 1));
    const held = models.filter((model) => model.state !== "on disk");
    this.drawMemory(instance, held, threshold, now);
    this.disk.draw({ used: instance.disk_used, limit: instance.disk_budget, word: "budget" });
    this.drawTiles(held, now);
    this.drawOnDisk(models.filter((model) => model.state === "on disk"));
  }

  // A link where this browser can reach the container: both on this machine. Addresses of a Docker
  // network and of other machines are the platform's alone.
  drawNumbers(instance) {
    const reachable = isLoopback(new URL(instance.url).hostname) && isLoopback(location.hostname);
    this.numbers.hidden = !reachable;
    const link = `${instance.url}/metrics`;
    if (reachable && this.numbers.getAttribute("href") !== link) this.numbers.setAttribute("href", link);
  }

  drawMemory(instance, held, threshold, now) {
    const segments = held.filter((model) => model.memory).map((model) => ({
      key: model.target_model, size: model.memory, recency: recency(model, now),
    }));
    const known = segments.reduce((sum, segment) => sum + segment.size, 0);
    const used = instance.memory_used ?? (known || null);
    const own = Math.max(0, (used ?? 0) - known);
    this.memory.draw({ used, limit: instance.memory_limit, word: "limit", own, segments, threshold });
  }

  drawTiles(held, now) {
    const loaded = held.filter((model) => model.state === "loaded").length;
    say(this.count, `${loaded || "None"} loaded${held.length > loaded ? `, ${held.length - loaded} on the way` : ""}`);
    const dense = held.length >= DENSE_FROM;
    mark(this.tiles, "dense", dense);
    const shown = held.slice(0, SHOWN);
    const nodes = shown.map((model) => {
      if (!this.models.has(model.target_model)) this.models.set(model.target_model, new Tile(model.target_model));
      const tile = this.models.get(model.target_model);
      tile.draw(model, now, dense);
      return tile.node;
    });
    arrange(this.tiles, nodes);
    if (nodes.length && !nodes.some((node) => node.tabIndex === 0)) nodes[0].tabIndex = 0;
    const names = new Set(shown.map((model) => model.target_model));
    for (const name of this.models.keys()) if (!names.has(name)) this.models.delete(name);
  }

  drawOnDisk(models) {
    say(this.diskCount, models.length ? `${models.length} on disk only` : "");
    const shown = models.slice(0, SHOWN_ON_DISK);
    const nodes = shown.map((model) => {
      if (!this.names.has(model.target_model)) this.names.set(model.target_model, chip(model.target_model));
      const node = this.names.get(model.target_model);
      const tip = `${model.target_model}: ${bytes(model.disk)} on disk, not loaded`;
      if (node.title !== tip) node.title = tip;
      return node;
    });
    if (models.length > shown.length) nodes.push(this.more(models.length - shown.length));
    arrange(this.chips, nodes);
    const names = new Set(shown.map((model) => model.target_model));
    for (const name of this.names.keys()) if (!names.has(name)) this.names.delete(name);
  }

  more(count) {
    this.rest ??= element("li", { class: "more" });
    say(this.rest, `and ${number(count)} more`);
    return this.rest;
  }
}

// Of which variant, and during an update of which of its fleets.
function variantOf({ variant, fleet }) {
  const part = { coming: ", of the new configuration", leaving: ", of the old configuration" }[fleet] ?? "";
  return `variant ${variant}${part}`;
}

function isLoopback(host) {
  return host === "localhost" || host === "[::1]" || /^127(\.\d+){3}$/.test(host);
}

function chip(name) {
  return element("li", { class: "chip" }, nameOf(name));
}

class Tile {
  constructor(name) {
    this.name = name;
    this.meta = element("span", { class: "meta" });
    this.state = element("span", { class: "step" });
    this.node = element("li", { class: "tile", tabindex: "-1" }, nameOf(name), this.state, this.meta);
    this.invocations = null;
  }

  draw(model, now, dense) {
    mark(this.node, "state", model.state);
    mark(this.node, "recency", recency(model, now));
    say(this.state, model.state === "loaded" ? "" : model.state);
    const size = model.memory === null ? "" : bytes(model.memory);
    const used = model.last_used === null ? "not used yet" : ago(now - model.last_used);
    const facts = [size, `${number(model.invocations)} ×`, used].filter(Boolean);
    say(this.meta, facts.join(" · "));
    this.describe(model, size || "memory not known", used);
    if (!dense && this.invocations !== null && model.invocations > this.invocations) this.flash();
    this.invocations = model.invocations;
  }

  describe(model, size, used) {
    const words = `${model.target_model}: ${model.state}, ${size}, ${bytes(model.disk)} on disk, `
      + `${number(model.invocations)} invocations, ${model.in_flight} in flight, last used: ${used}`;
    if (this.node.title === words) return;
    this.node.title = words;
    this.node.setAttribute("aria-label", words);
  }

  // A short light when it was invoked; at most one at a time, and of opacity, which costs no paint.
  flash() {
    if (this.flashing || matchMedia("(prefers-reduced-motion: reduce)").matches) return;
    this.flashing = this.node.animate([{ opacity: 1 }, { opacity: 0 }], { duration: 700, pseudoElement: "::after" });
    this.flashing.onfinish = () => { this.flashing = null; };
  }
}

function recency(model, now) {
  if (model.last_used === null) return 3;
  const since = now - model.last_used;
  const shade = RECENCY_S.findIndex((limit) => since < limit);
  return shade === -1 ? 3 : shade;
}

class Bar {
  constructor(title) {
    this.title = title;
    this.words = element("span", { class: "amount" });
    this.own = element("i", { class: "own" });
    this.line = element("i", { class: "threshold" });
    this.segments = element("span", { class: "segments" });
    this.track = element("div", { class: "track", role: "img" }, this.own, this.segments, this.line);
    this.node = element(
      "div", { class: "bar" },
      element("p", {}, element("span", { class: "what", text: title }), this.words), this.track,
    );
    this.parts = new Map();
  }

  draw({ used, limit, word, own = used ?? 0, segments = [], threshold = null }) {
    const whole = Math.max(limit ?? (used ?? 0) * 1.25, used ?? 0, 1);
    const words = used === null ? "not known" : `${bytes(used)}${limit ? ` of ${bytes(limit)}` : `, no ${word}`}`;
    const line = limit && threshold ? threshold * limit : null;
    say(this.words, words + (line ? ` · unloads above ${bytes(line)}` : ""));
    this.track.setAttribute("aria-label", `${this.title}: ${this.words.textContent}`);
    mark(this.track, "high", used !== null && used > (line ?? limit ?? Infinity));
    // Without a budget there is nothing to be a part of; memory still shows whose it is.
    this.track.hidden = !limit && word === "budget";
    this.own.style.width = percent(own, whole);
    this.line.hidden = !line;
    if (line) this.line.style.left = percent(line, whole);
    this.drawSegments(segments, own, whole);
  }

  drawSegments(segments, own, whole) {
    this.segments.style.left = percent(own, whole);
    mark(this.segments, "many", segments.length >= DENSE_FROM);
    const nodes = segments.map(({ key, size, recency: shade }) => {
      if (!this.parts.has(key)) this.parts.set(key, element("i", { title: key }));
      const part = this.parts.get(key);
      const width = percent(size, whole);
      if (part.dataset.width !== width) part.style.width = part.dataset.width = width;
      mark(part, "recency", shade);
      return part;
    });
    arrange(this.segments, nodes);
    const keys = new Set(segments.map((segment) => segment.key));
    for (const key of this.parts.keys()) if (!keys.has(key)) this.parts.delete(key);
  }
}

function percent(part, whole) {
  return `${((100 * part) / whole).toFixed(3)}%`;
}

// One stop of the tabulator for all tiles, the arrow keys between them.
function keysGoThrough(list) {
  list.addEventListener("keydown", (press) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[press.key];
    const next = step === 1 ? press.target.nextElementSibling : press.target.previousElementSibling;
    if (!step || !next) return;
    press.preventDefault();
    press.target.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  });
}
