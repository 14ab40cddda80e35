// What scaled and why, and the alarms: as DescribeScalingActivities and DescribeAlarms tell it.

import { arrange, element, mark, say } from "./elements.js";
import { clock, number } from "./words.js";

const STATES = ["ALARM", "INSUFFICIENT_DATA", "OK"];
const COMPARED = {
  GreaterThanThreshold: ">", GreaterThanOrEqualToThreshold: "≥",
  LessThanThreshold: "<", LessThanOrEqualToThreshold: "≤",
};
const GOOD = { Successful: "good", InProgress: "changing", Pending: "changing", Overridden: "going", Failed: "bad", Unfulfilled: "bad" };

export function drawActivities(list, none, activities) {
  none.hidden = activities.length > 0;
  rows(list, activities, (activity) => ({
    key: activity.ActivityId,
    state: activity.StatusCode,
    kind: GOOD[activity.StatusCode] ?? "going",
    time: clock(activity.StartTime),
    name: resourceOf(activity.ResourceId),
    words: activity.Description,
    why: activity.StatusCode === "Successful" ? activity.Cause : [activity.StatusMessage, activity.Cause].filter(Boolean).join(" "),
  }));
}

export function drawAlarms(list, none, alarms) {
  none.hidden = alarms.length > 0;
  const order = (alarm) => STATES.indexOf(alarm.StateValue);
  rows(list, [...alarms].sort((a, b) => order(a) - order(b)), (alarm) => ({
    key: alarm.AlarmName,
    state: alarm.StateValue,
    kind: { OK: "good", ALARM: "bad" }[alarm.StateValue] ?? "going",
    time: clock(alarm.StateUpdatedTimestamp),
    name: alarm.AlarmName,
    words: condition(alarm),
    why: alarm.StateReason ?? "",
  }));
}

// endpoint/NAME/variant/NAME
function resourceOf(id) {
  const [, endpoint, , variant] = (id ?? "").split("/");
  return variant ? `${endpoint} · ${variant}` : id ?? "";
}

function condition(alarm) {
  const where = (alarm.Dimensions ?? []).map((dimension) => dimension.Value).join(", ");
  const limit = alarm.Threshold === undefined ? "" : ` ${COMPARED[alarm.ComparisonOperator] ?? "?"} ${number(alarm.Threshold)}`;
  return `${alarm.MetricName ?? "An expression"}${limit}${where ? ` of ${where}` : ""}`;
}

// Rows are kept by their keys, so that whoever selects or reads one is not disturbed.
const known = new WeakMap();

function rows(list, items, read) {
  const before = known.get(list) ?? new Map();
  const now = new Map();
  for (const item of items) {
    const told = read(item);
    const node = before.get(told.key) ?? row();
    fill(node, told);
    now.set(told.key, node);
  }
  known.set(list, now);
  arrange(list, [...now.values()]);
}

function row() {
  return element(
    "li", {},
    element("time"), element("span", { class: "state" }), element("span", { class: "what" }),
    element("span", { class: "words" }), element("span", { class: "why" }),
  );
}

function fill(node, { state, kind, time, name, words, why }) {
  mark(node, "status", kind);
  [time, state, name, words ?? "", why].forEach((text, index) => say(node.children[index], text));
}
