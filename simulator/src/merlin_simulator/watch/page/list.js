// The events in words, newest first: a bounded number of rows, whatever happens.

import { element, say } from "./elements.js";
import { badge, clock, duration, failure, invocation, number, sentence } from "./words.js";

const ROWS = 200;
const KEPT = 600; // events per filter that another choice can be drawn from

const FILTERS = {
  all: () => true,
  changes: (event) => event.kind !== "invoked",
  errors: (event) => failure(event) || event.kind === "note",
};

export class EventList {
  constructor({ list, newer, none, errorCount }) {
    Object.assign(this, { list, newer, none, errorCount });
    this.kept = { all: [], changes: [], errors: [] };
    this.filter = "all";
    this.held = 0;
    this.errors = 0;
    list.addEventListener("scroll", () => this.release(), { passive: true });
    newer.addEventListener("click", () => list.scrollTo({ top: 0 }));
  }

  add(events) {
    this.errors += events.filter(failure).length;
    if (this.errors) say(this.errorCount, number(this.errors));
    for (const name of Object.keys(FILTERS)) {
      this.kept[name] = [...this.kept[name], ...events.filter(FILTERS[name])].slice(-KEPT);
    }
    this.show(events.filter(FILTERS[this.filter]));
  }

  // A line of ours between the events, such as that the connection was cut.
  note(text, at) {
    this.add([{ kind: "note", text, at, instance: null }]);
  }

  choose(filter) {
    this.filter = filter;
    this.redraw();
  }

  // Whoever has scrolled down reads: nothing moves until they are back at the top.
  show(events) {
    if (!events.length) return;
    if (this.list.scrollTop > 4) {
      this.held += events.length;
      this.newer.hidden = false;
      say(this.newer, `${number(this.held)} newer`);
      return;
    }
    for (const event of events.slice(-KEPT)) this.put(event);
    while (this.list.children.length > ROWS) this.list.lastElementChild.remove();
    this.none.hidden = true;
  }

  // Answers of loaded models in a row share one line, or nothing else could be read.
  put(event) {
    const warm = event.kind === "invoked" && !event.cold;
    if (warm && this.group?.node === this.list.firstElementChild) {
      this.group.add(event);
      return;
    }
    this.group = warm ? new Group(event) : null;
    this.list.prepend(this.group?.node ?? row(event));
  }

  release() {
    if (this.held && this.list.scrollTop <= 4) this.redraw();
  }

  redraw() {
    this.held = 0;
    this.newer.hidden = true;
    this.list.replaceChildren();
    this.list.scrollTop = 0;
    this.none.hidden = this.kept[this.filter].length > 0;
    this.show(this.kept[this.filter]);
  }
}

class Group {
  constructor(event) {
    this.node = row(event);
    this.count = 0;
    this.models = new Set();
    this.instances = new Set();
    this.times = [Infinity, 0];
    this.add(event);
  }

  add(event) {
    this.count += 1;
    this.models.add(event.target_model);
    this.instances.add(event.instance);
    this.times = [Math.min(this.times[0], event.seconds), Math.max(this.times[1], event.seconds)];
    this.node.dataset.count = this.count;
    if (this.count > 1) this.tell(event);
  }

  tell(event) {
    const [time, kind, where, words] = this.node.children;
    say(time, clock(event.at));
    say(kind, `${number(this.count)} warm`);
    say(where, this.instances.size > 1 ? `${this.instances.size} instances` : event.instance ?? "");
    const models = this.models.size > 1 ? `${this.models.size} models` : event.target_model ?? "The model";
    say(words, `${models} answered in ${this.times.map(duration).join(" to ")}`);
  }
}

function row(event) {
  if (event.kind === "note") return element("li", { class: "note", text: `${clock(event.at)} ${event.text}` });
  const made = element(
    "li", { class: kindOf(event), "data-sequence": event.sequence },
    element("time", { text: clock(event.at), datetime: new Date(event.at * 1000).toISOString() }),
    element("span", { class: "badge", text: badge(event) }),
    element("span", { class: "where", text: event.instance ?? "" }),
    element("span", { class: "sentence", text: sentence(event) }),
  );
  if (event.message) made.append(element("pre", { text: event.message, tabindex: "0" }));
  return made;
}

function kindOf(event) {
  if (failure(event)) return "failure";
  if (invocation(event)) return event.cold ? "cold" : "warm";
  return "change";
}
