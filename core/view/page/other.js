// The other recording of a page that compares two: its memory, at the places of this one's steps and phases.

import { Alignment } from "./align.js";
import { Runs } from "./runs.js";
import { countUpTo } from "./search.js";

export class Other {
  // null: the page has one recording
  static async open(columns, head, runs) {
    if (!columns.has("other")) return null;
    const facts = await columns.json("other");
    const other = new Other(facts);
    if (facts.events) await other.load(columns, head, runs);
    return other;
  }

  constructor(facts) {
    this.facts = facts;
    this.fileName = facts.file.split("/").at(-1);
  }

  async load(columns, head, runs) {
    const numbers = (name) => columns.numbers(`other.${name}`);
    const { bucket, events } = this.facts;
    this.runs = new Runs(await numbers("run.first"), await numbers("run.step"), await numbers("run.phase"), head.phases);
    this.alignment = new Alignment(runs, head.events, this.runs, events);
    const at = await numbers("level.at");
    this.bytes = new Float64Array(at.length);
    for (const name of [...head.categories, "rest"]) {
      if (!columns.has(`other.level.${name}`)) continue;
      const sums = await numbers(`level.${name}`);
      for (let i = 0; i < at.length; i++) this.bytes[i] += sums[i];
    }
    // Steps that this recording does not have are left out.
    const steps = new Set([0, ...runs.step]);
    const kept = [];
    for (let i = 0; i < at.length; i++) {
      const event = i * bucket + at[i];
      const place = this.alignment.placeOf(event);
      if (place < head.events && steps.has(this.runs.stepAt(event))) kept.push([place, this.bytes[i]]);
    }
    this.line = { place: Float64Array.from(kept, (one) => one[0]), bytes: Float64Array.from(kept, (one) => one[1]) };
    // Where its line ends: with this recording or before.
    this.end = Math.min(head.events, this.alignment.placeOf(events - 1) + 1);
  }

  // What it had allocated at a place: { event, bytes }; null: it has ended. With large buckets the most of one.
  at(place) {
    const event = this.alignment ? this.alignment.otherAt(place) : Infinity;
    if (!(event < this.facts.events)) return null;
    return { event, bytes: this.bytes[Math.floor(event / this.facts.bucket)] };
  }

  // The most that it had in each of `parts` of [from, to); NaN: it has ended.
  heights(from, to, parts) {
    const each = (to - from) / parts;
    const { place, bytes } = this.line;
    const found = new Float64Array(parts).fill(NaN);
    let next = countUpTo(place, from);
    for (let part = 0; part < parts; part++) {
      const end = from + (part + 1) * each;
      if (end - each >= this.end) break;
      let most = next && !(place[next] < end) ? bytes[next - 1] : 0;
      for (; next < place.length && place[next] < end; next++) most = Math.max(most, bytes[next]);
      found[part] = most;
    }
    return found;
  }
}
