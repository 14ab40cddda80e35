// What happened in the last minutes: the figures, and the marks of the timeline. No DOM.

import { COLD_PARTS, failure, invocation } from "./words.js";

export const KEPT_S = 330;
const KEPT_EVENTS = 30000; // 5 minutes of 100 events a second

const BARS = {
  download_started: ["download", true], download_finished: ["download", false], download_failed: ["download", false],
  extracted: ["extract", false], extraction_failed: ["extract", false],
  load_started: ["load", true], loaded: ["load", false], load_failed: ["load", false],
  unload_started: ["unload", true], unloaded: ["unload", false], unload_failed: ["unload", false],
};

export class History {
  constructor() {
    this.invocations = [];
    this.bars = [];
    this.ticks = [];
    this.others = [];
    this.open = new Map();
    this.last = 0;
  }

  add(events) {
    for (const event of events) this.addOne(event);
    this.forget();
  }

  addOne(event) {
    this.last = Math.max(this.last, event.at);
    if (invocation(event)) {
      this.invocations.push(event);
      return;
    }
    this.others.push(event);
    const bar = BARS[event.kind];
    if (bar) this.addBar(event, ...bar);
    else if (event.instance) this.addTick(event);
  }

  // A bar is open until its end is told; one whose beginning was not kept begins by its seconds.
  addBar(event, what, begins) {
    const key = `${event.instance}\n${event.target_model}\n${what}`;
    const known = this.open.get(key);
    const bar = known ?? { what, instance: event.instance, model: event.target_model, from: event.at - (event.seconds ?? 0), to: null };
    Object.assign(bar, { event, failed: failure(event), reason: event.reason ?? bar.reason });
    if (!known) this.bars.push(bar);
    if (begins) {
      this.open.set(key, bar);
    } else {
      bar.to = event.at;
      this.open.delete(key);
    }
  }

  addTick(event) {
    this.ticks.push({ what: "tick", instance: event.instance, at: event.at, event, failed: failure(event) });
    if (event.kind === "instance_ended" || event.kind === "instance_starting") this.closeAll(event);
  }

  closeAll(event) {
    for (const [key, bar] of this.open) {
      if (bar.instance !== event.instance) continue;
      Object.assign(bar, { to: event.at, failed: true });
      this.open.delete(key);
    }
  }

  forget() {
    const oldest = this.last - KEPT_S;
    const young = (event) => event.at >= oldest;
    if (this.invocations.length && (this.invocations[0].at < oldest - 30 || this.invocations.length > KEPT_EVENTS)) {
      this.invocations = this.invocations.filter(young).slice(-KEPT_EVENTS);
    }
    if (this.others.length && (this.others[0].at < oldest - 30 || this.others.length > KEPT_EVENTS)) {
      this.others = this.others.filter(young).slice(-KEPT_EVENTS);
      this.bars = this.bars.filter((bar) => (bar.to ?? this.last) >= oldest).slice(-KEPT_EVENTS);
      this.ticks = this.ticks.filter(young).slice(-KEPT_EVENTS);
    }
  }

  // What a simulator that was started again left open will not be told an end of.
  restart() {
    for (const bar of this.open.values()) bar.to = this.last;
    this.open.clear();
  }

  figures(now, windowS) {
    const since = now - windowS;
    const warm = [];
    const cold = [];
    const parts = Object.fromEntries(COLD_PARTS.map(([part]) => [part, []]));
    let failed = 0;
    let recent = 0;
    for (let index = this.invocations.length - 1; index >= 0; index -= 1) {
      const event = this.invocations[index];
      if (event.at < since) break;
      if (event.at > now - 10) recent += 1;
      if (event.kind === "invocation_failed") failed += 1;
      else (event.cold ? cold : warm).push(event.seconds);
      if (event.kind === "invoked" && event.cold) addParts(parts, event);
    }
    const inWindow = this.others.filter((event) => event.at >= since);
    return {
      invocations: warm.length + cold.length + failed,
      perSecond: recent / 10,
      warm: percentiles(warm),
      cold: percentiles(cold),
      parts: Object.fromEntries(Object.entries(parts).map(([part, seconds]) => [part, { ...percentiles(seconds), sum: sum(seconds) }])),
      failed,
      evictions: count(inWindow, (event) => event.kind === "unloaded" && room(event)),
      refused: count(inWindow, (event) => event.kind === "unloaded" && event.reason === "507"),
      loads: count(inWindow, (event) => event.kind === "loaded"),
      loadFailures: count(inWindow, (event) => ["load_failed", "download_failed", "extraction_failed"].includes(event.kind)),
    };
  }
}

function addParts(parts, event) {
  for (const [part] of COLD_PARTS) {
    const seconds = event[`${part}_seconds`];
    if (seconds !== undefined) parts[part].push(seconds);
  }
}

function sum(values) {
  return values.reduce((before, value) => before + value, 0);
}

function room(event) {
  return event.reason === "memory" || event.reason === "507";
}

function count(events, wanted) {
  return events.reduce((sum, event) => sum + (wanted(event) ? 1 : 0), 0);
}

// By the nearest rank.
function percentiles(values) {
  const sorted = Float64Array.from(values).sort();
  const at = (share) => sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)];
  return { count: sorted.length, p50: at(0.5), p99: at(0.99) };
}
