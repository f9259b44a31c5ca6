// How the allocator has laid out its memory after an event: segments by address, and in each the parts that are used, wait for
// a stream, or are free. As core/ask/recording/memory_after.c and core/model/state.c have it.

import { NEVER } from "./device.js";

const ALLOC = 0;
const FREE = 1;
const MAP = 2;

// What is mapped of an expandable segment is one segment a stretch.
function addSegment(segments, one) {
  for (const other of Array.from(segments.values())) {
    if (!one.mapped || !other.mapped || other.stream !== one.stream) continue;
    const below = other.address + other.size === one.address;
    if (!below && one.address + one.size !== other.address) continue;
    segments.delete(other.address);
    one = { ...one, address: below ? other.address : one.address, size: one.size + other.size };
  }
  segments.set(one.address, one);
}

function cut(segments, address, size) {
  const end = address + size;
  for (const one of Array.from(segments.values())) {
    const oneEnd = one.address + one.size;
    if (one.address >= end || oneEnd <= address) continue;
    segments.delete(one.address);
    if (one.address < address) segments.set(one.address, { ...one, mapped: true, size: address - one.address });
    if (oneEnd > end) segments.set(end, { ...one, mapped: true, address: end, size: oneEnd - end });
  }
}

function segmentsAt({ event: events, action, address, size, stream }, event) {
  const segments = new Map(); // by address
  for (let i = 0; i < events.length && events[i] <= event; i++) {
    if (action[i] === ALLOC || action[i] === MAP)
      addSegment(segments, { address: address[i], size: size[i], stream: stream[i], mapped: action[i] === MAP });
    else if (action[i] === FREE) segments.delete(address[i]);
    else cut(segments, address[i], size[i]);
  }
  return [...segments.values()].sort((a, b) => a.address - b.address);
}

// Where blocks lie over one another (a recording with holes in it), the first one counts.
function fill(segment, placed, from) {
  const parts = [];
  const end = segment.address + segment.size;
  let reached = segment.address;
  let at = from;
  const free = (until) => until > reached && parts.push({ address: reached, size: until - reached, state: "free", block: -1 });
  while (at < placed.length && placed[at].address < reached) at++;
  for (; at < placed.length && placed[at].address < end; at++) {
    const one = placed[at];
    if (one.address < reached) continue;
    free(one.address);
    parts.push({ ...one, size: Math.min(one.size, end - one.address) });
    reached = one.address + parts.at(-1).size;
  }
  free(end);
  return [parts, at];
}

const SUMS = { used: "allocated", pending: "pending", free: "free" };

export class Layout {
  constructor(device) {
    this.device = device;
  }

  async load() {
    const { device } = this;
    const parts = {};
    for (const name of ["segment", "block", "before"])
      parts[name] = [await device.column(`${name}.address.low`), await device.column(`${name}.address.high`)];
    // A number has 53 bits: where addresses have more, they are counted from the lowest one.
    const high = Object.values(parts).map(([, one]) => one);
    const least = high.reduce((found, one) => one.reduce((a, b) => Math.min(a, b), found), Infinity);
    this.high = high.some((one) => one.some((part) => part >= 2 ** 21)) ? least : 0;
    const address = (name) => Float64Array.from(parts[name][0], (low, i) => (parts[name][1][i] - this.high) * 2 ** 32 + low);
    this.changes = { address: address("segment") };
    for (const name of ["event", "action", "size", "stream"]) this.changes[name] = await device.column(`segment.${name}`);
    this.blocks = { address: address("block"), pending: await device.column("block.pending", Uint32Array) };
    this.before = { address: address("before") };
    for (const name of ["size", "end", "pending"]) this.before[name] = await device.column(`before.${name}`);
    return this;
  }

  // The address of a place: "0x7f0000000000"
  text(address) {
    return `0x${(BigInt(address) + (BigInt(this.high) << 32n)).toString(16)}`;
  }

  // What has memory after an event: { address, size, state, block }
  placedAt(event) {
    const { device, blocks, before } = this;
    const placed = [];
    for (let i = 0; i < before.size.length; i++)
      if (before.end[i] + before.pending[i] > event)
        placed.push({ address: before.address[i], size: before.size[i], state: before.end[i] > event ? "used" : "pending", block: -1 });
    for (let i = 0; i < device.alloc.length && device.alloc[i] <= event; i++) {
      const end = device.end[i];
      if (end !== NEVER && end + blocks.pending[i] <= event) continue;
      placed.push({ address: blocks.address[i], size: device.size[i], state: end > event ? "used" : "pending", block: i });
    }
    return placed.filter((one) => one.size).sort((a, b) => a.address - b.address);
  }

  // { segments, reserved, allocated, pending, free, largestFree, holes }
  at(event) {
    const placed = this.placedAt(event);
    const all = { segments: segmentsAt(this.changes, event), reserved: 0, allocated: 0, pending: 0, free: 0, largestFree: 0, holes: 0 };
    let from = 0;
    for (const segment of all.segments) {
      [segment.parts, from] = fill(segment, placed, from);
      Object.assign(segment, { used: 0, pending: 0, free: 0, largestFree: 0, holes: 0 });
      for (const { state, size } of segment.parts) {
        segment[state] += size;
        all[SUMS[state]] += size;
        if (state !== "free") continue;
        segment.holes++;
        segment.largestFree = Math.max(segment.largestFree, size);
      }
      all.holes += segment.holes;
      all.largestFree = Math.max(all.largestFree, segment.largestFree);
      all.reserved += segment.size;
    }
    return all;
  }
}
