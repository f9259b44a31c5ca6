// Wheel, drag, touch and keys on the plot.

import { LEFT } from "./plot.js";
import { shortSite, size } from "./text.js";
import { words } from "./palette.js";

const KEYS = {
  ArrowLeft: ["pan", -0.1],
  a: ["pan", -0.1],
  A: ["pan", -0.5],
  ArrowRight: ["pan", 0.1],
  d: ["pan", 0.1],
  D: ["pan", 0.5],
  ArrowUp: ["zoom", 0.7],
  w: ["zoom", 0.7],
  "+": ["zoom", 0.7],
  ArrowDown: ["zoom", 1 / 0.7],
  s: ["zoom", 1 / 0.7],
  "-": ["zoom", 1 / 0.7],
};

// The block at a place of the plot, and its words; null: nothing is there.
export function placeAt(view, plot, x, y) {
  const part = plot.partAt(x);
  if (part < 0) return null;
  const moment = plot.sample.moment[part];
  const band = plot.bandAt(part, plot.bytesAt(y));
  const place = { moment, band, block: -1 };
  const { bands } = view;
  if (!band || !bands || band.category === bands.width - 1) return place;
  let below = 0;
  view.device.eachLive(moment, (block) => {
    if (bands.of[block] !== band.category) return;
    if (band.above >= below && band.above < below + view.device.size[block]) place.block = block;
    below += view.device.size[block];
  });
  return place;
}

export function placeWords(view, plot, place) {
  const { device, runs, bands } = view;
  const names = [...device.categories, "rest"];
  let text = `#${place.moment} ${runs.words(place.moment)}`;
  if (device.detailed) text += `: ${size(device.allocatedAt(place.moment))} allocated`;
  text += `, ${size(device.reservedAt(place.moment))} reserved`;
  const other = view.other?.at(place.moment);
  if (other) text += `, B ${size(other.bytes)}`;
  if (!place.band) return text;
  text += ` · ${bands ? bands.labels[place.band.category] : words(names[place.band.category])}`;
  if (bands) text += ` ${size(bands.sumsAt(place.moment)[place.band.category])}`;
  if (place.block >= 0) {
    const site = view.recording.texts?.[device.site[place.block]];
    text += ` · block #${device.alloc[place.block]}, ${size(device.size[place.block])}${site ? `, ${shortSite(site)}` : ""}`;
  }
  return text;
}

export function takeHands(view, plot, readout) {
  const { canvas } = plot;
  const pointers = new Map(); // of what touches: where it is
  let moved = 0;
  let asked = false;
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  const perPixel = () => (view.to - view.from) / plot.areaWidth;

  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      const scale = event.deltaMode === 1 ? 16 : 1;
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) view.pan((event.deltaX || event.deltaY) * scale * perPixel());
      else view.zoom(Math.exp(Math.max(-400, Math.min(400, event.deltaY * scale)) * 0.0025), plot.eventAt(Math.max(LEFT, at(event).x)));
    },
    { passive: false },
  );

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, at(event));
    if (pointers.size === 1) moved = 0;
  });

  canvas.addEventListener("pointermove", (event) => {
    const here = at(event);
    const before = pointers.get(event.pointerId);
    if (!before) return hover(here);
    moved += Math.abs(here.x - before.x) + Math.abs(here.y - before.y);
    if (pointers.size === 1) {
      if (moved > 4) view.pan((before.x - here.x) * perPixel());
    } else if (pointers.size === 2) {
      const [, other] = [...pointers].find(([id]) => id !== event.pointerId);
      const grown = Math.max(8, Math.abs(here.x - other.x)) / Math.max(8, Math.abs(before.x - other.x));
      view.zoom(1 / grown, plot.eventAt(other.x));
    }
    pointers.set(event.pointerId, here);
  });

  const release = (event) => {
    const here = pointers.get(event.pointerId);
    pointers.delete(event.pointerId);
    if (event.type === "pointerup" && here && moved <= 4) choose(here);
  };
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => (readout.textContent = ""));

  function choose({ x, y }) {
    const place = placeAt(view, plot, x, y);
    if (!place) return;
    view.setMoment(place.moment);
    if (place.block >= 0) view.setBlock(place.block);
  }

  function hover(here) {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      const place = placeAt(view, plot, here.x, here.y);
      readout.textContent = place ? placeWords(view, plot, place) : "";
    });
  }

  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey) return;
    const known = KEYS[event.key];
    const middle = view.moment !== null && view.moment >= view.from && view.moment < view.to ? view.moment : (view.from + view.to) / 2;
    if (known?.[0] === "pan") view.pan(known[1] * (view.to - view.from));
    else if (known) view.zoom(known[1], middle);
    else if (event.key === "Home" || event.key === "0") view.setRange(0, view.events);
    else if (event.key === "p" && view.device.facts.peak_event !== null) goTo(view.device.facts.peak_event);
    else if (event.key === "." || event.key === ",") goTo((view.moment ?? 0) + (event.key === "." ? 1 : -1));
    else if (event.key === "Escape") view.setBlock(-1);
    else return;
    event.preventDefault();
  });

  function goTo(event) {
    view.setMoment(event);
    view.show(view.moment);
  }
}
