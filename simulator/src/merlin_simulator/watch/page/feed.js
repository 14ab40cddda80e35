// The connection: events as they come, each once and in order, and the endpoint's state.

import { dataAt } from "./address.js";

const GATHER_MS = 100; // events are handed on together, ten times a second
const STATE_AFTER_MS = 600; // how soon after an event the state is read again
const STATE_EVERY_MS = 4000; // memory changes without events
const STATE_WITHIN_MS = 8000;
const AGAIN_MS = 1500;

export class Feed {
  constructor({ events, state, connection, restarted, missed }) {
    Object.assign(this, { told: events, seen: state, connection, restarted, missed });
    this.run = null;
    this.last = 0;
    this.waiting = [];
    this.reading = false;
    this.stateTimer = null;
    this.missing = false;
  }

  start() {
    this.listen();
    this.readState();
  }

  listen() {
    this.source = new EventSource(dataAt("events"));
    this.source.onopen = () => this.opened();
    this.source.onmessage = (message) => this.receive(message);
    this.source.onerror = () => this.failed();
  }

  opened() {
    this.missing = false;
    this.connection("live");
    this.readSoon(0);
  }

  // EventSource tries again by itself, except after an answer that was no stream.
  failed() {
    if (!this.missing) this.connection("lost");
    this.readSoon(0);
    if (this.source.readyState !== EventSource.CLOSED) return;
    this.source.close();
    setTimeout(() => this.listen(), AGAIN_MS);
  }

  receive(message) {
    const [number, run] = message.lastEventId.split("-");
    if (run !== this.run) this.begin(run);
    const sequence = Number(number);
    if (sequence <= this.last) return;
    if (this.last && sequence > this.last + 1) this.missed(sequence - this.last - 1);
    this.last = sequence;
    if (!this.waiting.length) setTimeout(() => this.hand(), GATHER_MS);
    this.waiting.push(JSON.parse(message.data));
  }

  // Numbers begin at 1 again when the simulator was started again.
  begin(run) {
    this.hand();
    if (this.run !== null) this.restarted();
    this.run = run;
    this.last = 0;
  }

  hand() {
    const events = this.waiting;
    this.waiting = [];
    if (!events.length) return;
    this.told(events);
    this.readSoon(STATE_AFTER_MS);
  }

  readSoon(ms) {
    if (this.reading || this.soon) return;
    this.soon = true;
    clearTimeout(this.stateTimer);
    this.stateTimer = setTimeout(() => this.readState(), ms);
  }

  // There is no such endpoint (any more); one of its name may come again.
  gone() {
    this.missing = true;
    this.connection("gone");
  }

  async readState() {
    this.soon = false;
    this.reading = true;
    try {
      const options = { signal: AbortSignal.timeout(STATE_WITHIN_MS), cache: "no-store" };
      const answer = await fetch(dataAt("state"), options);
      if (answer.status === 404) return this.gone();
      if (!answer.ok) throw new Error(`status ${answer.status}`);
      this.seen(await answer.json());
      if (this.source.readyState === EventSource.OPEN) this.connection("live");
    } catch {
      this.connection("lost");
    } finally {
      this.reading = false;
      clearTimeout(this.stateTimer);
      this.stateTimer = setTimeout(() => this.readState(), STATE_EVERY_MS);
    }
  }
}
