// The recording of this page: what its columns say, put together.

import { bandsBy } from "./bands.js";
import { Columns } from "./columns.js";
import { Device } from "./device.js";
import { Other } from "./other.js";
import { Runs } from "./runs.js";

export class Recording {
  constructor(root) {
    this.columns = new Columns(root);
  }

  // What the first picture needs.
  async open() {
    this.head = await this.columns.json("head");
    if (this.head.format !== 1) throw new Error(`the data has format ${this.head.format}, and this page reads format 1`);
    this.fileName = this.head.file.split("/").at(-1);
    const numbers = (name) => this.columns.numbers(name);
    this.runs = new Runs(await numbers("run.first"), await numbers("run.step"), await numbers("run.phase"), this.head.phases);
    this.devices = this.head.devices.map((facts) => new Device(this.columns, facts, this.head));
    this.device = this.devices.find((device) => device.facts.number === this.head.main) ?? this.devices[0] ?? null;
    if (this.device) await this.device.loadLevels();
    this.other = await Other.open(this.columns, this.head, this.runs);
  }

  // All else.
  async openBlocks() {
    this.texts ??= await this.columns.json("texts");
    this.tensors ??= new Map((await this.columns.json("tensors")).map((one) => [one.text, one])); // by the number of their text
    if (this.device && !this.device.detailed) await this.device.loadBlocks();
    if (this.stacks) return;
    const [file, name, line, library] = [
      await this.columns.numbers("frame.file", Uint32Array),
      await this.columns.numbers("frame.function", Uint32Array),
      await this.columns.numbers("frame.line", Uint32Array),
      await this.columns.numbers("frame.library", Uint8Array),
    ];
    const source = this.columns.has("frame.source") ? await this.columns.numbers("frame.source", Uint32Array) : null;
    this.frame = (number) => {
      const frame = {
        file: this.texts[file[number]] || "?",
        function: this.texts[name[number]] || "?",
        line: line[number],
        library: library[number] === 1,
      };
      return source?.[number] ? { ...frame, source: this.texts[source[number]] } : frame;
    };
    this.stacks = [[], ...(await this.numberLists("stacks"))];
    this.shown = [[], ...(await this.numberLists("stacks.told"))];
  }

  // Makes the plot's bands of the device, where they are not there.
  async makeBands(by) {
    if (this.device.detailed && !this.device.bands.has(by)) this.device.bands.set(by, await bandsBy(this, by));
  }

  // A column of lists, each with its length before it.
  async numberLists(name) {
    const flat = await this.columns.numbers(name, Uint32Array);
    const lists = [];
    for (let at = 0; at < flat.length; at += flat[at] + 1) lists.push(flat.subarray(at + 1, at + 1 + flat[at]));
    return lists;
  }

  // The device is another one once all of it is there: what is drawn meanwhile is of the one before.
  async choose(device) {
    this.wanted = device;
    if (!device.levels) await device.loadLevels();
    if (!device.detailed) await device.loadBlocks();
    if (this.wanted === device) this.device = device;
  }

  // The frames of a stack, innermost first.
  stack(number) {
    return Array.from(this.stacks[number] ?? [], this.frame);
  }

  // The frames of a stack that the flame graph tells, outermost first.
  shownFrames(number) {
    return Array.from(this.shown[number] ?? [], (index) => this.frame(this.stacks[number][index]));
  }
}
