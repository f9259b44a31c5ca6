// One device of the recording: its memory at any moment, in levels of detail and event by event, and its blocks.
//
// A moment is an event: the state after it. The sums of a moment are those by category, and last what is allocated and
// in no block (blocks from before the recording).

import { categoryBands } from "./bands.js";
import { countUpTo } from "./search.js";

const BUCKET = 64; // events of a bucket of the finest level, as core/view/device.h has it
const FACTOR = 4; // buckets that one of the next level has
export const NEVER = 0xffffffff;

export class Device {
  constructor(columns, facts, head) {
    this.columns = columns;
    this.facts = facts;
    this.events = head.events;
    this.categories = head.categories;
    this.width = head.categories.length + 1;
    this.kept = new Map();
    this.bands = new Map(); // by what they are told by
    this.detailed = false; // the blocks are there
  }

  column(name, Type) {
    if (!this.kept.has(name)) this.kept.set(name, this.columns.numbers(`d${this.facts.number}.${name}`, Type));
    return this.kept.get(name);
  }

  // A column of lists of numbers, each with its length before it: a function from a block to its list; null: there is none.
  async lists(name) {
    if (!this.columns.has(`d${this.facts.number}.${name}`)) return null;
    const flat = await this.column(name, Uint32Array);
    const first = new Uint32Array(this.alloc.length);
    for (let i = 0, at = 0; i < first.length; at += flat[at] + 1) first[i++] = at;
    return (block) => Array.from(flat.subarray(first[block] + 1, first[block] + 1 + flat[first[block]]));
  }

  async loadLevels() {
    const at = await this.column("level.at");
    const names = [...this.categories, "rest"];
    const count = at.length;
    this.levelSums = [];
    this.levelTotal = new Float64Array(count);
    this.levelMoment = new Float64Array(count);
    for (const name of names) {
      const there = this.columns.has(`d${this.facts.number}.level.${name}`);
      this.levelSums.push(there ? await this.column(`level.${name}`) : null);
    }
    for (let i = 0; i < count; i++) {
      this.levelMoment[i] = i * BUCKET + at[i];
      for (const sums of this.levelSums) if (sums) this.levelTotal[i] += sums[i];
    }
    this.makeLevels(count);
    this.reserved = { event: await this.column("reserved.event"), bytes: await this.column("reserved.bytes") };
    this.rest = { event: await this.column("rest.event"), bytes: await this.column("rest.bytes") };
    this.oom = { event: await this.column("oom.event"), bytes: await this.column("oom.bytes") };
  }

  // levels[k][i]: the bucket of the finest level with the most allocated, of those that bucket i of level k has.
  makeLevels(count) {
    this.levels = [Uint32Array.from({ length: count }, (_, i) => i)];
    for (let below = this.levels[0]; below.length > FACTOR; below = this.levels.at(-1)) {
      const level = new Uint32Array(Math.ceil(below.length / FACTOR));
      for (let i = 0; i < level.length; i++) {
        level[i] = below[i * FACTOR];
        for (let j = i * FACTOR + 1; j < Math.min((i + 1) * FACTOR, below.length); j++)
          if (this.levelTotal[below[j]] > this.levelTotal[level[i]]) level[i] = below[j];
      }
      this.levels.push(level);
    }
  }

  async loadBlocks() {
    const [alloc, life, size, category, site] = await Promise.all([
      this.column("block.alloc", Uint32Array),
      this.column("block.life", Uint32Array),
      this.column("block.size"),
      this.column("block.category", Uint8Array),
      this.column("block.site", Uint32Array),
    ]);
    const end = new Uint32Array(alloc.length);
    // which block an event allocates (its number plus 1) or releases (negative); 0: none
    this.eventBlock = new Int32Array(this.events);
    for (let i = 0; i < alloc.length; i++) {
      end[i] = life[i] ? alloc[i] + life[i] : NEVER;
      this.eventBlock[alloc[i]] = i + 1;
      if (life[i]) this.eventBlock[end[i]] = -i - 1;
    }
    this.kept.delete("block.life");
    Object.assign(this, { alloc, end, size, category, site });
    this.bands.set("category", categoryBands(this));
    this.detailed = true;
  }

  changeAt(changes, event) {
    const count = countUpTo(changes.event, event);
    return count ? changes.bytes[count - 1] : 0;
  }

  reservedAt(event) {
    return this.changeAt(this.reserved, event);
  }

  sumsAt(event) {
    return this.bands.get("category").sumsAt(event);
  }

  allocatedAt(event) {
    return this.sumsAt(event).reduce((sum, one) => sum + one, 0);
  }

  // Calls take(number) for each block that is allocated after the event, in the order of their allocations.
  eachLive(event, take) {
    const count = countUpTo(this.alloc, event);
    for (let i = 0; i < count; i++) if (this.end[i] > event) take(i);
  }

  // The block that an event allocated; -1: none.
  blockOf(event) {
    if (!this.detailed) return -1;
    const number = countUpTo(this.alloc, event) - 1;
    return number >= 0 && this.alloc[number] === event ? number : -1;
  }
}
