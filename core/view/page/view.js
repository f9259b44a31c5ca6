// What is looked at: the range of events, the chosen moment and block. Whoever changes it calls changed(); listeners draw.

export class View {
  constructor(recording) {
    this.recording = recording;
    this.from = 0;
    this.to = Math.max(1, recording.head.events);
    this.moment = null;
    this.block = -1;
    this.showReserved = true;
    this.by = "category";
    this.listeners = [];
  }

  // What the plot is stacked by; null: the blocks are not there.
  get bands() {
    return this.device.bands.get(this.by) ?? this.device.bands.get("category") ?? null;
  }

  get device() {
    return this.recording.device;
  }

  get runs() {
    return this.recording.runs;
  }

  // The other recording, where the plot has it: over the device that both are compared by; null: nothing.
  get other() {
    const { other, head } = this.recording;
    return other?.alignment && this.device.facts.number === head.main ? other : null;
  }

  get events() {
    return Math.max(1, this.recording.head.events);
  }

  listen(listener) {
    this.listeners.push(listener);
  }

  // what: "range", "moment", "block"
  changed(...what) {
    for (const listener of this.listeners) listener(new Set(what));
  }

  setRange(from, to) {
    const width = Math.min(this.events, Math.max(4, to - from));
    this.from = Math.min(Math.max(0, (from + to - width) / 2), this.events - width);
    if (to - from >= 4 && to - from <= this.events) this.from = Math.min(Math.max(0, from), this.events - width);
    this.from = Math.max(0, this.from);
    this.to = Math.min(this.events, this.from + width) || 1;
    this.changed("range");
  }

  zoom(factor, around) {
    const width = Math.min(this.events, Math.max(4, (this.to - this.from) * factor));
    const part = (around - this.from) / (this.to - this.from);
    this.setRange(around - part * width, around + (1 - part) * width);
  }

  pan(events) {
    const width = this.to - this.from;
    const from = Math.min(Math.max(0, this.from + events), this.events - width);
    this.setRange(from, from + width);
  }

  // Brings an event into view.
  show(event) {
    if (event >= this.from && event < this.to) return;
    const width = this.to - this.from;
    this.setRange(event - width / 2, event + width / 2);
  }

  setMoment(event) {
    if (!this.recording.head.events) return;
    this.moment = Math.min(Math.max(0, Math.round(event)), this.events - 1);
    this.changed("moment");
  }

  setBlock(block) {
    this.block = block;
    this.changed("block");
  }
}
