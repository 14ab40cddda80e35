// The last minutes as a drawing: a lane per instance, and below it every latency, on one time axis.
//
// A lane has a fixed number of rows, so that nothing jumps. While the models of an instance are few,
// each of them has a row of its own; otherwise work is put in the first row that is free, and the
// last row shows the invocations.

import { bytes, clock, duration, sentence } from "./words.js";

const ROW = 13;
const LANE_GAP = 10;
const TITLE = 18; // an instance's name above its rows
const LATENCY = 150;
const AXIS = 20;
const DOT = 12; // a dot's picture
const NARROW = 600; // css pixels, below which names are drawn inside the rows
const FRAME_MS = [100, 500]; // between two drawings: as long as a mark takes for one pixel, in these bounds
const UNSEEN_MS = 2000;
const SPOT = 2; // css pixels; of the dots on one spot one is drawn
const NEAR = 14; // css pixels within which a mark is meant
const LABEL = 64; // css pixels between the times on the axis, at least

const COLOURS = ["ink", "muted", "line", "card", "lane", "download", "extract", "load", "unload", "warm", "cold", "error"];

export class Timeline {
  constructor({ canvas, details, history, endpoint }) {
    Object.assign(this, { canvas, details, history, endpoint, windowS: 120, paused: null });
    this.marks = [];
    this.chosen = null;
    this.context = canvas.getContext("2d");
    this.readColours();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.readColours());
    this.hears();
    this.seen = true;
    this.drawnAt = -Infinity;
    new IntersectionObserver(([entry]) => { this.seen = entry.isIntersecting; }).observe(canvas);
    requestAnimationFrame(() => this.frame());
  }

  // Rarely while nobody sees it (it keeps its size), and at most a fifth of the time.
  frame() {
    const began = performance.now();
    if (this.seen || began - this.drawnAt > UNSEEN_MS) {
      this.draw();
      this.drawnAt = began;
    }
    const pixel = (1000 * this.windowS) / Math.max(1, this.canvas.clientWidth);
    const wait = Math.max(4 * (performance.now() - began), Math.min(FRAME_MS[1], Math.max(FRAME_MS[0], pixel)));
    setTimeout(() => requestAnimationFrame(() => this.frame()), wait);
  }

  window(seconds) {
    this.windowS = seconds;
  }

  pause() {
    this.paused = this.paused === null ? this.endpoint.now() : null;
    return this.paused !== null;
  }

  readColours() {
    const style = getComputedStyle(document.documentElement);
    this.font = `11px ${style.getPropertyValue("--font")}`;
    this.sprites = new Map();
    this.colour = Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  }

  draw() {
    const width = this.canvas.parentElement.clientWidth;
    const names = this.instanceNames();
    const rows = names.length <= 3 ? 7 : names.length <= 8 ? 5 : 3;
    const height = names.length * (TITLE + rows * ROW + LANE_GAP) + LATENCY + AXIS + 14;
    this.fit(width, height);
    this.to = this.paused ?? this.endpoint.now();
    this.from = this.to - this.windowS;
    const lanes = names.map((name) => this.laneOf(name));
    this.left = width < NARROW ? 4 : lanes.some((lane) => lane.models.length <= rows && lane.models.length) ? 150 : 64;
    this.right = width - (width < NARROW ? 4 : 10);
    this.marks = [];
    this.context.clearRect(0, 0, width, height);
    this.context.font = this.font;
    this.context.textBaseline = "middle";
    this.drawAxis(height);
    lanes.forEach((lane, index) => this.drawLane(lane, index * (TITLE + rows * ROW + LANE_GAP), rows));
    this.drawLatencies(height - LATENCY - AXIS, LATENCY);
    this.drawChosen();
  }

  instanceNames() {
    const names = new Set((this.endpoint.state?.instances ?? []).map((instance) => instance.name));
    return names.size ? [...names] : [""];
  }

  // The element's height is set by hand only when it changes: no jump, and nothing is blurred.
  fit(width, height) {
    const ratio = devicePixelRatio || 1;
    if (this.canvas.width !== Math.round(width * ratio) || this.canvas.height !== Math.round(height * ratio)) {
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.height = `${height}px`;
    }
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  x(at) {
    return this.left + ((at - this.from) / this.windowS) * (this.right - this.left);
  }

  drawAxis(height) {
    const step = [15, 30, 60, 120].find((one) => (one * (this.right - this.left)) / this.windowS > LABEL) ?? 120;
    const context = this.context;
    context.fillStyle = this.colour.muted;
    context.strokeStyle = this.colour.line;
    context.lineWidth = 1;
    context.textAlign = "center";
    for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) {
      const x = Math.round(this.x(at)) + 0.5;
      context.beginPath();
      context.moveTo(x, 0);
      context.lineTo(x, height - AXIS);
      context.stroke();
      if (x > this.left + 26 && x < this.right - 24) context.fillText(clock(at), x, height - AXIS / 2 + 2);
    }
  }

  laneOf(name) {
    const bars = this.history.bars.filter((bar) => bar.instance === name && (bar.to ?? this.to) >= this.from && bar.from <= this.to);
    const dots = this.inWindow(this.history.invocations).filter((event) => event.instance === name);
    return { name, bars, dots, models: this.modelsOf(bars, dots) };
  }

  drawLane({ name, bars, dots, models }, top, rows) {
    const context = this.context;
    context.fillStyle = this.colour.ink;
    context.textAlign = "left";
    context.font = `600 ${this.font}`;
    context.fillText(name, 4, top + TITLE / 2);
    context.font = this.font;
    const first = top + TITLE;
    context.fillStyle = this.colour.lane;
    context.fillRect(this.left, first - 2, this.right - this.left, rows * ROW + 4);
    if (models.length <= rows) this.drawByModel(models, bars, dots, first);
    else this.drawPacked(bars, dots, first, rows);
    for (const tick of this.history.ticks) if (tick.instance === name && tick.at >= this.from && tick.at <= this.to) this.drawTick(tick, first, rows * ROW);
  }

  modelsOf(bars, dots) {
    const names = new Set(bars.map((bar) => bar.model));
    for (const dot of dots) names.add(dot.target_model ?? "");
    return [...names].sort();
  }

  inWindow(events) {
    let start = events.length;
    while (start > 0 && events[start - 1].at >= this.from) start -= 1;
    return events.slice(start).filter((event) => event.at <= this.to);
  }

  drawByModel(models, bars, dots, first) {
    const row = new Map(models.map((model, index) => [model, first + index * ROW]));
    for (const bar of bars) this.drawBar(bar, row.get(bar.model), false);
    this.drawDots(dots, (event) => row.get(event.target_model ?? "") + ROW / 2);
    for (const [model, y] of row) this.drawName(model, y + ROW / 2);
  }

  drawName(model, y) {
    const inside = this.left < LABEL;
    const room = inside ? 110 : this.left - 20;
    const text = this.shortened(model.replace(/\.tar\.gz$/, ""), room);
    if (inside) this.paper(text, y);
    this.context.fillStyle = this.colour.muted;
    this.context.textAlign = inside ? "left" : "right";
    this.context.fillText(text, inside ? 7 : this.left - 8, y);
  }

  paper(text, y) {
    this.context.globalAlpha = 0.8;
    this.context.fillStyle = this.colour.lane;
    this.context.fillRect(5, y - ROW / 2, this.context.measureText(text).width + 4, ROW);
    this.context.globalAlpha = 1;
  }

  // Without its beginning where it is too long: what tells models apart is mostly at the end.
  shortened(text, room) {
    if (this.context.measureText(text).width <= room) return text;
    let start = 1;
    while (start < text.length && this.context.measureText(`…${text.slice(start)}`).width > room) start += 1;
    return `…${text.slice(start)}`;
  }

  // What is going on at the same time goes below one another, as far as there are rows.
  drawPacked(bars, dots, first, rows) {
    const free = new Array(rows - 1).fill(-Infinity);
    for (const bar of [...bars].sort((a, b) => a.from - b.from)) {
      const from = this.x(bar.from);
      let row = free.findIndex((end) => end <= from);
      if (row === -1) row = free.indexOf(Math.min(...free));
      const to = this.drawBar(bar, first + row * ROW, from);
      free[row] = Math.max(free[row], to + 2);
    }
    this.drawDots(dots, () => first + (rows - 0.5) * ROW);
  }

  drawBar(bar, y, named) {
    const context = this.context;
    const from = Math.max(this.left, this.x(bar.from));
    const to = Math.min(this.right, Math.max(from + 2.5, this.x(bar.to ?? this.to)));
    const top = y + 2;
    const height = ROW - 4;
    context.fillStyle = this.colour[bar.what];
    if (bar.what === "unload") context.fillRect(from, top + height / 2 - 1.5, to - from > 10 ? to - from : 0, 3);
    else context.fillRect(from, top, to - from, height);
    if (bar.what === "unload") this.drawFall(to, top, height);
    if (bar.what === "extract") this.drawHatch(from, to, top, height);
    if (bar.failed) this.drawCross(to, top + height / 2, 4.5);
    this.marks.push({ x: (from + to) / 2, y: top + height / 2, from, to, item: bar });
    return named === false ? to : this.drawBarName(bar, from, to, y);
  }

  // The name of what is loaded stands in its bar where there is room.
  drawBarName(bar, from, to, y) {
    if (bar.what !== "load" || to - from < 70) return to;
    this.context.fillStyle = this.colour.card;
    this.context.textAlign = "left";
    this.context.font = this.font.replace("11px", "9px");
    this.context.fillText(this.shortened(bar.model.replace(/\.tar\.gz$/, ""), to - from - 8), from + 4, y + ROW / 2 + 0.5);
    this.context.font = this.font;
    return to;
  }

  drawFall(x, top, height) {
    this.context.beginPath();
    this.context.moveTo(x - 4, top);
    this.context.lineTo(x + 4, top);
    this.context.lineTo(x, top + height);
    this.context.fill();
  }

  drawHatch(from, to, top, height) {
    this.context.fillStyle = this.colour.lane;
    for (let x = from + 3; x < to - 1; x += 4) this.context.fillRect(x, top + 1, 1.5, height - 2);
  }

  drawTick(tick, top, height) {
    const x = this.x(tick.at);
    const context = this.context;
    context.fillStyle = tick.failed ? this.colour.error : this.colour.muted;
    context.fillRect(x - 1, top - 2, 2, height + 4);
    if (tick.failed) this.drawCross(x, top + 4, 5);
    this.marks.push({ x, y: top + height / 2, from: x, to: x, tall: height / 2, item: tick });
  }

  // Warm ones first, so that what is rare lies on top; of those on one spot one is drawn.
  drawDots(events, yOf) {
    const spots = new Set();
    const order = (event) => (event.kind === "invocation_failed" ? 2 : event.cold ? 1 : 0);
    for (const wanted of [0, 1, 2]) {
      for (const event of events) {
        if (order(event) !== wanted) continue;
        const x = this.x(event.at);
        const y = yOf(event);
        const spot = (Math.round(x / SPOT) * 4096 + Math.round(y / SPOT)) * 4 + wanted;
        if (spots.has(spot)) continue;
        spots.add(spot);
        this.drawDot(wanted, x, y);
        this.marks.push({ x, y, from: x, to: x, item: event });
      }
    }
  }

  drawDot(kind, x, y) {
    if (kind === 2) this.drawCross(x, y, 4.5);
    else this.context.drawImage(this.sprite(kind), x - DOT / 2, y - DOT / 2, DOT, DOT);
  }

  // Thousands of dots: each shape is drawn once and then copied.
  sprite(kind) {
    const ratio = devicePixelRatio || 1;
    const key = `${kind} ${ratio}`;
    if (!this.sprites.has(key)) {
      const canvas = document.createElement("canvas");
      canvas.width = canvas.height = Math.ceil(DOT * ratio);
      const context = canvas.getContext("2d");
      context.scale(canvas.width / DOT, canvas.width / DOT);
      if (kind === 0) this.drawCircle(context, DOT / 2, DOT / 2, 2.4);
      else this.drawDiamond(context, DOT / 2, DOT / 2, 4.6);
      this.sprites.set(key, canvas);
    }
    return this.sprites.get(key);
  }

  drawCircle(context, x, y, radius) {
    context.globalAlpha = 0.75;
    context.fillStyle = this.colour.warm;
    context.beginPath();
    context.arc(x, y, radius, 0, 7);
    context.fill();
  }

  drawDiamond(context, x, y, radius) {
    context.fillStyle = this.colour.cold;
    context.strokeStyle = this.colour.lane;
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(x, y - radius);
    context.lineTo(x + radius, y);
    context.lineTo(x, y + radius);
    context.lineTo(x - radius, y);
    context.closePath();
    context.fill();
    context.stroke();
  }

  drawCross(x, y, radius) {
    const context = this.context;
    context.lineCap = "round";
    for (const [colour, width] of [[this.colour.lane, 5], [this.colour.error, 2.2]]) {
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.beginPath();
      context.moveTo(x - radius, y - radius);
      context.lineTo(x + radius, y + radius);
      context.moveTo(x + radius, y - radius);
      context.lineTo(x - radius, y + radius);
      context.stroke();
    }
  }

  drawLatencies(top, height) {
    const events = this.inWindow(this.history.invocations);
    const [low, high] = decades(events.map((event) => event.seconds));
    const y = (seconds) => {
      const share = (Math.log10(Math.max(seconds, low)) - Math.log10(low)) / Math.log10(high / low);
      return top + height - 6 - Math.min(1, share) * (height - 38);
    };
    this.drawLines(low, high, y);
    this.drawDots(events, (event) => y(event.seconds));
    this.drawScale(low, high, y, top);
  }

  drawScale(low, high, y, top) {
    const context = this.context;
    const inside = this.left < LABEL;
    context.fillStyle = this.colour.ink;
    context.textAlign = "left";
    context.font = `600 ${this.font}`;
    context.fillText("Latency", 4, top + 4);
    context.font = this.font;
    for (let value = low; value <= high * 1.001; value *= 10) {
      const line = y(value) - (inside ? 7 : 0);
      if (inside) this.paper(plain(value), line);
      context.fillStyle = this.colour.muted;
      context.textAlign = inside ? "left" : "right";
      context.fillText(plain(value), inside ? 7 : this.left - 8, line);
    }
  }

  drawLines(low, high, y) {
    this.context.fillStyle = this.colour.line;
    for (let value = low; value <= high * 1.001; value *= 10) {
      this.context.fillRect(this.left, Math.round(y(value)), this.right - this.left, 1);
    }
  }

  // Pointing, tapping and the arrow keys choose a mark, whose details are told beside it.
  hears() {
    const at = (event) => this.choose(this.nearest(event.offsetX, event.offsetY));
    this.canvas.addEventListener("pointermove", at);
    this.canvas.addEventListener("pointerdown", at);
    this.canvas.addEventListener("pointerleave", () => this.choose(null));
    this.canvas.addEventListener("blur", () => this.choose(null));
    this.canvas.addEventListener("keydown", (press) => this.step(press));
  }

  nearest(x, y) {
    let best = null;
    let least = NEAR;
    for (const one of this.marks) {
      const dx = Math.max(one.from - x, 0, x - one.to);
      const dy = Math.max(0, Math.abs(one.y - y) - (one.tall ?? 0));
      const distance = Math.hypot(dx, dy) - (one.item.kind === "invoked" && !one.item.cold ? 0 : 1);
      if (distance < least) [best, least] = [one, distance];
    }
    return best?.item ?? null;
  }

  step(press) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[press.key];
    if (press.key === "Escape") this.choose(null);
    if (!step) return;
    press.preventDefault();
    this.draw();
    const items = [...new Set(this.marks.map((one) => one.item))].sort((a, b) => when(a) - when(b));
    const index = items.indexOf(this.chosen);
    this.choose(items[index === -1 ? items.length - 1 : Math.min(items.length - 1, Math.max(0, index + step))] ?? null);
  }

  choose(item) {
    if (item === this.chosen) return;
    this.chosen = item;
    this.details.hidden = item === null;
    if (item === null) return;
    this.details.replaceChildren(...words(item));
    this.draw();
  }

  drawChosen() {
    const spots = this.marks.filter((one) => one.item === this.chosen);
    if (!spots.length) {
      this.details.hidden = true;
      return;
    }
    const context = this.context;
    context.strokeStyle = this.colour.ink;
    context.lineWidth = 1.5;
    for (const one of spots) {
      const tall = (one.tall ?? 4) + 4;
      context.strokeRect(one.from - 5, one.y - tall, one.to - one.from + 10, 2 * tall);
    }
    this.place(spots[0]);
  }

  // Beside its mark, inside the plot.
  place(one) {
    const { style, offsetWidth, offsetHeight } = this.details;
    const width = this.canvas.clientWidth;
    style.left = `${Math.max(0, Math.min(width - offsetWidth, one.to - offsetWidth / 2))}px`;
    const above = one.y - offsetHeight - 16;
    style.top = `${above < 0 ? one.y + 16 : above}px`;
  }
}

function when(item) {
  return item.from ?? item.at;
}

function words(item) {
  const event = item.event ?? item;
  const lines = [[sentence(event), "strong"], [facts(item, event), "span"]];
  if (event.message) lines.push([event.message, "pre"]);
  return lines.filter(([text]) => text).map(([text, tag]) => {
    const line = document.createElement(tag);
    line.textContent = text;
    return line;
  });
}

function facts(item, event) {
  const parts = [clock(event.at), event.instance];
  if (item.to) parts.push(`${item.what} took ${duration(item.to - item.from)}`);
  else if (item.from) parts.push("going on");
  if (event.memory) parts.push(bytes(event.memory));
  if (event.request_id) parts.push(`request ${event.request_id}`);
  return parts.filter(Boolean).join(" · ");
}

// The decades that hold the values; two at least.
function decades(values) {
  let [least, most] = [Infinity, 0];
  for (const value of values) {
    if (value < least) least = value;
    if (value > most) most = value;
  }
  if (!most) return [0.001, 10];
  const low = 10 ** Math.floor(Math.log10(Math.max(least, 0.0001)));
  return [low, Math.max(low * 100, 10 ** Math.ceil(Math.log10(most)))];
}

function plain(seconds) {
  if (seconds >= 0.999) return `${Math.round(seconds)} s`;
  return `${Number((seconds * 1000).toPrecision(1))} ms`;
}
