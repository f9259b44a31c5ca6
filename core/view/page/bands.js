// What the plot is stacked by: the category of blocks, or another fact, of which the largest have a colour of their own and the
// others share one. A block is in one band; the last band has what is allocated and in no block.

import { ORDER, words } from "./palette.js";
import { shortSite } from "./text.js";

const CHECKPOINT = 1024;
const COLOURED = 9; // as style.css has series

export class Bands {
  // by: "category", "line", …; labels: of all bands but the last; of: the band of each block; order: bands from below
  constructor(device, by, labels, of, order) {
    Object.assign(this, { device, by, of, order, labels: [...labels, words("rest")], width: labels.length + 1 });
    this.makeCheckpoints();
  }

  colour(palette, band) {
    if (this.by === "category") return palette.category(this.device.categories[band] ?? "rest");
    if (band === this.width - 1) return palette.category("rest");
    const coloured = band < this.coloured;
    return coloured && this.by === "phase" ? palette.phase(this.labels[band]) : palette.get(coloured ? `series-${band + 1}` : "category-unknown");
  }

  // { label, colour } of those that the plot has, from above.
  legend(palette) {
    return [...this.order]
      .reverse()
      .filter((band) => this.levelSums[band])
      .map((band) => ({ text: this.labels[band], colour: this.colour(palette, band) }));
  }

  apply(sums, event) {
    const { device, of } = this;
    const block = device.eventBlock[event];
    if (block > 0) sums[of[block - 1]] += device.size[block - 1];
    else if (block < 0) sums[of[-block - 1]] -= device.size[-block - 1];
  }

  // The sums before each 1,024th event.
  makeCheckpoints() {
    const { events } = this.device;
    const sums = new Float64Array(this.width);
    this.checkpoints = new Float64Array((Math.floor(events / CHECKPOINT) + 1) * this.width);
    for (let event = 0; event < events; event++) {
      if (event % CHECKPOINT === 0) this.checkpoints.set(sums, (event / CHECKPOINT) * this.width);
      this.apply(sums, event);
    }
  }

  // The sums of the moments of the device's levels, as its columns have them by category.
  makeLevels() {
    const { levelMoment, levelSums, events } = this.device;
    const sums = new Float64Array(this.width);
    const made = this.labels.slice(1).map(() => new Float64Array(levelMoment.length));
    let next = 0;
    for (let event = 0; event < events && next < levelMoment.length; event++) {
      this.apply(sums, event);
      for (; next < levelMoment.length && levelMoment[next] === event; next++) made.forEach((one, band) => (one[next] = sums[band]));
    }
    this.levelSums = [...made.map((one) => (one.some((bytes) => bytes) ? one : null)), levelSums.at(-1)];
  }

  // The sums before an event, without the last band.
  sumsBefore(event) {
    const first = Math.floor(event / CHECKPOINT);
    const sums = this.checkpoints.slice(first * this.width, (first + 1) * this.width);
    for (let i = first * CHECKPOINT; i < event; i++) this.apply(sums, i);
    return sums;
  }

  sumsAt(event) {
    const sums = this.sumsBefore(event);
    this.apply(sums, event);
    sums[this.width - 1] = this.device.changeAt(this.device.rest, event);
    return sums;
  }
}

export function categoryBands(device) {
  const names = [...device.categories, "rest"];
  const bands = new Bands(
    device,
    "category",
    device.categories.map(words),
    device.category,
    ORDER.map((name) => names.indexOf(name)).filter((band) => band >= 0),
  );
  bands.levelSums = device.levelSums;
  return bands;
}

// What a block is told by: a number, and the text of such a number.
const KEYS = {
  async line({ device, texts }) {
    return [(block) => device.site[block], (key) => shortSite(texts[key] || "unknown")];
  },
  async operator({ device, texts }) {
    const operator = await device.column("block.operator", Uint32Array);
    return [(block) => operator[block], (key) => texts[key] || "no operator is known"];
  },
  async dtype({ device, tensors }) {
    const tensor = await device.column("block.tensor", Uint32Array);
    const names = ["no dtype is known"];
    const numbers = new Map([[undefined, 0]]);
    const numberOf = (name) => {
      if (!numbers.has(name)) numbers.set(name, names.push(name) - 1);
      return numbers.get(name);
    };
    return [(block) => numberOf(tensors.get(tensor[block])?.dtype), (key) => names[key]];
  },
  async phase({ device, runs }) {
    return [(block) => runs.phases.indexOf(runs.phaseAt(device.alloc[block])), (key) => runs.phases[key]];
  },
};

// The largest first, by the most bytes that a key ever had at once.
function ranked(device, keys) {
  const now = new Map();
  const most = new Map();
  for (let event = 0; event < device.events; event++) {
    const block = device.eventBlock[event];
    if (!block) continue;
    const index = Math.abs(block) - 1;
    const bytes = (now.get(keys[index]) ?? 0) + (block > 0 ? 1 : -1) * device.size[index];
    now.set(keys[index], bytes);
    if (bytes > (most.get(keys[index]) ?? 0)) most.set(keys[index], bytes);
  }
  return [...most].sort((a, b) => b[1] - a[1] || a[0] - b[0]).map(([key]) => key);
}

// From below: what stays, by bytes and how long they were there; then the others, and what is in no block.
function steadyFirst(device, of, count, own) {
  const area = new Float64Array(count);
  for (let block = 0; block < of.length; block++)
    area[of[block]] += device.size[block] * (Math.min(device.end[block], device.events) - device.alloc[block]);
  const order = Array.from({ length: count + 1 }, (_, band) => band);
  return order.sort((a, b) => (a < own && b < own ? area[b] - area[a] : a - b));
}

export async function bandsBy(recording, by) {
  const { device } = recording;
  const [keyOf, textOf] = await KEYS[by](recording);
  const keys = new Uint32Array(device.alloc.length);
  for (let block = 0; block < keys.length; block++) keys[block] = keyOf(block);
  const order = ranked(device, keys);
  const own = order.slice(0, COLOURED);
  const numbers = new Map(own.map((key, i) => [key, i]));
  const others = order.length - own.length;
  const labels = [...own.map(textOf), ...(others ? [`${others} others`] : [])];
  const of = Uint8Array.from(keys, (key) => numbers.get(key) ?? own.length);
  const bands = new Bands(device, by, labels, of, steadyFirst(device, of, labels.length, own.length));
  bands.coloured = own.length;
  bands.makeLevels();
  return bands;
}
