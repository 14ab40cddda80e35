// The course of each endpoint over the last while: [at, instances, requests, errors], oldest first.
// Times are the platform's. No DOM.

const KEPT = 460;

export class Courses {
  constructor() {
    this.forget();
  }

  forget() {
    this.samples = new Map();
    this.last = 0;
  }

  add({ endpoints }) {
    const names = new Set();
    for (const { name, created, course } of endpoints) {
      names.add(name);
      const known = this.samples.get(name);
      const kept = known?.created === created ? known.points : [];
      this.samples.set(name, { created, points: [...kept, ...course].slice(-KEPT) });
    }
    for (const name of this.samples.keys()) if (!names.has(name)) this.samples.delete(name);
    for (const { points } of this.samples.values()) this.last = Math.max(this.last, points.at(-1)?.[0] ?? 0);
  }

  of(name) {
    return this.samples.get(name)?.points ?? [];
  }
}

// Rates per minute of whole bins of so many seconds, by the time that their samples cover; each at
// its bin's end.
export function rates(points, binS) {
  const found = [];
  for (let index = 1, first = 0; index < points.length; index += 1) {
    const bin = Math.floor(points[index][0] / binS);
    const next = points[index + 1];
    if (!next || Math.floor(next[0] / binS) === bin) continue;
    found.push(rate(points, first, index));
    first = index;
  }
  return found;
}

function rate(points, first, last) {
  const minutes = (points[last][0] - points[first][0]) / 60;
  let [requests, errors] = [0, 0];
  for (let index = first + 1; index <= last; index += 1) {
    requests += points[index][2];
    errors += points[index][3];
  }
  return { at: points[last][0], requests: requests / minutes, errors: errors / minutes };
}
