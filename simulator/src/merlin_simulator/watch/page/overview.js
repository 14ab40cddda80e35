// The overview: what it reads each second goes to who shows it.

import { mark, pairs, say } from "./elements.js";
import { Cards } from "./cards.js";
import { Courses } from "./courses.js";
import { drawActivities, drawAlarms } from "./scaling.js";
import { Start } from "./start.js";
import { clock, number } from "./words.js";

const WORDS = { live: "Live", lost: "Connection lost, trying again" };
const EVERY_MS = 1000;
const WITHIN_MS = 8000;
const DAY = new Intl.DateTimeFormat("en", { weekday: "short", day: "numeric", month: "short" });

const by = (id) => document.getElementById(id);
const courses = new Courses();
const cards = new Cards(by("endpoints"), courses);
const start = new Start(by("start"));

let seen = null; // the last overview
let timer = null;

async function read() {
  clearTimeout(timer);
  try {
    const options = { signal: AbortSignal.timeout(WITHIN_MS), cache: "no-store" };
    const answer = await fetch(`/simulator/overview?since=${courses.last}`, options);
    if (!answer.ok) throw new Error(`status ${answer.status}`);
    take(await answer.json());
    tell("live");
  } catch {
    tell("lost");
  } finally {
    clearTimeout(timer);
    timer = setTimeout(soon, EVERY_MS);
  }
}

// Not while nobody looks: what was missed is read then.
function soon() {
  if (!document.hidden) read();
}

function take(overview) {
  if (seen !== null && seen.run !== overview.run) {
    courses.forget();
    by("note").hidden = false;
    say(by("note"), `The simulator was started again at ${clock(Date.now() / 1000)}.`);
    // Of the new one only what is newer than the old one's was asked for.
    seen = overview;
    setTimeout(read, 0);
    return;
  }
  seen = overview;
  courses.add(overview);
  requestAnimationFrame(draw);
}

function draw() {
  drawTop(seen);
  cards.draw(seen);
  by("empty").hidden = seen.endpoints.length > 0;
  drawActivities(by("activities"), by("no-activities"), seen.activities);
  drawAlarms(by("alarms"), by("no-alarms"), seen.alarms);
  start.draw(seen);
}

function drawTop(overview) {
  const { scale } = overview.clock;
  say(by("address"), location.host);
  pairs(by("facts"), [
    ["Region", overview.region],
    ["Time scale", scale === 1 ? "that of this machine" : `${number(scale)} s a second`],
  ]);
  for (const [id, seconds] of [["short", 300], ["long", 900]]) say(by(id), length(seconds * scale));
  pairs(by("figures"), figures(overview));
}

// As 60 s, 5 min, 15 h or 2.5 days.
function length(seconds) {
  if (seconds < 300) return `${number(seconds)} s`;
  const [unit, words] = seconds < 7200 ? [60, "min"] : seconds < 172800 ? [3600, "h"] : [86400, "days"];
  return `${number(Math.round((10 * seconds) / unit) / 10)} ${words}`;
}

function figures(overview) {
  const { endpoints, alarms } = overview;
  const variants = endpoints.flatMap((endpoint) => endpoint.variants);
  const sum = (list, read) => list.reduce((before, one) => before + read(one), 0);
  const serving = endpoints.filter((endpoint) => endpoint.status === "InService").length;
  const failed = endpoints.filter((endpoint) => endpoint.status === "Failed").length;
  const desired = sum(variants, (variant) => variant.desired);
  const inService = sum(variants, (variant) => variant.in_service);
  const errors = sum(endpoints, (endpoint) => endpoint.errors_per_minute);
  const fires = alarms.filter((alarm) => alarm.StateValue === "ALARM").length;
  const now = overview.clock.now;
  return [
    ["Endpoints", number(endpoints.length), failed ? `${number(failed)} failed` : `${number(serving)} in service`, failed > 0],
    ["Instances in service", number(inService), `${number(desired)} desired`],
    ["Requests per minute", number(Math.round(sum(endpoints, (one) => one.requests_per_minute))), `of the last ${length(overview.window_s)}`],
    ["Errors per minute", number(Math.round(errors)), `${number(sum(endpoints, (one) => one.errors))} since it began`, errors > 0],
    ["Alarms", number(fires), `of ${number(alarms.length)} in ALARM`],
    ["Platform clock", clock(now), DAY.format(now * 1000)],
  ];
}

function tell(state) {
  say(by("connection"), WORDS[state]);
  mark(by("connection"), "state", state);
  mark(document.body, "connection", state);
}

for (const input of document.querySelectorAll('input[name="window"]')) {
  input.addEventListener("change", () => {
    cards.window(Number(input.value));
    if (seen) requestAnimationFrame(draw);
  });
}
document.addEventListener("visibilitychange", soon);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => seen && requestAnimationFrame(draw));
read();
