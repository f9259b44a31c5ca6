// Two recordings side by side: which event of one is at the place of an event of the other. Both are cut into runs of one step and
// one phase; runs of the same step and phase stand over one another, and between them events are spread evenly.

import { countUpTo } from "./search.js";

// Where runs begin, and the step, the phase and how often that phase began in the step before: the same of both is one run.
function keysOf(runs) {
  const times = new Map();
  return Array.from(runs.first, (_, i) => {
    const phase = `${runs.step[i]} ${runs.phases[runs.phase[i]]}`;
    const time = times.get(phase) ?? 0;
    times.set(phase, time + 1);
    return `${phase} ${time}`;
  });
}

// Of numbers the places of the longest sequence that rises.
function longestRise(numbers) {
  const ends = []; // ends[n]: the place of the least number that ends a sequence of n + 1
  const before = new Int32Array(numbers.length);
  for (let i = 0; i < numbers.length; i++) {
    let low = 0;
    for (let high = ends.length; low < high;) {
      const middle = (low + high) >> 1;
      if (numbers[ends[middle]] < numbers[i]) low = middle + 1;
      else high = middle;
    }
    before[i] = low ? ends[low - 1] : -1;
    ends[low] = i;
  }
  const found = [];
  for (let at = ends.at(-1) ?? -1; at >= 0; at = before[at]) found.push(at);
  return found.reverse();
}

// Pairs of runs that are the same in both, in the order of both: [of one, of the other]
export function pairRuns(one, other) {
  const places = new Map(keysOf(one).map((key, i) => [key, i]));
  const both = keysOf(other)
    .map((key, i) => [places.get(key), i])
    .filter(([place]) => place !== undefined);
  return longestRise(both.map(([place]) => place)).map((i) => both[i]);
}

// From events of the other recording to those of this one, and back.
export class Alignment {
  constructor(one, events, other, otherEvents) {
    const ends = (runs, i, all) => runs.first[i + 1] ?? all;
    const pairs = pairRuns(one, other);
    const places = pairs.flatMap(([i, j]) => [
      [one.first[i], other.first[j]],
      [ends(one, i, events), ends(other, j, otherEvents)],
    ]);
    if (!places.length || (places[0][0] > 0 && places[0][1] > 0)) places.unshift([0, 0]);
    const last = places.at(-1);
    if (pairs.length === 0 || (last[0] < events && last[1] < otherEvents)) places.push([events, otherEvents]);
    this.pairs = pairs;
    this.here = Float64Array.from(places, (place) => place[0]);
    this.there = Float64Array.from(places, (place) => place[1]);
  }

  // The place of an event of the other recording; Infinity: this one has ended before.
  placeOf(event) {
    return between(this.there, this.here, event);
  }

  // The event of the other recording at a place; Infinity: it has ended before.
  otherAt(event) {
    return Math.floor(between(this.here, this.there, event));
  }
}

function between(from, to, at) {
  const i = countUpTo(from, at) - 1;
  if (i < 0) return to[0];
  if (i + 1 >= from.length) return Infinity;
  return to[i] + ((at - from[i]) / (from[i + 1] - from[i])) * (to[i + 1] - to[i]);
}
