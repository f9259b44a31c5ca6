// The page: opens the recording, draws the plot first and unpacks the blocks behind it.

import { Compare } from "./compare.js";
import { byId, make } from "./dom.js";
import { Flame } from "./flame.js";
import { Memory } from "./memory.js";
import { Recording } from "./recording.js";
import { View } from "./view.js";
import { Palette, ORDER, words } from "./palette.js";
import { Plot } from "./plot.js";
import { placeAt, takeHands } from "./hands.js";
import { showMoment, showMomentTitle, stateAt } from "./moment.js";
import { blockFacts, showCard } from "./card.js";
import { showBanner, showProblem, showSummary } from "./summary.js";
import { swatch } from "./dom.js";
import { savePicture } from "./save.js";
import { Table } from "./table.js";
import { Tabs } from "./tabs.js";
import { parseCondition } from "./condition.js";
import { plural, size, visible } from "./text.js";

// What tests read: the state, and how long each frame took to draw.
const page = { frames: [], stateAt, blockFacts, placeAt, parseCondition };
globalThis.gpumem = page;

// What the plot is stacked by, from above: { text, colour }
function legendOf({ device, bands }, palette) {
  if (bands) return bands.legend(palette);
  const names = [...device.categories, "rest"];
  const there = ORDER.filter((name) => device.levelSums[names.indexOf(name)]).reverse();
  return there.map((name) => ({ text: words(name), colour: palette.category(name) }));
}

function drawLegend(view, palette) {
  byId("legend").replaceChildren(
    ...legendOf(view, palette).map(({ text, colour }) => make("li", {}, swatch(colour), text)),
    make("li", {}, make("span", { class: "reserved-line", "aria-hidden": "true" }), "reserved"),
    ...(view.other ? [make("li", {}, make("span", { class: "other-line", "aria-hidden": "true" }), `B: ${view.other.fileName}`)] : []),
  );
  const phases = [...new Set(view.runs.phase)].map((number) => view.runs.phases[number]);
  byId("phases").replaceChildren(...phases.map((name) => make("li", {}, swatch(palette.phase(name)), words(name))));
}

function describe(view) {
  const { device, recording } = view;
  const { peak_event: peak, peak_allocated: bytes, name } = device.facts;
  return (
    `Allocated bytes of ${name} over ${plural(recording.head.events, "event")}, by ${view.by}.` +
    (peak === null ? "" : ` The peak is ${size(bytes)} at event ${peak}${view.runs.after(peak)}.`) +
    " Arrows pan and zoom, P goes to the peak, comma and period move by one event, Home shows all."
  );
}

function readHash(view) {
  const parts = new URLSearchParams(location.hash.slice(1));
  const number = (name) => (parts.has(name) && Number.isFinite(Number(parts.get(name))) ? Number(parts.get(name)) : null);
  if (number("from") !== null && number("to") > number("from")) view.setRange(number("from"), number("to"));
  view.setMoment(number("event") ?? view.device.facts.peak_event ?? 0);
  const by = byId("bands");
  if ([...by.options].some((one) => one.value === parts.get("by"))) {
    by.value = parts.get("by");
    by.dispatchEvent(new Event("change"));
  }
  const block = number("block") === null ? -1 : view.device.blockOf(number("block"));
  if (block >= 0) view.setBlock(block);
}

function writeHash(view) {
  const parts = [`event=${view.moment}`];
  if (view.from > 0 || view.to < view.events) parts.push(`from=${Math.floor(view.from)}`, `to=${Math.ceil(view.to)}`);
  if (view.block >= 0) parts.push(`block=${view.device.alloc[view.block]}`);
  if (view.by !== "category") parts.push(`by=${view.by}`);
  try {
    history.replaceState(null, "", `#${parts.join("&")}`);
  } catch {
    // A page within another one, as in a notebook, may have no address of its own.
  }
}

// "#123": that block, or that event; "step 3"
function goTo(view, text) {
  const step = /^step\s*(\d+)$/i.exec(text.trim());
  const event = /^#?(\d+)$/.exec(text.trim());
  if (step) {
    const at = view.runs.steps.findIndex((one) => one.step === Number(step[1]));
    if (at < 0) return false;
    view.setRange(view.runs.steps[at].first, view.runs.steps[at + 1]?.first ?? view.events);
    view.setMoment(view.runs.steps[at].first);
    return true;
  }
  if (!event || Number(event[1]) >= view.events) return false;
  view.setMoment(Number(event[1]));
  view.show(view.moment);
  const block = view.device.blockOf(view.moment);
  if (block >= 0) view.setBlock(block);
  return true;
}

function takeButtons(view, palette, redraw) {
  byId("fit").addEventListener("click", () => view.setRange(0, view.events));
  byId("zoom-in").addEventListener("click", () => view.zoom(0.5, view.moment ?? (view.from + view.to) / 2));
  byId("zoom-out").addEventListener("click", () => view.zoom(2, view.moment ?? (view.from + view.to) / 2));
  byId("to-peak").addEventListener("click", () => goTo(view, `#${view.device.facts.peak_event ?? 0}`));
  byId("reserved").addEventListener("change", (event) => {
    view.showReserved = event.target.checked;
    redraw();
  });
  byId("goto").addEventListener("submit", (event) => {
    event.preventDefault();
    byId("goto-text").setCustomValidity(goTo(view, byId("goto-text").value) ? "" : "no such event or step");
    byId("goto-text").reportValidity();
  });
  byId("goto-text").addEventListener("input", () => byId("goto-text").setCustomValidity(""));
  byId("bands").addEventListener("change", async (event) => {
    await view.recording.makeBands(event.target.value);
    view.by = event.target.value;
    view.changed("bands");
    redraw();
  });
  byId("colours").addEventListener("change", (event) => {
    document.documentElement.dataset.palette = event.target.value;
    palette.read();
    redraw();
  });
  byId("theme").addEventListener("click", () => {
    const dark = getComputedStyle(document.documentElement).getPropertyValue("--dark").trim() === "1";
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    palette.read();
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    palette.read();
    redraw();
  });
}

function pictureTitle(view) {
  const { device, recording } = view;
  return visible(`${recording.fileName}: allocated bytes of ${device.facts.name}, events ${Math.floor(view.from)} to ${Math.ceil(view.to) - 1}`);
}

function takePicture(view, plot, palette) {
  byId("picture").addEventListener("click", () => {
    const other = view.other ? [{ text: `B: ${visible(view.other.fileName)}`, colour: palette.get("other") }] : [];
    savePicture(`${view.recording.fileName}.png`, plot, pictureTitle(view), [...legendOf(view, palette), ...other]);
  });
}

function takeDevices(view, redraw) {
  const { recording } = view;
  const list = byId("device");
  list.replaceChildren(
    ...recording.devices.map((device, i) => make("option", { value: i, selected: device === recording.device }, device.facts.name)),
  );
  list.parentElement.hidden = recording.devices.length < 2;
  list.addEventListener("change", async () => {
    await recording.choose(recording.devices[list.value]);
    await recording.makeBands(view.by);
    view.block = -1; // it is of the device before
    view.setMoment(recording.device.facts.peak_event ?? 0);
    redraw();
  });
}

async function main() {
  const recording = new Recording(document);
  await recording.open();
  page.recording = recording;
  document.title = visible(`${recording.fileName} – gpumem`);
  byId("title").textContent = visible(recording.other ? `A: ${recording.fileName}, B: ${recording.other.fileName}` : recording.fileName);
  byId("source").textContent = visible(recording.head.info.source);
  byId("facts").textContent = `${plural(recording.head.events, "event")}, ${plural(recording.head.info.steps, "step")}`;
  showBanner(recording);
  if (!recording.device) {
    showProblem("The recording contains no allocations.");
    byId("plot-section").hidden = byId("detail").hidden = true;
    return "yes";
  }
  const view = new View(recording);
  const palette = new Palette();
  const plot = new Plot(byId("plot"), palette);
  let waiting = false;
  const draw = () => {
    waiting = false;
    const begin = performance.now();
    plot.draw(view);
    page.frames.push(performance.now() - begin);
    if (page.frames.length > 10_000) page.frames.splice(0, 5_000);
  };
  const ask = () => {
    if (!waiting) requestAnimationFrame(draw);
    waiting = true;
  };
  const table = new Table(view, palette);
  const flame = new Flame(view, table);
  const memory = new Memory(view, palette);
  const shows = { sums: () => showMoment(view, palette), table: () => table.show(), flame: () => flame.show(), memory: () => memory.show() };
  const compare = new Compare(view, palette, (step) => goTo(view, `step ${step}`));
  if (recording.other) shows.compare = () => compare.show();
  const tabs = new Tabs(shows);
  const showViews = () => {
    if (view.moment === null || !view.device.detailed) return;
    showMomentTitle(view);
    tabs.show();
  };
  const redraw = () => {
    drawLegend(view, palette);
    byId("plot").setAttribute("aria-label", visible(describe(view)));
    showViews();
    showCard(view, palette);
    ask();
  };
  Object.assign(page, { view, plot, table, flame, memory, compare, tabs });
  showSummary(view);
  new ResizeObserver(() => (plot.resize(), ask())).observe(byId("plot"));
  plot.resize();
  draw();
  drawLegend(view, palette);
  page.drawn = performance.now();
  await new Promise((done) => setTimeout(done)); // the browser paints
  // Where the browser has no memory for them the coarser levels are there all the same.
  const failed = await recording.openBlocks().then(
    () => null,
    (error) => error,
  );
  if (failed) showProblem(`The blocks could not be unpacked (${visible(failed.message)}): the plot shows what is allocated, without blocks.`);
  let writing = 0;
  view.listen((what) => {
    ask();
    if (what.has("moment")) showViews();
    if (what.has("block")) showCard(view, palette);
    if (what.has("block") && tabs.chosen === "memory" && memory.state) memory.draw();
    clearTimeout(writing);
    writing = setTimeout(() => writeHash(view), 200);
  });
  takeHands(view, plot, byId("readout"));
  takeButtons(view, palette, redraw);
  takeDevices(view, redraw);
  takePicture(view, plot, palette);
  redraw();
  readHash(view);
  return failed ? "partly" : "yes";
}

page.ready = main().then(
  (how) => (document.documentElement.dataset.ready = how),
  (error) => {
    document.documentElement.dataset.ready = "failed";
    showProblem(
      typeof DecompressionStream === "undefined"
        ? "This browser cannot unpack the page's data (no DecompressionStream): use one of 2023 or later."
        : `The page could not be shown in full: ${visible(error.message)}`,
    );
  },
);
