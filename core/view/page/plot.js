// Draws the plot on a canvas: stacked areas by category, the reserved bytes above them, steps, phases and marks.

import { reservedOf, takeSample } from "./sample.js";
import { ORDER } from "./palette.js";
import { size } from "./text.js";

export const LEFT = 74;
const RIGHT = 10;
const TOP = 22; // the numbers of the steps
const BOTTOM = 30; // the strip of phases and the numbers of the events

const ROUND = [1, 2, 5];
function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * (ROUND.find((one) => one * power >= least) ?? 10);
}

export class Plot {
  constructor(canvas, palette) {
    this.canvas = canvas;
    this.palette = palette;
    this.context = canvas.getContext("2d", { alpha: false });
  }

  resize() {
    const box = this.canvas.getBoundingClientRect();
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    this.canvas.width = Math.max(1, Math.round(box.width * ratio));
    this.canvas.height = Math.max(1, Math.round(box.height * ratio));
    this.ratio = ratio;
    this.width = box.width;
    this.height = box.height;
    this.areaWidth = Math.max(1, box.width - LEFT - RIGHT);
    this.areaHeight = Math.max(1, box.height - TOP - BOTTOM);
  }

  x(event) {
    return LEFT + ((event - this.from) / (this.to - this.from)) * this.areaWidth;
  }

  y(bytes) {
    return TOP + this.areaHeight * (1 - bytes / this.top);
  }

  eventAt(x) {
    return this.from + ((x - LEFT) / this.areaWidth) * (this.to - this.from);
  }

  bytesAt(y) {
    return (1 - (y - TOP) / this.areaHeight) * this.top;
  }

  // The part of the sample at a place; -1: none.
  partAt(x) {
    const event = this.eventAt(x);
    const { start, count } = this.sample;
    if (x < LEFT || event < start[0] || event >= start[count]) return -1;
    let low = 0;
    for (let high = count; high - low > 1;) {
      const middle = (low + high) >> 1;
      if (start[middle] <= event) low = middle;
      else high = middle;
    }
    return low;
  }

  // The category at a height of a part, and how far above its band's lower edge; null: above all.
  bandAt(part, bytes) {
    let below = 0;
    for (const category of this.drawn) {
      const sum = this.sample.sums[part * this.sample.width + category];
      if (bytes >= below && bytes < below + sum) return { category, above: bytes - below };
      below += sum;
    }
    return null;
  }

  draw(view) {
    const { device, runs, from, to } = view;
    const { context, palette } = this;
    Object.assign(this, { from, to });
    const { bands } = view;
    this.sample = takeSample(device, bands, from, to, Math.ceil(this.areaWidth));
    this.reserved = reservedOf(device, this.sample);
    const names = [...device.categories, "rest"];
    this.drawn = bands?.order ?? ORDER.map((name) => names.indexOf(name)).filter((number) => number >= 0);
    const tops = [device.facts.peak_allocated, view.showReserved ? device.facts.peak_reserved : 0, view.other?.facts.peak_allocated ?? 0];
    this.top = Math.max(...tops) * 1.06 || 1;
    context.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = palette.get("surface");
    context.fillRect(0, 0, this.width, this.height);
    this.drawScale();
    context.save();
    context.beginPath();
    context.rect(LEFT, 0, this.areaWidth, this.height);
    context.clip();
    this.drawAreas((band) => bands?.colour(palette, band) ?? palette.category(names[band]));
    if (view.showReserved) this.drawReserved();
    if (view.other) this.drawOther(view.other);
    this.drawSteps(runs);
    this.drawPhases(runs);
    if (view.block >= 0 && bands) this.drawBlock(device, bands, view.block);
    this.drawMarks(device, view);
    context.restore();
    this.drawEvents();
  }

  drawScale() {
    const { context, palette } = this;
    const unit = 1024 ** Math.max(0, Math.floor(Math.log(this.top) / Math.log(1024)));
    const step = roundStep(this.top / unit / Math.max(2, Math.floor(this.areaHeight / 56))) * unit;
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (let bytes = 0; bytes <= this.top; bytes += step) {
      const y = Math.round(this.y(bytes)) + 0.5;
      context.strokeStyle = palette.get("grid");
      context.beginPath();
      context.moveTo(LEFT, y);
      context.lineTo(LEFT + this.areaWidth, y);
      context.stroke();
      context.fillStyle = palette.get("quiet");
      context.fillText(size(bytes), LEFT - 6, y);
    }
  }

  drawAreas(colour) {
    const { context, sample } = this;
    const below = new Float64Array(sample.count);
    const floor = new Float64Array(sample.count);
    for (const category of this.drawn) {
      let any = false;
      for (let part = 0; part < sample.count; part++) {
        floor[part] = below[part];
        const sum = sample.sums[part * sample.width + category];
        any ||= sum > 0;
        below[part] += sum;
      }
      if (!any) continue;
      context.fillStyle = colour(category);
      context.beginPath();
      this.traceSteps(below, true);
      this.traceSteps(floor, false);
      context.closePath();
      context.fill();
    }
  }

  // Along the parts and their heights; backwards along the lower edge.
  traceSteps(heights, forwards) {
    const { context, sample } = this;
    for (let i = 0; i < sample.count; i++) {
      const part = forwards ? i : sample.count - 1 - i;
      const y = this.y(heights[part]);
      const left = this.x(sample.start[part]);
      const right = this.x(sample.start[part + 1]);
      context.lineTo(forwards ? left : right, y);
      context.lineTo(forwards ? right : left, y);
    }
  }

  drawReserved() {
    const { context } = this;
    context.strokeStyle = this.palette.get("reserved");
    context.lineWidth = 1.5;
    context.beginPath();
    this.traceSteps(this.reserved, true);
    context.stroke();
    context.lineWidth = 1;
  }

  // The other recording's allocated bytes, in a line with a rim, so that it is seen over all colours.
  drawOther(other) {
    const { context, palette } = this;
    const parts = Math.ceil(this.areaWidth);
    const heights = other.heights(this.from, this.to, parts);
    context.beginPath();
    for (let part = 0; part < parts && heights[part] === heights[part]; part++) {
      const [x, y] = [LEFT + part, this.y(heights[part])];
      context.lineTo(x, y);
      context.lineTo(x + 1, y);
    }
    context.lineJoin = "round";
    for (const [colour, width] of [
      ["surface", 4],
      ["other", 1.5],
    ]) {
      context.strokeStyle = palette.get(colour);
      context.lineWidth = width;
      context.stroke();
    }
    context.lineJoin = "miter";
    context.lineWidth = 1;
  }

  // Returns where the numbers stand: [left, right] of each. Steps may differ in their events, so they are not equally far apart.
  drawSteps(runs) {
    const { context, palette } = this;
    const labels = [];
    const steps = runs.stepsIn(this.from, this.to);
    const spacing = this.areaWidth / Math.max(1, steps.length);
    const each = spacing >= 46 ? 1 : roundStep(46 / spacing);
    context.textAlign = "left";
    context.textBaseline = "middle";
    for (const { step, first } of steps) {
      if (each > 1 && step % each) continue;
      const x = Math.round(this.x(first)) + 0.5;
      context.strokeStyle = palette.get("step");
      context.beginPath();
      context.moveTo(x, 4);
      context.lineTo(x, TOP + this.areaHeight);
      context.stroke();
      const text = spacing >= 70 ? `step ${step}` : String(step);
      const right = x + 4 + context.measureText(text).width;
      if (right > this.width - 2 || (labels.length && x < labels.at(-1)[1] + 4)) continue;
      context.fillStyle = palette.get("quiet");
      context.fillText(text, x + 4, 11);
      labels.push([x + 4, right]);
    }
    return labels;
  }

  drawPhases(runs) {
    const { context } = this;
    const y = TOP + this.areaHeight + 2;
    let begun = LEFT;
    let before = null;
    for (let x = LEFT; x <= LEFT + this.areaWidth; x++) {
      const phase = x < LEFT + this.areaWidth ? runs.phaseAt(Math.floor(this.eventAt(x + 0.5))) : null;
      if (phase === before) continue;
      if (before) {
        context.fillStyle = this.palette.phase(before);
        context.fillRect(begun, y, x - begun, 9);
      }
      begun = x;
      before = phase;
    }
  }

  // The block's own part of its band, over its life.
  drawBlock(device, bands, block) {
    const { context, sample } = this;
    const under = this.drawn.slice(0, this.drawn.indexOf(bands.of[block]));
    const older = olderBlocks(device, bands, block);
    for (let part = 0; part < sample.count; part++) {
      const moment = sample.moment[part];
      if (moment < device.alloc[block] || moment >= device.end[block]) continue;
      let below = older(moment);
      for (const other of under) below += sample.sums[part * sample.width + other];
      const left = Math.round(this.x(sample.start[part]));
      const top = this.y(below + device.size[block]);
      const width = Math.max(1, Math.round(this.x(sample.start[part + 1])) - left);
      const height = Math.max(1, this.y(below) - top);
      context.fillStyle = this.palette.get("band");
      context.fillRect(left, top, width, height);
      context.fillStyle = this.palette.get("chosen");
      context.fillRect(left, top, width, 1);
      context.fillRect(left, top + height - 1, width, 1);
    }
  }

  drawLine(event, colour, dash) {
    const { context } = this;
    const x = this.x(event + 0.5);
    context.strokeStyle = colour;
    context.setLineDash(dash);
    context.beginPath();
    context.moveTo(x, TOP);
    context.lineTo(x, TOP + this.areaHeight);
    context.stroke();
    context.setLineDash([]);
    return x;
  }

  drawMarks(device, view) {
    const { context, palette } = this;
    let free = -Infinity; // where the next label may begin
    const label = (x, text, colour, y) => {
      const width = context.measureText(text).width;
      const fits = x + width + 9 <= LEFT + this.areaWidth; // else it stands on the line's other side
      const left = Math.max(fits ? x + 5 : x - width - 5, LEFT + 2);
      context.fillStyle = palette.get("surface");
      context.globalAlpha = 0.8;
      context.fillRect(left - 2, y - 8, width + 4, 16);
      context.globalAlpha = 1;
      context.fillStyle = colour;
      context.textAlign = "left";
      context.fillText(text, left, y);
      return left + width;
    };
    for (const event of device.oom.event) {
      if (event < this.from || event > this.to) continue;
      const x = this.drawLine(event, palette.get("oom"), []);
      if (x > free) free = label(x, "out of memory", palette.get("oom"), TOP + 28) + 8;
    }
    const peak = device.facts.peak_event;
    if (peak !== null && peak >= this.from && peak <= this.to) {
      const x = this.drawLine(peak, palette.get("text"), [4, 3]);
      label(x, `peak ${size(device.facts.peak_allocated)}`, palette.get("text"), TOP + 10);
    }
    if (view.moment !== null) this.drawLine(view.moment, palette.get("chosen"), []);
  }

  drawEvents() {
    const { context } = this;
    const events = this.to - this.from;
    const step = Math.max(1, roundStep(events / Math.max(1, Math.floor(this.areaWidth / 110))));
    context.fillStyle = this.palette.get("quiet");
    context.textBaseline = "alphabetic";
    for (let event = Math.ceil(this.from / step) * step; event <= this.to; event += step) {
      const x = this.x(event);
      const text = `#${event}`;
      const half = context.measureText(text).width / 2;
      context.textAlign = "center";
      if (x - half >= LEFT - 10 && x + half <= this.width - 2) context.fillText(text, x, this.height - 6);
    }
  }
}

// How many bytes the older blocks of a block's band have, by the moment.
function olderBlocks(device, bands, block) {
  const older = [];
  device.eachLive(device.alloc[block], (number) => {
    if (number < block && bands.of[number] === bands.of[block]) older.push(number);
  });
  older.sort((a, b) => device.end[a] - device.end[b]);
  let left = older.reduce((sum, number) => sum + device.size[number], 0);
  let next = 0;
  return (moment) => {
    for (; next < older.length && device.end[older[next]] <= moment; next++) left -= device.size[older[next]];
    return left;
  };
}
