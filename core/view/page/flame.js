// The flame graph of the moment, as icicles: the outermost call above, and below each call those that it made. Buttons, so that
// keys and screen readers reach them.

import { byId, make } from "./dom.js";
import { callTree } from "./calls.js";
import { selectBlocks } from "./filter.js";
import { plural, size } from "./text.js";

const LEAST = 0.003; // of the width
const MOST = 3000; // buttons

export class Flame {
  constructor(view, table) {
    Object.assign(this, { view, table, path: [], asked: 0 });
    byId("flame-all").addEventListener("click", () => this.zoom(this.root));
    byId("flame-filtered").addEventListener("change", () => this.show());
  }

  // The tree of what is allocated at the moment, or of what the search selects of it.
  async find() {
    const { view, table } = this;
    const filtered = byId("flame-filtered").checked && table.condition !== "";
    const found = filtered ? await table.select(view.moment) : selectBlocks(view.recording, view.moment, null);
    return callTree(view.recording, found.blocks, filtered ? 0 : view.device.changeAt(view.device.rest, view.moment));
  }

  async show() {
    const ask = ++this.asked;
    byId("flame-filtered").disabled = this.table.condition === "";
    const root = await this.find();
    if (ask !== this.asked) return;
    this.root = root;
    // the call that was zoomed to, where it is still there
    let at = root;
    for (const title of this.path) at = at.children.find((one) => one.title === title) ?? at;
    this.zoom(at);
  }

  zoom(to) {
    this.focus = to;
    this.path = [];
    const lines = [];
    for (let at = to; at; at = at.parent) {
      if (at.parent) this.path.unshift(at.title);
      lines.unshift([at, 0, 1]);
    }
    const cells = [...lines];
    for (let i = lines.length - 1; i < cells.length && cells.length < MOST; i++) {
      const [at, left, width] = cells[i];
      let from = left;
      for (const one of at.children) {
        const part = at.bytes ? (width * one.bytes) / at.bytes : 0;
        if (part >= LEAST) cells.push([one, from, part]);
        from += part;
      }
    }
    const depth = cells.reduce((most, [at]) => Math.max(most, at.depth), 0);
    const graph = byId("flame");
    graph.style.height = `${(depth + 1) * 22}px`;
    graph.replaceChildren(...cells.map((cell) => this.cell(...cell)));
    this.describe(to);
  }

  cell(at, left, width) {
    const kind = at.kind === "call" && !at.library ? "own" : at.kind === "call" ? "other" : at.kind;
    const element = make(
      "button",
      {
        type: "button",
        class: `cell ${kind}`,
        title: this.words(at),
        click: () => (this.zoom(at), byId("flame").querySelector("[aria-current]")?.focus()),
      },
      at.text,
    );
    if (at === this.focus) element.setAttribute("aria-current", "true");
    element.setAttribute("aria-label", this.words(at));
    Object.assign(element.style, { left: `${100 * left}%`, width: `${100 * width}%`, top: `${22 * at.depth}px` });
    for (const event of ["pointerenter", "focus"]) element.addEventListener(event, () => this.describe(at));
    return element;
  }

  words(at) {
    const share = this.root.bytes ? `${((100 * at.bytes) / this.root.bytes).toFixed(1)} %` : "";
    return `${at.title}: ${size(at.bytes)}, ${share}${at.blocks ? `, ${plural(at.blocks, "block")}` : ""}`;
  }

  describe(at) {
    byId("flame-readout").replaceChildren(make("span", {}, this.words(at)));
  }
}
