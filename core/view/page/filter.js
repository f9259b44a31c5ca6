// The filter: what is typed becomes a condition, and a condition selects blocks. A search without a comparison ("train.py:31",
// "64MiB", "0x7f20", "conv") is written as a condition too, so that `gpumem blocks --where` answers the same.

import { parseCondition } from "./condition.js";
import { compileCondition } from "./judge.js";
import { TRUE, UNKNOWN } from "./truth.js";

const CONTAINED_IN = ["name", "function", "line", "operator", "node", "label", "dtype", "category", "phase"];

function quoted(word) {
  if (/^[^\s()'"]+$/.test(word)) return word;
  return word.includes("'") ? `"${word.replaceAll('"', "")}"` : `'${word}'`;
}

// A size as it is shown has two digits behind the point: all sizes that are shown so.
function sizeCondition(number, unit) {
  if (!/\./.test(number)) return `size=${number}${unit}`;
  const digits = number.split(".")[1].length;
  const edge = (half) => `${(Number(number) + half * 10 ** -digits).toFixed(digits + 1)}${unit}`;
  return `(size>=${edge(-0.5)} and size<${edge(0.5)})`;
}

function wordCondition(word) {
  if (/^0x[0-9a-f]+$/i.test(word)) return `address=${word}`;
  const size = /^(\d+(?:\.\d+)?)([KMGT]i?B|B)$/i.exec(word);
  if (size) return sizeCondition(size[1], size[2]);
  if (/:[1-9]\d*$/.test(word)) return `line=${quoted(word)}`;
  const facts = CONTAINED_IN.filter((fact) => fact !== "line" || !word.includes(":"));
  return `(${facts.map((fact) => `${fact}~${quoted(word)}`).join(" or ")})`;
}

export function asCondition(text) {
  const searched = text.trim();
  if (/[=<>~]/.test(searched) || (/^(not\b|\()/.test(searched) && !/^\([\d*., ]*\)$/.test(searched))) return searched;
  if (/^[[(][\d*., ]*[\])]$/.test(searched)) return `shape=${searched}`;
  const joined = searched.replace(/(\d) (?=[KMGT]i?B\b|B\b)/gi, "$1");
  return joined.split(/\s+/).filter(Boolean).map(wordCondition).join(" and ");
}

// A function that says of a block TRUE, FALSE or UNKNOWN, null: all are meant. Throws a ConditionError.
export async function filterOf(condition, recording) {
  return condition ? compileCondition(parseCondition(condition, recording.head.facts), recording) : null;
}

// The blocks of a moment (null: of the whole recording) of which a filter holds, with sums as `blocks --where` has them.
export function selectBlocks(recording, moment, holds) {
  const { device } = recording;
  const found = { blocks: [], bytes: 0, unknownBytes: 0, unknownBlocks: 0, allBytes: 0, allBlocks: 0 };
  const take = (block) => {
    const size = device.size[block];
    found.allBytes += size;
    found.allBlocks++;
    const is = holds ? holds(block) : TRUE;
    if (is === TRUE) {
      found.blocks.push(block);
      found.bytes += size;
    } else if (is === UNKNOWN) {
      found.unknownBytes += size;
      found.unknownBlocks++;
    }
  };
  if (moment === null) for (let block = 0; block < device.alloc.length; block++) take(block);
  else device.eachLive(moment, take);
  const rest = moment === null ? 0 : device.changeAt(device.rest, moment);
  found.allBytes += rest;
  found.unknownBytes += holds ? rest : 0;
  return found;
}

// [{ site, bytes, blocks }]
export function bySite(device, blocks) {
  const sites = new Map();
  for (const block of blocks) {
    const site = sites.get(device.site[block]) ?? { site: device.site[block], bytes: 0, blocks: 0 };
    site.bytes += device.size[block];
    site.blocks++;
    sites.set(site.site, site);
  }
  return [...sites.values()];
}
