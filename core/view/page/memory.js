// The view of segments: the memory that PyTorch got from CUDA at the moment, in the order of its addresses, as one strip in
// several rows; and a table of the segments.

import { parseBytes } from "./condition.js";
import { byId, make, table } from "./dom.js";
import { Layout } from "./layout.js";
import { words } from "./palette.js";
import { request } from "./request.js";
import { grouped, plural, size } from "./text.js";

const ROW = 26;
const BAR = 20;
const SHOWN = 500;

export class Memory {
  constructor(view, palette) {
    Object.assign(this, { view, palette, only: null, places: [], asked: 0 });
    this.canvas = byId("memory");
    this.canvas.addEventListener("click", (event) => {
      const part = this.partAt(event);
      if (part && part.block >= 0) view.setBlock(part.block);
    });
    this.canvas.addEventListener("pointermove", (event) => this.describe(this.partAt(event)));
    byId("request").addEventListener("submit", (event) => {
      event.preventDefault();
      if (!this.state) return;
      this.ask();
      this.draw();
    });
    byId("memory-all").addEventListener("click", () => this.choose(null));
    new ResizeObserver(() => this.state && this.draw()).observe(this.canvas);
  }

  async layout() {
    const { device } = this.view;
    device.layout ??= new Layout(device).load();
    return device.layout;
  }

  choose(only) {
    this.only = only;
    this.show();
  }

  async show() {
    const ask = ++this.asked;
    const layout = await this.layout();
    if (ask !== this.asked) return;
    const state = layout.at(this.view.moment);
    this.state = state;
    this.text = (address) => layout.text(address);
    if (!state.segments.some((one) => one.address === this.only)) this.only = null;
    byId("memory-sums").textContent = state.segments.length
      ? `${size(state.reserved)} reserved in ${plural(state.segments.length, "segment")}: ${size(state.allocated)} used, ` +
        `${state.pending ? `${size(state.pending)} waiting for other streams, ` : ""}${size(state.free)} free in ${plural(state.holes, "part")}` +
        `${state.holes ? `, the largest ${size(state.largestFree)}` : ""}.`
      : "No segments are known at this moment: the recording has no earlier events of segments.";
    this.canvas.hidden = !state.segments.length;
    this.canvas.setAttribute("aria-label", byId("memory-sums").textContent);
    byId("memory-all").hidden = this.only === null;
    this.ask();
    this.draw();
    this.showTable(state);
  }

  // What PyTorch would do with the request that is typed.
  ask() {
    const typed = byId("request-text").value.trim();
    const bytes = typed ? parseBytes(typed) : 0;
    const field = byId("request-text");
    field.setAttribute("aria-invalid", String(bytes === null));
    this.asks = bytes ? request(this.state, bytes, Number(byId("request-stream").value) || 0) : null;
    byId("request-answer").replaceChildren(...this.answer(typed, bytes));
  }

  answer(typed, bytes) {
    if (bytes === null) return [make("p", { class: "problem" }, `'${typed.slice(0, 100)}' is not a size: write it like 64MiB or 4096.`)];
    if (!this.asks) return [];
    const { rounded, segment, small, stream, fits, part, holes } = this.asks;
    const on = stream ? `stream ${stream}` : "the default stream";
    const begin = `A request of ${size(bytes)} (${grouped(bytes)} bytes, a block of ${grouped(rounded)}) on ${on}`;
    if (fits) return [make("p", {}, `${begin} fits: it gets the free part at ${this.text(part.address)}, of ${size(part.size)}.`)];
    const kinds = [
      [holes.tooSmall, "too small"],
      [holes.otherStream, "of another stream's segments"],
      [holes.otherPool, small ? "in the large pool, and requests up to 1 MiB use the small one" : "in the small pool, for requests up to 1 MiB"],
    ];
    const listed = kinds.filter(([one]) => one.count);
    const items = listed.map(([one, why]) =>
      make("li", {}, `${plural(one.count, "part")} with ${size(one.bytes)}, the largest ${size(one.largest)}: ${why}`),
    );
    if (!items.length) items.push(make("li", {}, "there are none"));
    const needs = `PyTorch would ask CUDA for a segment of ${size(segment)}. A recording does not show whether the device has that much.`;
    return [make("p", {}, `${begin} fits in no free part:`), make("ul", {}, ...items), make("p", {}, needs)];
  }

  // Bytes run from left to right and on in the next row; between segments is a gap of one pixel.
  draw() {
    const { canvas, palette } = this;
    const segments = this.state.segments.filter((one) => this.only === null || one.address === this.only);
    const bytes = segments.reduce((sum, one) => sum + one.size, 0);
    const width = canvas.parentElement.clientWidth;
    const rows = Math.max(1, Math.min(16, Math.ceil(segments.length / 2) + 2));
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    Object.assign(canvas.style, { height: `${rows * ROW}px` });
    canvas.width = Math.max(1, Math.round(width * ratio));
    canvas.height = rows * ROW * ratio;
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = palette.get("panel");
    context.fillRect(0, 0, width, rows * ROW);
    this.places = [];
    if (!bytes || !width) return;
    const perPixel = bytes / (width * rows);
    let reached = 0;
    for (const segment of segments) {
      for (const part of segment.parts) {
        const [from, to] = [reached / perPixel, (reached + part.size) / perPixel];
        this.places.push({ from, to, part, segment });
        this.eachRow(from, to, width, (x, y, length) => this.drawPart(context, part, x, y, length));
        reached += part.size;
      }
      const end = reached / perPixel;
      context.fillStyle = palette.get("text");
      this.eachRow(end - 1, end, width, (x, y, length) => context.fillRect(x, y, length, BAR));
    }
    this.rowWidth = width;
  }

  eachRow(from, to, width, take) {
    for (let row = Math.floor(from / width); row * width < to; row++) {
      const left = Math.max(from, row * width);
      take(left - row * width, row * ROW + 2, Math.min(to, (row + 1) * width) - left);
    }
  }

  drawPart(context, part, x, y, length) {
    const { palette, view } = this;
    const category = part.block >= 0 ? view.device.categories[view.device.category[part.block]] : "rest";
    context.fillStyle = part.state === "free" ? palette.get("surface") : palette.category(category);
    context.fillRect(x, y, length, BAR);
    if (part.state === "pending") {
      context.fillStyle = palette.get("surface");
      for (let at = x - (x % 4); at < x + length; at += 4) if (at >= x) context.fillRect(at, y, Math.min(2, x + length - at), BAR);
    }
    if (part.block >= 0 && part.block === view.block) {
      context.strokeStyle = palette.get("chosen");
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, Math.max(1, length - 2), BAR - 2);
    } else if (part === this.asks?.part) {
      context.strokeStyle = palette.get("link");
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, Math.max(1, length - 2), BAR - 2);
    } else if (length > 2) {
      context.fillStyle = palette.get("line");
      context.fillRect(x + length - 0.5, y, 0.5, BAR);
    }
  }

  partAt(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    const at = Math.floor(y / ROW) * this.rowWidth + x;
    return this.places.find((one) => at >= one.from && at < one.to)?.part ?? null;
  }

  describe(part) {
    const { device } = this.view;
    const readout = byId("memory-readout");
    if (!part) return (readout.textContent = "");
    const what =
      part.state === "free"
        ? "free"
        : part.block < 0
          ? "a block from before the recording"
          : `block #${device.alloc[part.block]}, ${words(device.categories[device.category[part.block]])}`;
    readout.textContent = `${this.text(part.address)}: ${size(part.size)}, ${what}${part.state === "pending" ? ", released, waits for other streams" : ""}`;
  }

  showTable(state) {
    const number = "number";
    const heads = [
      ["segment", ""],
      ["size", number],
      ["used", number],
      ["free", number],
      ["largest free", number],
      ["free parts", number],
      ["stream", number],
    ];
    const rows = state.segments
      .slice(0, SHOWN)
      .map((one) => [
        make(
          "button",
          { type: "button", class: "link", click: () => this.choose(one.address) },
          `${this.text(one.address)}${one.mapped ? " (expandable)" : ""}`,
        ),
        size(one.size),
        size(one.used + one.pending),
        one.holes ? size(one.free) : "",
        one.holes ? size(one.largestFree) : "",
        one.holes ? grouped(one.holes) : "",
        one.stream ? String(one.stream) : "default",
      ]);
    const left = state.segments.length - rows.length;
    byId("segments").replaceChildren(
      rows.length ? table("Segments", heads, rows) : "",
      left > 0 ? make("p", { class: "quiet" }, `and ${plural(left, "segment")} more`) : "",
    );
  }
}
