// A small chart: requests and errors per minute, and below them the instances in service.

import { rates } from "./courses.js";
import { number } from "./words.js";

const HEIGHT = 138;
const LEFT = 46;
const RIGHT = 6;
const REQUESTS = { top: 8, bottom: 74 };
const INSTANCES = { top: 94, bottom: 118 };
const AXIS = 131;
const BIN_PX = 5; // of one rate, at least
const BIN_SAMPLES = 5; // of one rate, at least: fewer would be noise
const TICK_PX = 90; // between two times on the axis, at least
const TICKS_S = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
const COLOURS = ["ink", "muted", "line", "warm", "error", "good"];
const TIME = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

export class Chart {
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d");
    this.seen = false;
    this.observer = new IntersectionObserver(([entry]) => {
      this.seen = entry.isIntersecting;
      if (this.seen && this.last) this.draw(this.last);
    });
    this.observer.observe(canvas);
  }

  close() {
    this.observer.disconnect();
  }

  // points: of the course; to: the right edge, windowS before it the left one, seconds.
  draw(what) {
    this.last = what;
    if (!this.seen) return;
    this.fit();
    this.readColours();
    Object.assign(this, { to: what.to, from: what.to - what.windowS, windowS: what.windowS });
    const points = what.points.filter((point) => point[0] >= this.from);
    this.context.clearRect(0, 0, this.width, HEIGHT);
    this.drawAxis();
    this.drawRates(points, what.sampleS);
    this.drawInstances(points);
  }

  fit() {
    const ratio = devicePixelRatio || 1;
    this.width = this.canvas.clientWidth;
    const [width, height] = [Math.round(this.width * ratio), Math.round(HEIGHT * ratio)];
    if (this.canvas.width !== width || this.canvas.height !== height) Object.assign(this.canvas, { width, height });
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.right = this.width - RIGHT;
  }

  readColours() {
    const style = getComputedStyle(document.documentElement);
    this.colour = Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
    this.context.font = `10.5px ${style.getPropertyValue("--font")}`;
    this.context.textBaseline = "middle";
  }

  x(at) {
    return LEFT + ((at - this.from) / this.windowS) * (this.right - LEFT);
  }

  drawAxis() {
    const { context, colour } = this;
    const step = TICKS_S.find((one) => (one * (this.right - LEFT)) / this.windowS > TICK_PX) ?? this.windowS;
    const offset = new Date(this.to * 1000).getTimezoneOffset() * 60;
    context.textAlign = "center";
    for (let at = Math.ceil((this.from - offset) / step) * step + offset; at <= this.to; at += step) {
      const x = Math.round(this.x(at));
      context.fillStyle = colour.line;
      context.fillRect(x, REQUESTS.top, 1, INSTANCES.bottom - REQUESTS.top);
      context.fillStyle = colour.muted;
      if (x > LEFT + 14 && x < this.right - 14) context.fillText(TIME.format(at * 1000), x, AXIS);
    }
  }

  // A line at the top and one at the bottom, each with its number.
  drawScale({ top, bottom }, most) {
    const { context, colour } = this;
    context.textAlign = "right";
    for (const [y, value] of [[top, most], [bottom, 0]]) {
      context.fillStyle = colour.line;
      context.fillRect(LEFT, Math.round(y), this.right - LEFT, 1);
      context.fillStyle = colour.muted;
      context.fillText(number(value), LEFT - 6, y);
    }
  }

  drawRates(points, sampleS) {
    const least = (BIN_PX * this.windowS) / (this.right - LEFT);
    const found = rates(points, Math.max(BIN_SAMPLES, Math.ceil(least / sampleS)) * sampleS);
    const most = roundUp(found.reduce((before, one) => Math.max(before, one.requests), 0));
    this.drawScale(REQUESTS, most);
    const y = (value) => REQUESTS.bottom - (value / most) * (REQUESTS.bottom - REQUESTS.top);
    this.drawLine(found.map((one) => [this.x(one.at), y(one.requests)]), this.colour.warm, REQUESTS.bottom);
    const failed = found.some((one) => one.errors > 0);
    if (failed) this.drawLine(found.map((one) => [this.x(one.at), y(one.errors)]), this.colour.error, null);
  }

  drawInstances(points) {
    const most = points.reduce((before, point) => Math.max(before, point[1]), 1);
    this.drawScale(INSTANCES, most);
    const y = (count) => INSTANCES.bottom - (count / most) * (INSTANCES.bottom - INSTANCES.top);
    const steps = [];
    points.forEach((point, index) => {
      if (index) steps.push([this.x(point[0]), y(points[index - 1][1])]);
      steps.push([this.x(point[0]), y(point[1])]);
    });
    this.drawLine(steps, this.colour.good, INSTANCES.bottom);
  }

  // bottom: what is between the line and it is filled; null: nothing is.
  drawLine(spots, colour, bottom) {
    if (!spots.length) return;
    const { context } = this;
    const path = new Path2D();
    spots.forEach(([x, y], index) => (index ? path.lineTo(x, y) : path.moveTo(x, y)));
    context.strokeStyle = context.fillStyle = colour;
    context.lineWidth = 1.5;
    context.lineJoin = "round";
    context.stroke(path);
    if (bottom === null) return;
    path.lineTo(spots.at(-1)[0], bottom);
    path.lineTo(spots[0][0], bottom);
    context.globalAlpha = 0.14;
    context.fill(path);
    context.globalAlpha = 1;
  }
}

// The next of 1, 2, 5, 10, 20, …
function roundUp(value) {
  if (value <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].find((step) => step * power >= value) * power;
}
