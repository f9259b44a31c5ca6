// The card of a block: what it is, its life, its stacks, and who had the address before and after.

import { byId, make, swatch } from "./dom.js";
import { NEVER } from "./device.js";
import { words } from "./palette.js";
import { grouped, plural, shellWord, size } from "./text.js";

// All that the page knows of a block, as data.
export async function blockFacts(recording, block) {
  const { device, runs, texts, head } = recording;
  const column = async (name, Type = Uint32Array) => (await device.column(`block.${name}`, Type))[block];
  const [low, high] = [await device.column("block.address.low", Uint32Array), await device.column("block.address.high", Uint32Array)];
  const same = [];
  for (let i = 0; i < low.length; i++) if (low[i] === low[block] && high[i] === high[block]) same.push(i);
  const place = same.indexOf(block);
  const end = device.end[block];
  return {
    block,
    number: device.alloc[block],
    address: `0x${((BigInt(high[block]) << 32n) | BigInt(low[block])).toString(16)}`,
    size: device.size[block],
    requested: await column("requested", Float64Array),
    category: device.categories[device.category[block]],
    reason: head.reasons[await column("reason")],
    tensor: texts[await column("tensor")],
    name: texts[await column("name")],
    operator: texts[await column("operator")],
    site: texts[device.site[block]],
    ...(await causeOf(recording, block)),
    allocated: { event: device.alloc[block], words: runs.words(device.alloc[block]) },
    released: end === NEVER ? null : { event: end, words: runs.words(end) },
    stack: recording.stack(await column("stack")),
    releaseStack: recording.stack(await column("release.stack")),
    before: place > 0 ? same[place - 1] : -1,
    after: place + 1 < same.length ? same[place + 1] : -1,
  };
}

// By what it was released, and what kept it until then: null, where that is not known; the page has not all causes of all recordings.
async function causeOf({ device, texts }, block) {
  const number = (await device.column("block.cause", Uint32Array))[block];
  if (!number) return { cause: null, kept: null };
  const [text, kept] = [await device.column("cause.text", Uint32Array), await device.column("cause.kept", Uint32Array)];
  return { cause: texts[text[number - 1]], kept: texts[kept[number - 1]] || null };
}

function frameItem(frame) {
  const source = frame.source ? make("code", { class: "source" }, frame.source) : null;
  return make("li", { class: frame.library ? "library" : null }, `${frame.file}:${frame.line} in ${frame.function}`, source);
}

function stackList(frames) {
  return make("ol", { class: "stack", tabindex: "0" }, ...frames.map(frameItem));
}

function stackSection(title, frames) {
  return frames.length ? make("details", { open: true }, make("summary", {}, title), stackList(frames)) : null;
}

let latest = 0;

export async function showCard(view, palette) {
  const ask = ++latest;
  const card = byId("card");
  if (view.block < 0 || !view.device.detailed) {
    card.replaceChildren(
      make("h2", {}, "Block"),
      make("p", { class: "quiet" }, "Click a band of the plot, or a block in the list, to see its lifetime and stacks."),
    );
    return;
  }
  const { recording, device } = view;
  const facts = await blockFacts(recording, view.block);
  if (ask !== latest) return; // another one was chosen meanwhile
  const go = (event) => make("button", { type: "button", class: "link", click: () => (view.setMoment(event), view.show(event)) }, `#${event}`);
  const other = (block) =>
    make("button", { type: "button", class: "link", click: () => (view.setBlock(block), view.show(device.alloc[block])) }, `#${device.alloc[block]}`);
  const rows = [
    ["tensor", facts.tensor],
    ["name", facts.name],
    ["category", make("span", {}, swatch(palette.category(facts.category)), `${words(facts.category)}: ${facts.reason}`)],
    ["size", `${grouped(facts.size)} bytes${facts.requested ? `; ${grouped(facts.requested)} requested` : ""}`],
    ["address", facts.address],
    ["allocated", make("span", {}, "event ", go(facts.allocated.event), ` ${facts.allocated.words}`)],
    [
      "released",
      facts.released
        ? make(
            "span",
            {},
            "event ",
            go(facts.released.event),
            ` ${facts.released.words}, after ${plural(facts.released.event - facts.number, "event")}`,
          )
        : "not before the end of the recording",
    ],
    ["operator", facts.operator],
    ["allocated at", facts.site],
    ["address before", facts.before >= 0 ? make("span", {}, "block ", other(facts.before)) : null],
    ["address after", facts.after >= 0 ? make("span", {}, "block ", other(facts.after)) : null],
    ["cause", facts.cause],
    ["kept by", facts.kept],
    ["more of its life", make("code", {}, `gpumem why ${shellWord(recording.fileName)} '#${facts.number}'`)],
  ].filter(([, value]) => value);
  card.replaceChildren(
    make("h2", {}, `Block #${facts.number}, ${size(facts.size)}`),
    make("dl", {}, ...rows.flatMap(([term, value]) => [make("dt", {}, term), make("dd", {}, value)])),
    stackSection("Stack of the allocation", facts.stack) ?? make("p", { class: "quiet" }, "Its allocation has no Python stack."),
    stackSection("Stack of the release", facts.releaseStack) ?? "",
  );
}
