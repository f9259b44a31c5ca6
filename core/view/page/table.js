// The table of blocks, or of the lines that allocated them: filtered, sorted, and out as CSV.

import { byId, make, swatch } from "./dom.js";
import { NEVER } from "./device.js";
import { asCondition, bySite, filterOf, selectBlocks } from "./filter.js";
import { words } from "./palette.js";
import { firstRows, ordering } from "./rows.js";
import { saveCsv } from "./save.js";
import { grouped, plural, shellWord, shortSite, size } from "./text.js";

const SHOWN = 200;

const lifeOf = (device, block) => (device.end[block] === NEVER ? Infinity : device.end[block] - device.alloc[block]);

// Columns: title, class, key to sort by, and what a cell shows.
function blockColumns(view, palette, tensor) {
  const { device, runs, recording } = view;
  const choose = (block) =>
    make("button", { type: "button", class: "link", "data-block": block, click: () => view.setBlock(block) }, `#${device.alloc[block]}`);
  const category = (block) => device.categories[device.category[block]];
  const life = (block) => (lifeOf(device, block) === Infinity ? "to the end" : plural(lifeOf(device, block), "event"));
  return [
    ["block", "", (block) => device.alloc[block], choose],
    ["size", "number", (block) => device.size[block], (block) => size(device.size[block])],
    ["category", "", category, (block) => make("span", {}, swatch(palette.category(category(block))), words(category(block)))],
    ["step", "number", (block) => runs.stepAt(device.alloc[block]), (block) => runs.stepAt(device.alloc[block]) || ""],
    ["life", "number", (block) => lifeOf(device, block), life],
    ["tensor", "tensor", (block) => recording.texts[tensor[block]], (block) => recording.texts[tensor[block]]],
    ["allocated at", "site", (block) => recording.texts[device.site[block]], (block) => shortSite(recording.texts[device.site[block]] || "unknown")],
  ];
}

function lineColumns(view) {
  const text = ({ site }) => view.recording.texts[site] || "unknown";
  return [
    ["allocated at", "site", text, (site) => make("span", { title: text(site) }, shortSite(text(site)))],
    ["size", "number", (site) => site.bytes, (site) => size(site.bytes)],
    ["blocks", "number", (site) => site.blocks, (site) => grouped(site.blocks)],
  ];
}

export class Table {
  constructor(view, palette) {
    Object.assign(this, { view, palette, condition: "", holds: null, sort: 1, descending: true, limit: SHOWN, asked: 0 });
    const again = () => ((this.limit = SHOWN), this.show());
    byId("filter").addEventListener("submit", (event) => (event.preventDefault(), this.search(byId("filter-text").value)));
    for (const id of ["table-scope", "table-rows"]) byId(id).addEventListener("change", again);
    byId("table-csv").addEventListener("click", () => this.save());
  }

  get perLine() {
    return byId("table-rows").value === "lines";
  }

  get moment() {
    return byId("table-scope").value === "all" ? null : this.view.moment;
  }

  // What is typed: a condition, words, or "#123".
  async search(text) {
    const { view } = this;
    const number = /^\s*#(\d+)\s*$/.exec(text);
    const block = number ? view.device.blockOf(Number(number[1])) : -1;
    if (number) {
      this.problem(block < 0 ? text : "", null, "no block was allocated by this event");
      if (block >= 0) view.setBlock(block);
      return;
    }
    const condition = asCondition(text);
    try {
      this.holds = await filterOf(condition, view.recording);
      this.condition = condition;
      this.filtered = view.device;
      this.problem("", null, "");
      this.limit = SHOWN;
      await this.show();
    } catch (error) {
      this.problem(condition, error.column ?? null, error.message);
    }
  }

  problem(text, column, why) {
    const where = column === null ? "" : `\n${" ".repeat(column - 1)}^ column ${column}: `;
    byId("filter-problem").textContent = why ? (where ? `${text}${where}${why}` : why) : "";
    byId("filter-problem").hidden = !why;
    byId("filter-text").setAttribute("aria-invalid", String(Boolean(why)));
  }

  // The blocks that the search selects of a moment; null: of the whole recording.
  async select(moment) {
    const { view } = this;
    if (this.condition && this.filtered !== view.device) {
      this.holds = await filterOf(this.condition, view.recording); // another device's
      this.filtered = view.device;
    }
    return selectBlocks(view.recording, moment, this.holds);
  }

  // { blocks, bytes, …, rows }: what the table is of, as data.
  async find() {
    const { view } = this;
    const found = await this.select(this.moment);
    return { ...found, rows: this.perLine ? bySite(view.device, found.blocks) : found.blocks };
  }

  async columns() {
    const { view, palette } = this;
    return this.perLine ? lineColumns(view) : blockColumns(view, palette, await view.device.column("block.tensor", Uint32Array));
  }

  ordered(columns, rows, count) {
    const id = this.perLine ? (site) => site.site : (block) => block;
    return firstRows(rows, count, ordering(columns[Math.min(this.sort, columns.length - 1)][2], this.descending, id));
  }

  async show() {
    const ask = ++this.asked;
    const [found, columns] = [await this.find(), await this.columns()];
    if (ask !== this.asked) return; // another one was asked for meanwhile
    this.found = found;
    this.describe(found);
    const heads = columns.map(([title, kind], i) => {
      const order = this.sort !== i ? null : this.descending ? "descending" : "ascending";
      const sort = () => {
        this.descending = this.sort === i ? !this.descending : kind === "number";
        this.sort = i;
        this.show().then(() => byId("table").querySelectorAll("th button")[i].focus());
      };
      const arrow = order ? make("span", { "aria-hidden": "true" }, order === "ascending" ? " ▲" : " ▼") : null;
      return make(
        "th",
        { scope: "col", class: kind, "aria-sort": order },
        make("button", { type: "button", class: "sort", click: sort }, title, arrow),
      );
    });
    const rows = this.ordered(columns, found.rows, this.limit).map((row) =>
      make("tr", {}, ...columns.map(([, kind, , cell]) => make("td", { class: kind }, cell(row)))),
    );
    const left = found.rows.length - rows.length;
    const more = make("button", { type: "button", click: () => ((this.limit *= 4), this.show()) }, `${plural(left, "more row")}: show more`);
    byId("table").replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, ...heads)), make("tbody", {}, ...rows)), left > 0 ? more : "");
  }

  describe(found) {
    const { view } = this;
    const filtered = this.condition !== "";
    let text = filtered ? `${size(found.bytes)} (${grouped(found.bytes)} bytes) in ${plural(found.blocks.length, "block")} of ` : "";
    text += `${size(found.allBytes)} in ${plural(found.allBlocks, "block")}`;
    text += this.moment === null ? ", each counted once, over the whole recording" : `, after event #${view.moment}`;
    if (found.unknownBytes) text += `. Of ${size(found.unknownBytes)} the recording does not contain the property that the condition needs`;
    byId("table-sums").textContent = `${text}.`;
    const at = this.moment === null ? "" : ` --at=${view.moment}`;
    const device = view.recording.devices.length > 1 && /^cuda:\d+$/.test(view.device.facts.name) ? ` --device=${view.device.facts.device}` : "";
    byId("filter-command").textContent =
      filtered && at ? `gpumem blocks ${shellWord(view.recording.fileName)}${at}${device} --where ${shellWord(this.condition)}` : "";
  }

  async save() {
    const { view } = this;
    const [found, columns] = [await this.find(), await this.columns()];
    const name = `${view.recording.fileName}.${this.perLine ? "lines" : "blocks"}.csv`;
    const rows = this.ordered(columns, found.rows, Infinity);
    if (this.perLine)
      saveCsv(
        name,
        ["allocated_at", "bytes", "blocks"],
        rows.map((site) => [view.recording.texts[site.site] || "unknown", site.bytes, site.blocks]),
      );
    else saveCsv(name, BLOCK_HEADS, await blockRows(view, rows));
  }
}

const BLOCK_HEADS = ["block", "address", "size", "requested", "category", "step", "phase", "released", "tensor", "name", "operator", "allocated_at"];

async function blockRows({ device, runs, recording: { texts } }, blocks) {
  const names = ["address.low", "address.high", "tensor", "name", "operator"];
  const [low, high, tensor, name, operator] = await Promise.all(names.map((one) => device.column(`block.${one}`, Uint32Array)));
  const requested = await device.column("block.requested", Float64Array);
  const address = (block) => `0x${((BigInt(high[block]) << 32n) | BigInt(low[block])).toString(16)}`;
  return (function* () {
    for (const block of blocks) {
      const alloc = device.alloc[block];
      yield [
        alloc,
        address(block),
        device.size[block],
        requested[block] || "",
        device.categories[device.category[block]],
        runs.stepAt(alloc),
        runs.phaseAt(alloc),
        device.end[block] === NEVER ? "" : device.end[block],
        texts[tensor[block]],
        texts[name[block]],
        texts[operator[block]],
        texts[device.site[block]],
      ];
    }
  })();
}
