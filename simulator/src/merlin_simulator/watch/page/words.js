// Numbers and events in words.

// Made once: making one takes longer than all that it then does.
const CLOCK = new Intl.DateTimeFormat([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const NUMBER = new Intl.NumberFormat("en");

const UNITS = ["B", "kB", "MB", "GB", "TB"];

export function bytes(count) {
  if (count === null || count === undefined) return "?";
  let unit = 0;
  let left = count;
  while (left >= 999.5 && unit < UNITS.length - 1) {
    left /= 1024;
    unit += 1;
  }
  return `${left >= 99.5 || unit === 0 ? Math.round(left) : round(left)} ${UNITS[unit]}`;
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined || Number.isNaN(seconds)) return "–";
  if (seconds < 0.9995) {
    const ms = seconds * 1000;
    return `${ms < 9.95 ? ms.toFixed(1) : Math.round(ms)} ms`;
  }
  if (seconds < 99.5) return `${round(seconds)} s`;
  return `${Math.round(seconds / 60)} min`;
}

export function ago(seconds) {
  if (seconds < 1) return "now";
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  return `${Math.floor(seconds / 3600)} h ago`;
}

export function clock(at) {
  return CLOCK.format(at * 1000);
}

export function number(count) {
  return NUMBER.format(count);
}

function round(value) {
  return value < 9.95 ? value.toFixed(1) : String(Math.round(value));
}

const REASONS = {
  memory: "to make room: memory above the threshold",
  507: "to make room: the container answered 507",
  disk: "to make room: the disk is full",
  "not cached": "since models are not cached",
  stopping: "since the endpoint stops",
  "left over": "which an earlier simulator left in the container",
};

// What a cold request waits for, in the order in which it is told; an event has {part}_seconds.
export const COLD_PARTS = [
  ["room", "Room", "until others had left"],
  ["turn", "A turn", "others came first"],
  ["download", "Download", "of the archive"],
  ["extraction", "Extraction", "of the archive"],
  ["load", "Load", "POST /models"],
  ["answer", "Answer", "of the loaded model"],
];
const TOLD_FROM = 0.05; // of the whole: parts that are shorter are not named in a sentence

// A kind's badge, and the sentence of one event of it.
const KINDS = {
  instance_starting: ["starting", (e) => `Container process started${e.pid ? `, pid ${e.pid}` : ""}`],
  instance_in_service: ["in service", (e) => `In service after ${duration(e.seconds)}`],
  instance_unhealthy: ["unhealthy", () => "Gets no requests until it answers again"],
  instance_ended: ["ended", () => "The instance is gone"],
  download_started: ["download", (e) => `Downloading ${e.target_model}`],
  download_finished: ["downloaded", (e) => `Downloaded ${e.target_model}, ${bytes(e.bytes)} in ${duration(e.seconds)}`],
  download_failed: ["download failed", (e) => `${e.target_model} could not be downloaded`],
  extracted: ["extracted", (e) => `Extracted ${e.target_model} to ${bytes(e.bytes)} in ${duration(e.seconds)}`],
  extraction_failed: ["extraction failed", (e) => `${e.target_model} could not be extracted`],
  load_started: ["load", (e) => `Loading ${e.target_model}`],
  loaded: ["loaded", (e) => `Loaded ${e.target_model} in ${duration(e.seconds)}${e.memory ? `, ${bytes(e.memory)}` : ""}`],
  load_failed: ["load failed", (e) => `${e.target_model} did not load: ${status(e)} after ${duration(e.seconds)}`],
  unload_started: ["unload", (e) => `Unloading ${e.target_model} ${REASONS[e.reason] ?? e.reason ?? ""}`],
  unloaded: ["unloaded", (e) => `Unloaded ${e.target_model} in ${duration(e.seconds)}`],
  unload_failed: ["unload failed", (e) => `${e.target_model} was not unloaded: ${status(e)}`],
  lost: ["lost", (e) => `The container no longer lists ${e.target_model}`],
  deleted: ["deleted", (e) => `Deleted ${e.target_model} from the disk, ${bytes(e.bytes)}`],
  invoked: ["", (e) => `${e.target_model ?? "The model"} answered in ${duration(e.seconds)}${coldness(e)}`],
  invocation_failed: ["failed", (e) => `${e.target_model ?? "The model"}: ${e.error}, ${e.status} after ${duration(e.seconds)}`],
};

const FAILURES = new Set([
  "instance_unhealthy", "instance_ended", "download_failed", "extraction_failed", "load_failed",
  "unload_failed", "lost", "invocation_failed",
]);

export function failure(event) {
  return FAILURES.has(event.kind);
}

export function invocation(event) {
  return event.kind === "invoked" || event.kind === "invocation_failed";
}

export function badge(event) {
  if (event.kind === "invoked") return event.cold ? "cold" : "warm";
  return KINDS[event.kind]?.[0] ?? event.kind;
}

export function sentence(event) {
  return KINDS[event.kind]?.[1](event) ?? event.kind;
}

function status(event) {
  return event.status ? `status ${event.status}` : "no answer";
}

function coldness(event) {
  if (!event.cold) return "";
  const told = COLD_PARTS
    .map(([part, words]) => [words.toLowerCase(), event[`${part}_seconds`]])
    .filter(([, seconds]) => seconds > TOLD_FROM * event.seconds)
    .map(([words, seconds]) => `${words} ${duration(seconds)}`);
  return told.length ? `: ${told.join(", ")}` : `, ${duration(event.waiting_seconds)} of it until it was loaded`;
}
