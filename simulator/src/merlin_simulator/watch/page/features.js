// Which models are given values that they do not know: what the containers count, now and then.

import { dataAt } from "./address.js";
import { pairs } from "./elements.js";
import { number } from "./words.js";

const EVERY_MS = 10000;
const SHOWN = 12; // the worst ones
const BAD = 0.05; // as `python -m ensemble_tools drift` says

export class Features {
  constructor(section) {
    this.section = section;
  }

  async read() {
    try {
      if (document.hidden) return;
      const options = { signal: AbortSignal.timeout(EVERY_MS), cache: "no-store" };
      const answer = await fetch(dataAt("features"), options);
      if (answer.ok) this.draw(await answer.json());
    } catch {
      // The connection's loss is told elsewhere.
    } finally {
      setTimeout(() => this.read(), EVERY_MS);
    }
  }

  draw(models) {
    this.section.hidden = !models.length;
    pairs(this.section.querySelector("dl"), models.slice(0, SHOWN).map((model) => [
      model.target_model, percent(model.unseen, model),
      `of ${number(model.values)}; ${percent(model.null, model)} null`, model.unseen >= BAD * model.values,
    ]));
  }
}

function percent(count, { values }) {
  return `${((100 * count) / values).toFixed(1)} %`;
}
