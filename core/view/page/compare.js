// The view that compares two recordings: what `gpumem diff A B --json` says, and what B had at the place of the chosen moment.

import { byId, make, swatch, table } from "./dom.js";
import { words } from "./palette.js";
import { grouped, plural, shellWord, shortSite, size } from "./text.js";

const SHOWN = 200;
const NUMBER = "number";
const LONGEST = 1024;

export function change(from, to) {
  return from === to ? "=" : `${to > from ? "+" : "-"}${size(Math.abs(to - from))}`;
}

function baseName(path) {
  return path.slice(path.lastIndexOf("/") + 1);
}

function more(count, word) {
  return count > SHOWN ? make("p", { class: "quiet" }, `and ${plural(count - SHOWN, word)} more: gpumem diff --json has all`) : "";
}

function scrolled(label, ...children) {
  return make("div", { class: "wide", role: "region", "aria-label": label, tabindex: "0" }, ...children);
}

function filesTable(files) {
  const heads = [
    ["run", ""],
    ["file", ""],
    ["peak", NUMBER],
    ["change", NUMBER],
    ["reserved", NUMBER],
    ["at", ""],
    ["events", NUMBER],
    ["steps", NUMBER],
  ];
  const rows = files.map((file, i) => [
    "AB"[i],
    `${baseName(file.file)}${file.complete ? "" : " (not complete)"}`,
    size(file.allocated),
    i ? change(files[0].allocated, file.allocated) : "",
    size(file.peak_reserved),
    file.event === null ? "" : `#${file.event}${file.step ? ` in step ${file.step}` : ""} (${file.phase})`,
    grouped(file.events),
    grouped(file.steps.length),
  ]);
  return scrolled("Both at their peaks", table("Both at their peaks", heads, rows));
}

function groupsTable({ by, groups }, palette) {
  const differ = groups.filter(({ bytes, blocks }) => bytes[0] !== bytes[1] || blocks[0] !== blocks[1]);
  if (!differ.length) return [make("p", {}, `By ${by}, both have the same at their peaks.`)];
  const heads = [
    ["change", NUMBER],
    ["A", NUMBER],
    ["B", NUMBER],
    ["blocks A", NUMBER],
    ["blocks B", NUMBER],
    [by === "line" ? "allocated at" : by, "site"],
  ];
  // Without folders, where that leaves names apart.
  const times = new Map();
  for (const { key } of differ) times.set(shortSite(key), (times.get(shortSite(key)) ?? 0) + 1);
  const name = (key) => {
    if (by === "category") return make("span", {}, swatch(palette.category(key)), words(key));
    const label = times.get(shortSite(key)) > 1 ? key : shortSite(key);
    return make("span", { title: key.slice(0, LONGEST) }, label.slice(0, LONGEST));
  };
  const rows = differ
    .slice(0, SHOWN)
    .map(({ key, bytes, blocks }) => [change(bytes[0], bytes[1]), size(bytes[0]), size(bytes[1]), grouped(blocks[0]), grouped(blocks[1]), name(key)]);
  const title = `Differences at the peaks, by ${by}`;
  return [scrolled(title, table(title, heads, rows), more(differ.length, by))];
}

function stepsTable([a, b], go) {
  const both = Math.min(a.steps.length, b.steps.length);
  if (!both) return [];
  const heads = [
    ["step", ""],
    ["peak A", NUMBER],
    ["peak B", NUMBER],
    ["change", NUMBER],
    ["kept A", NUMBER],
    ["kept B", NUMBER],
    ["change", NUMBER],
  ];
  const rows = a.steps
    .slice(0, Math.min(both, SHOWN))
    .map((one, i) => [
      make("button", { type: "button", class: "link", click: () => go(one.step) }, String(one.step)),
      size(one.peak),
      size(b.steps[i].peak),
      change(one.peak, b.steps[i].peak),
      size(one.kept),
      size(b.steps[i].kept),
      change(one.kept, b.steps[i].kept),
    ]);
  return [scrolled("Steps", table("Steps", heads, rows), more(both, "step"))];
}

export class Compare {
  // go(step): shows a step in the plot
  constructor(view, palette, go) {
    Object.assign(this, { view, palette, go });
    byId("tab-compare").hidden = !view.recording.other;
  }

  // What B had at the place of the moment, in words.
  momentWords() {
    const { view } = this;
    const { other } = view.recording;
    if (view.device.facts.number !== view.recording.head.main) return "The line of B is drawn over the main device of A only.";
    const there = other.at(view.moment);
    if (!there) return "B ends before this moment.";
    const own = view.device.allocatedAt(view.moment);
    const about = other.facts.bucket > 1 ? `the most of ${other.facts.bucket} events around event #${there.event}` : `event #${there.event}`;
    return `At this moment B is at ${about}${other.runs.after(there.event)}: ${size(there.bytes)} allocated (${grouped(there.bytes)} bytes), ${change(own, there.bytes)} against A.`;
  }

  alignmentWords() {
    const { other, runs } = this.view.recording;
    if (!other.alignment) return "B has no allocations.";
    const [here, there] = [runs, other.runs].map((one) => new Set(one.steps.map(({ step }) => step)));
    const missing = [...there].filter((step) => !here.has(step)).length;
    const text = `The line over the plot shows B's allocated bytes, aligned by steps and phases: ${plural(other.alignment.pairs.length, "section")} of one step and one phase are in both.`;
    return missing ? `${text} ${plural(missing, "step")} of B ${missing === 1 ? "is" : "are"} not in A and not drawn.` : text;
  }

  show() {
    const { view, palette } = this;
    const { diff } = view.recording.other.facts;
    byId("compare-moment").textContent = this.momentWords();
    if (this.shown === palette.cache) return;
    this.shown = palette.cache; // the tables do not depend on the moment
    const paths = diff.files.map((file) => shellWord(baseName(file.file))).join(" ");
    byId("compare-words").textContent = diff.equal
      ? "Both have the same peak, the same groups at the peak and the same steps."
      : this.alignmentWords();
    byId("compare").replaceChildren(
      filesTable(diff.files),
      ...diff.tables.flatMap((one) => groupsTable(one, palette)),
      ...stepsTable(diff.files, this.go),
      make("p", {}, "The same in a shell: ", make("code", {}, `gpumem diff ${paths}`)),
    );
  }
}
