// What is drawn: for each part of a range of events the sums at that moment of it at which most was allocated.

import { countUpTo } from "./search.js";

const BUCKET = 64;
const FACTOR = 4;

// start: where each part begins, in events; moment: the event that is shown of it; sums: `width` numbers a part.
class Sample {
  constructor(capacity, width) {
    this.width = width;
    this.count = 0;
    this.start = new Float64Array(capacity + 1);
    this.moment = new Float64Array(capacity);
    this.sums = new Float64Array(capacity * width);
  }

  add(start, moment) {
    this.start[this.count] = start;
    this.moment[this.count] = moment;
    return this.count++;
  }
}

function fromLevels(device, { width, levelSums }, from, to, parts) {
  const each = (to - from) / parts;
  let depth = 0;
  while (depth + 1 < device.levels.length && BUCKET * FACTOR ** (depth + 1) <= each) depth++;
  const level = device.levels[depth];
  const events = BUCKET * FACTOR ** depth;
  const sample = new Sample(parts, width);
  for (let part = 0; part < parts; part++) {
    const first = Math.floor((from + part * each) / events);
    const last = Math.min(Math.ceil((from + (part + 1) * each) / events), level.length);
    if (first >= last) continue;
    let best = level[first];
    for (let i = first + 1; i < last; i++) if (device.levelTotal[level[i]] > device.levelTotal[best]) best = level[i];
    const at = sample.add(from + part * each, device.levelMoment[best]) * sample.width;
    for (let i = 0; i < sample.width; i++) sample.sums[at + i] = levelSums[i] ? levelSums[i][best] : 0;
  }
  return sample;
}

// One part an event where they are few, else the greatest moment of each of `parts`.
function fromEvents(device, bands, from, to, parts) {
  const first = Math.floor(from);
  const last = Math.min(Math.ceil(to), device.events);
  const each = Math.max(1, (to - from) / parts);
  const sample = new Sample(Math.ceil((last - first) / each) + 2, bands.width);
  const sums = bands.sumsBefore(first);
  let rest = countUpTo(device.rest.event, first);
  let part = -1;
  let best = -1;
  for (let event = first; event < last; event++) {
    bands.apply(sums, event);
    while (rest < device.rest.event.length && device.rest.event[rest] <= event) rest++;
    sums[sample.width - 1] = rest ? device.rest.bytes[rest - 1] : 0;
    let total = 0;
    for (let i = 0; i < sample.width; i++) total += sums[i];
    const here = Math.floor((event - first) / each);
    if (here !== part) sample.add(event, event);
    else if (total <= best) continue;
    part = here;
    best = total;
    sample.moment[sample.count - 1] = event;
    sample.sums.set(sums, (sample.count - 1) * sample.width);
  }
  return sample;
}

// bands: what the sums are by; null: by category, of which the levels alone are there.
export function takeSample(device, bands, from, to, parts) {
  const each = (to - from) / parts;
  const sample = bands && each < BUCKET ? fromEvents(device, bands, from, to, parts) : fromLevels(device, bands ?? device, from, to, parts);
  sample.start[sample.count] = Math.min(to, device.events);
  return sample;
}

// The greatest reserved bytes in each part of a sample.
export function reservedOf(device, sample) {
  const { event, bytes } = device.reserved;
  const found = new Float64Array(sample.count);
  let next = countUpTo(event, sample.start[0]);
  for (let part = 0; part < sample.count; part++) {
    found[part] = next ? bytes[next - 1] : 0;
    for (; next < event.length && event[next] < sample.start[part + 1]; next++) found[part] = Math.max(found[part], bytes[next]);
  }
  return found;
}
