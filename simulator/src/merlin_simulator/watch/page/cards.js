// One card for each endpoint: its status, its variants with their instances, its course.

import { arrange, element, mark, say } from "./elements.js";
import { Chart } from "./chart.js";
import { bytes, number } from "./words.js";

const CHANGING = new Set(["Creating", "Updating", "SystemUpdating", "RollingBack"]);
const FLEETS = { serving: "", coming: "new configuration", leaving: "old configuration" };

export class Cards {
  constructor(parent, courses) {
    Object.assign(this, { parent, courses, windowS: 300 });
    this.cards = new Map();
  }

  window(seconds) {
    this.windowS = seconds;
  }

  draw(overview) {
    const nodes = overview.endpoints.map((endpoint) => {
      if (!this.cards.has(endpoint.name)) this.cards.set(endpoint.name, new Card(endpoint));
      const card = this.cards.get(endpoint.name);
      card.draw(endpoint, this.courses.of(endpoint.name), overview, this.windowS);
      return card.node;
    });
    arrange(this.parent, nodes);
    const names = new Set(overview.endpoints.map((endpoint) => endpoint.name));
    for (const [name, card] of this.cards) {
      if (names.has(name)) continue;
      card.chart.close();
      this.cards.delete(name);
    }
  }
}

class Card {
  constructor(endpoint) {
    const title = `endpoint-${endpoint.name}`;
    this.status = element("span", { class: "state" });
    this.config = element("span", { class: "config" });
    this.requests = element("span", { class: "rate" });
    this.errors = element("span", { class: "rate errors" });
    this.reason = element("p", { class: "message" });
    this.variants = element("div", { class: "variants" });
    const canvas = element("canvas", { role: "img", "aria-label": `Requests per minute and instances of ${endpoint.name}` });
    this.chart = new Chart(canvas);
    this.course = element("div", { class: "course" }, canvas);
    this.node = element(
      "article", { class: "card", "aria-labelledby": title },
      element(
        "header", {},
        element("h3", { id: title }, element("a", { href: endpoint.page, text: endpoint.name })),
        this.status, this.config, this.requests, this.errors,
      ),
      this.reason, this.variants, this.course,
    );
    this.rows = new Map();
  }

  draw(endpoint, points, overview, windowS) {
    say(this.status, endpoint.status);
    mark(this.node, "status", kindOf(endpoint.status));
    const pending = endpoint.pending_config ? ` → ${endpoint.pending_config}` : "";
    say(this.config, `configuration ${endpoint.config}${pending}`);
    say(this.requests, `${number(Math.round(endpoint.requests_per_minute))} requests/min`);
    const errors = Math.ceil(endpoint.errors_per_minute);
    say(this.errors, `${number(errors)} errors/min`);
    mark(this.errors, "bad", errors > 0);
    say(this.reason, endpoint.failure_reason ?? "");
    this.drawVariants(endpoint.variants);
    this.course.hidden = !endpoint.variants.length && !points.some(([, instances, requests]) => instances || requests);
    const { now, scale } = overview.clock;
    this.chart.draw({ points, to: now, windowS: windowS * scale, sampleS: overview.sample_s });
  }

  drawVariants(variants) {
    const keys = variants.map((variant) => `${variant.fleet} ${variant.name} ${variant.instances[0]?.name}`);
    const nodes = variants.map((variant, index) => {
      if (!this.rows.has(keys[index])) this.rows.set(keys[index], new Variant(variant));
      const row = this.rows.get(keys[index]);
      row.draw(variant);
      return row.node;
    });
    if (!nodes.length) nodes.push(this.none ??= element("p", { class: "quiet", text: "Nothing is deployed." }));
    arrange(this.variants, nodes);
    for (const key of this.rows.keys()) if (!keys.includes(key)) this.rows.delete(key);
  }
}

function kindOf(status) {
  if (CHANGING.has(status)) return "changing";
  return { InService: "good", Failed: "bad" }[status] ?? "going";
}

class Variant {
  constructor(variant) {
    this.fleet = element("span", { class: "fleet" });
    this.counts = element("span", { class: "counts" });
    this.facts = element("span", { class: "quiet" });
    this.instances = element("ul", { class: "boxes", "aria-label": `Instances of ${variant.name}` });
    this.node = element(
      "div", { class: "row" },
      element("p", {}, element("strong", { text: variant.name }), this.fleet, this.counts, this.facts),
      this.instances,
    );
    this.boxes = new Map();
  }

  draw(variant) {
    mark(this.node, "fleet", variant.fleet);
    say(this.fleet, FLEETS[variant.fleet]);
    say(this.counts, `${number(variant.in_service)} of ${number(variant.desired)} ${variant.desired === 1 ? "instance" : "instances"}`);
    say(this.facts, facts(variant).join(" · "));
    const nodes = variant.instances.map((instance) => {
      if (!this.boxes.has(instance.name)) this.boxes.set(instance.name, new Box(instance.name));
      const box = this.boxes.get(instance.name);
      box.draw(instance, variant.multi_model);
      return box.node;
    });
    arrange(this.instances, nodes);
    const names = new Set(variant.instances.map((instance) => instance.name));
    for (const name of this.boxes.keys()) if (!names.has(name)) this.boxes.delete(name);
  }
}

function facts(variant) {
  const told = [variant.instance_type];
  if (variant.share !== null) told.push(`weight ${number(variant.weight)} (${Math.round(100 * variant.share)} %)`);
  if (variant.fleet === "serving") told.push(`${number(Math.round(variant.requests_per_minute))} requests/min`);
  if (variant.scaling) told.push(...scaling(variant.scaling));
  return told;
}

function scaling({ target, policies }) {
  return [`scales from ${target.MinCapacity} to ${target.MaxCapacity}`, ...policies.map(policyOf)];
}

function policyOf(policy) {
  const tracked = policy.TargetTrackingScalingPolicyConfiguration;
  if (!tracked) return policy.PolicyName;
  const metric = tracked.PredefinedMetricSpecification?.PredefinedMetricType.replace(/^SageMakerVariant/, "")
    ?? tracked.CustomizedMetricSpecification?.MetricName ?? "a metric";
  return `${metric} at ${number(tracked.TargetValue)}`;
}

class Box {
  constructor(name) {
    this.state = element("span", { class: "state" });
    this.bar = element("i");
    this.memory = element("span", { class: "meta" });
    this.work = element("span", { class: "meta" });
    this.node = element(
      "li", { class: "box" },
      element("p", {}, element("span", { class: "label", text: name, title: name }), this.state),
      element("div", { class: "thin" }, this.bar), element("p", {}, this.memory, this.work),
    );
  }

  draw(instance, multiModel) {
    const { memory_used: used, memory_limit: limit } = instance;
    mark(this.node, "state", instance.state);
    say(this.state, instance.state);
    if (this.node.title !== instance.message) this.node.title = instance.message;
    const width = used !== null && limit ? `${Math.min(100, (100 * used) / limit).toFixed(1)}%` : "0%";
    if (this.bar.style.width !== width) this.bar.style.width = width;
    say(this.memory, limit ? `${bytes(used)} / ${bytes(limit)}` : bytes(used));
    const models = `${number(instance.loaded)} loaded`
      + (instance.on_the_way ? `, ${number(instance.on_the_way)} coming` : "");
    say(this.work, [...(multiModel ? [models] : []), `${number(instance.in_flight)} in flight`].join(" · "));
  }
}
