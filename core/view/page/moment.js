// The chosen moment: what is allocated then, by category, by line, and the largest blocks.

import { byId, make, swatch, table } from "./dom.js";
import { ORDER, words } from "./palette.js";
import { grouped, plural, shortSite, size } from "./text.js";

const SHOWN = 100;

// { allocated, blocks, categories: [{ name, bytes, blocks }], sites: [{ text, bytes, blocks }], live: [numbers] }: the largest first
export function stateAt(recording, event) {
  const { device } = recording;
  const sums = device.sumsAt(event);
  const counts = new Float64Array(device.width);
  const sites = new Map();
  const live = [];
  device.eachLive(event, (block) => {
    counts[device.category[block]]++;
    live.push(block);
    const site = sites.get(device.site[block]) ?? { site: device.site[block], bytes: 0, blocks: 0 };
    site.bytes += device.size[block];
    site.blocks++;
    sites.set(site.site, site);
  });
  const biggest = (a, b) => b.bytes - a.bytes;
  const names = [...device.categories, "rest"];
  return {
    allocated: sums.reduce((sum, one) => sum + one, 0),
    blocks: live.length,
    categories: names.map((name, i) => ({ name, bytes: sums[i], blocks: counts[i] })).filter((one) => one.bytes),
    sites: [...sites.values()].map((one) => ({ ...one, text: recording.texts[one.site] || "unknown" })).sort(biggest),
    live: live.sort((a, b) => device.size[b] - device.size[a] || a - b),
  };
}

function percent(part, whole) {
  return whole ? `${((100 * part) / whole).toFixed(1)} %` : "";
}

function more(count, word) {
  return count > SHOWN ? make("p", { class: "quiet" }, `and ${plural(count - SHOWN, word)} more, smaller ones`) : null;
}

export function showMomentTitle(view) {
  const { device, runs, moment } = view;
  const allocated = device.allocatedAt(moment);
  let blocks = 0;
  device.eachLive(moment, () => blocks++);
  byId("moment-title").textContent = `After event #${moment}${runs.after(moment)}`;
  byId("moment-total").textContent =
    `${size(allocated)} allocated (${grouped(allocated)} bytes) in ${plural(blocks, "block")}, ${size(device.reservedAt(moment))} reserved`;
}

export function showMoment(view, palette) {
  const { device, recording, moment } = view;
  const state = stateAt(recording, moment);
  const number = "number";
  const categories = table(
    "By category",
    [
      ["category", ""],
      ["size", number],
      ["share", number],
      ["blocks", number],
    ],
    state.categories
      .sort((a, b) => ORDER.indexOf(b.name) - ORDER.indexOf(a.name))
      .map((one) => [
        make("span", {}, swatch(palette.category(one.name)), words(one.name)),
        size(one.bytes),
        percent(one.bytes, state.allocated),
        one.name === "rest" ? "" : grouped(one.blocks),
      ]),
  );
  const sites = table(
    "By line",
    [
      ["allocated at", "site"],
      ["size", number],
      ["share", number],
      ["blocks", number],
    ],
    state.sites
      .slice(0, SHOWN)
      .map((one) => [
        make("span", { title: one.text }, shortSite(one.text)),
        size(one.bytes),
        percent(one.bytes, state.allocated),
        grouped(one.blocks),
      ]),
  );
  const blocks = table(
    "Largest blocks",
    [
      ["block", ""],
      ["size", number],
      ["category", ""],
      ["allocated at", "site"],
    ],
    state.live
      .slice(0, SHOWN)
      .map((block) => [
        make("button", { type: "button", class: "link", "data-block": block, click: () => view.setBlock(block) }, `#${device.alloc[block]}`),
        size(device.size[block]),
        make("span", {}, swatch(palette.category(device.categories[device.category[block]])), words(device.categories[device.category[block]])),
        shortSite(recording.texts[device.site[block]] || ""),
      ]),
  );
  byId("categories").replaceChildren(categories);
  byId("sites").replaceChildren(sites, more(state.sites.length, "line") ?? "");
  byId("blocks").replaceChildren(blocks, more(state.live.length, "block") ?? "");
}
