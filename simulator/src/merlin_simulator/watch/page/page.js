// Joins the parts: what the feed tells goes to who shows it, and everything is drawn at its own pace.

import { dataAt, ofMany } from "./address.js";
import { element, mark, pairs, say } from "./elements.js";
import { Endpoint } from "./endpoint.js";
import { EventList } from "./list.js";
import { Example } from "./example.js";
import { Features } from "./features.js";
import { Feed } from "./feed.js";
import { History } from "./history.js";
import { Instances } from "./instances.js";
import { Timeline } from "./timeline.js";
import { COLD_PARTS, duration, number } from "./words.js";

const WORDS = { live: "Live", lost: "Connection lost, trying again", gone: "This endpoint is gone" };
const AGAIN = ofMany
  ? "The endpoint was created anew, or the simulator started again."
  : "The simulator was started again.";
const DRAW_MS = 250; // instances and figures; the timeline draws itself

const by = (id) => document.getElementById(id);
const endpoint = new Endpoint();
const history = new History();
const instances = new Instances(by("instances"));
const example = new Example(by("invoke"));
const timeline = new Timeline({ canvas: by("timeline"), details: by("details"), history, endpoint });
const list = new EventList({
  list: by("events"), newer: by("newer"), none: by("no-events"), errorCount: by("error-count"),
});

let windowS = 120;
let connected = null;
let cost = 0; // milliseconds of the last drawing

const feed = new Feed({
  events(events) {
    endpoint.add(events);
    history.add(events);
    list.add(events);
  },
  state(state) {
    endpoint.read(state);
  },
  connection(next) {
    if (next === connected) return;
    connected = next;
    say(by("connection"), WORDS[next]);
    mark(by("connection"), "state", next);
    mark(document.body, "connection", next);
  },
  restarted() {
    endpoint.restart();
    history.restart();
    list.note(AGAIN, endpoint.now());
    feed.readSoon(0);
  },
  missed(count) {
    list.note(`${number(count)} events were too long ago to be told.`, endpoint.now());
  },
});

function draw() {
  const began = performance.now();
  drawAll();
  cost = performance.now() - began;
}

function drawAll() {
  const now = endpoint.now();
  const figures = history.figures(now, windowS);
  drawFigures(figures);
  drawParts(figures.parts);
  if (!endpoint.state) return;
  drawTop(endpoint.state);
  instances.draw(endpoint.state, now);
  example.draw(endpoint.state);
  by("empty").hidden = !endpoint.state.multi_model || endpoint.state.instances.some((instance) => instance.models.length);
}

function drawTop(state) {
  say(by("endpoint"), state.endpoint_name);
  const title = `${state.endpoint_name} · SageMaker simulator`;
  if (document.title !== title) document.title = title;
  const facts = [
    ...(state.status ? [["Status", state.status], ["Configuration", state.config]] : []),
    ["Serves", state.multi_model ? "many models" : "one model"],
    [state.multi_model ? "Archives" : "Model", state.models],
    ...(state.multi_model ? [["ModelCacheSetting", state.cache]] : []),
  ];
  pairs(by("facts"), facts);
  say(by("reason"), state.failure_reason ?? "");
}

function drawFigures(figures) {
  const asked = figures.warm.count + figures.cold.count;
  const hits = asked ? `${((100 * figures.warm.count) / asked).toFixed(1)} %` : "–";
  const failures = figures.failed + figures.loadFailures;
  pairs(by("figures"), [
    ["Invocations", number(figures.invocations), `${figures.perSecond.toFixed(1)} per second`],
    ["Cache hits", hits, `${number(figures.cold.count)} cold`],
    ["Warm p50 / p99", both(figures.warm), "model was loaded"],
    ["Cold p50 / p99", both(figures.cold), `${number(figures.loads)} models loaded`],
    ["Evictions", number(figures.evictions), `${number(figures.refused)} after a 507`],
    ["Failures", number(failures), failed(figures), failures > 0],
  ]);
}

// A row of terms, and above it their shares of all cold requests' seconds as one bar.
function drawParts(parts) {
  const whole = COLD_PARTS.reduce((before, [part]) => before + parts[part].sum, 0);
  const share = (part) => (whole ? (100 * parts[part].sum) / whole : 0);
  pairs(by("parts"), COLD_PARTS.map(([part, term, remark]) => [
    term, both(parts[part]), whole ? `${share(part).toFixed(0)} % · ${remark}` : remark,
  ]));
  const bar = by("parts-bar");
  COLD_PARTS.forEach(([part], index) => {
    const segment = bar.children[index] ?? bar.appendChild(element("i", { "data-part": part }));
    const width = `${share(part).toFixed(2)}%`;
    if (segment.dataset.width !== width) segment.style.width = segment.dataset.width = width;
    mark(by("parts").children[index], "part", part);
  });
}

function both({ p50, p99 }) {
  return p50 === undefined ? "–" : `${duration(p50)} / ${duration(p99)}`;
}

function failed(figures) {
  return `${number(figures.failed)} invocations, ${number(figures.loadFailures)} loads`;
}

// Again and again, at most a tenth of the time, and not while nobody looks.
function every() {
  if (!document.hidden) requestAnimationFrame(draw);
  setTimeout(every, Math.max(DRAW_MS, 10 * cost));
}

function choices(name, chosen) {
  for (const input of document.querySelectorAll(`input[name="${name}"]`)) {
    input.addEventListener("change", () => chosen(input.value));
    if (input.checked) chosen(input.value);
  }
}

by("all").hidden = !ofMany;
for (const link of document.querySelectorAll("[data-below]")) link.href = dataAt(link.dataset.below);
choices("window", (value) => {
  windowS = Number(value);
  timeline.window(windowS);
  requestAnimationFrame(draw);
});
choices("filter", (value) => list.choose(value));
by("pause").addEventListener("click", () => {
  const paused = timeline.pause();
  by("pause").setAttribute("aria-pressed", String(paused));
  say(by("pause"), paused ? "Go on" : "Pause");
});
document.addEventListener("visibilitychange", () => requestAnimationFrame(draw));
every();
feed.start();
new Features(by("features")).read();
