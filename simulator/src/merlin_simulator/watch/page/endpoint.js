// The endpoint as it stands: what /simulator/state said, and the events since then on top. No DOM.

export class Endpoint {
  constructor() {
    this.state = null;
    this.skew = 0;
    this.recent = [];
  }

  // The state is newer than some events and older than others: those are put on top again.
  read(state) {
    const skew = state.at - Date.now() / 1000;
    if (Math.abs(skew - this.skew) > 0.5) this.skew = skew;
    if (this.state && this.state.run !== state.run) this.recent = [];
    this.state = state;
    this.recent = this.recent.filter((event) => event.sequence > state.sequence);
    for (const event of this.recent) apply(state, event);
  }

  add(events) {
    this.recent.push(...events);
    this.recent = this.recent.slice(-2000);
    if (this.state) for (const event of events) if (event.sequence > this.state.sequence) apply(this.state, event);
  }

  restart() {
    this.recent = [];
    this.state = null;
  }

  now() {
    return Date.now() / 1000 + this.skew;
  }
}

const INSTANCE_STATES = {
  instance_starting: "starting", instance_in_service: "in service",
  instance_unhealthy: "unhealthy", instance_ended: "stopped",
};

const MODEL_STATES = {
  download_started: "downloading", extracted: "on disk", load_started: "loading", loaded: "loaded",
  load_failed: "on disk", unload_started: "unloading", unloaded: "on disk", unload_failed: "loaded",
  lost: "on disk", download_failed: null, extraction_failed: null, deleted: null,
};

function apply(state, event) {
  if (!event.instance) return;
  const instance = instanceOf(state, event);
  if (event.kind in INSTANCE_STATES) applyToInstance(instance, event);
  else if (event.target_model) applyToModel(instance, event);
}

function instanceOf(state, event) {
  const found = state.instances.find((instance) => instance.name === event.instance);
  if (found) return found;
  const made = {
    name: event.instance, url: "", state: "starting", message: "", memory_used: null,
    memory_limit: null, disk_used: 0, disk_budget: null, in_flight: 0, models: [],
    variant: event.variant ?? "", fleet: "serving",
  };
  state.instances.push(made);
  return made;
}

function applyToInstance(instance, event) {
  instance.state = INSTANCE_STATES[event.kind];
  instance.message = event.message ?? "";
  if (event.kind !== "instance_ended") return;
  for (const model of instance.models) Object.assign(model, { state: "on disk", memory: null });
}

function applyToModel(instance, event) {
  if (event.kind in MODEL_STATES && MODEL_STATES[event.kind] === null) {
    instance.models = instance.models.filter((model) => model.target_model !== event.target_model);
    return;
  }
  const next = MODEL_STATES[event.kind];
  const model = instance.models.find((one) => one.target_model === event.target_model);
  if (!model && !next) return;
  applyChange(model ?? addModel(instance, event), event, next);
}

function applyChange(model, event, next) {
  if (next) model.state = next;
  if (event.kind === "loaded") model.memory = event.memory ?? null;
  if (event.kind === "extracted") model.disk = event.bytes;
  if (next === "on disk") model.memory = null;
  if (event.kind === "invoked") Object.assign(model, { invocations: model.invocations + 1, last_used: event.at });
}

function addModel(instance, event) {
  const model = {
    target_model: event.target_model, model_name: "", state: "downloading", memory: null,
    disk: 0, in_flight: 0, invocations: 0, last_used: null,
  };
  instance.models.push(model);
  return model;
}
