// Text for people: sizes as the commands write them, and names in which nothing acts.

const UNITS = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];

export function size(bytes) {
  let value = Math.abs(bytes);
  if (value < 1024) return `${bytes} B`;
  value /= 1024;
  let unit = 0;
  for (; value >= 1023.995 && unit + 1 < UNITS.length; unit++) value /= 1024;
  return `${bytes < 0 ? "-" : ""}${value.toFixed(2)} ${UNITS[unit]}`;
}

export function grouped(number) {
  return String(number).replace(/\B(?=(\d{3})+$)/g, ",");
}

// Controls, what turns the direction of text or cannot be seen, and ends of lines are shown as escapes: as core/base/visible.c.
const HIDDEN =
  "\\x7f-\\x9f\\u00ad\\u061c\\u180e\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ud800-\\udfff\\ufeff\\ufff9-\\ufffb" +
  "\\u{1bca0}-\\u{1bca3}\\u{1d173}-\\u{1d17a}\\u{e0000}-\\u{e007f}";
const ACTS = new RegExp(`[\\0-\\x1f${HIDDEN}]`, "gu");
const LINES = new RegExp(`[\\0-\\x09\\x0b-\\x1f${HIDDEN}]`, "gu");

function escaped(character) {
  const code = character.codePointAt(0);
  return code < 0x10000 ? `\\u${code.toString(16).padStart(4, "0")}` : `\\U${code.toString(16).padStart(8, "0")}`;
}

export function visible(text) {
  return String(text).replace(ACTS, escaped);
}

// The same of text with lines of ours.
export function visibleLines(text) {
  return String(text).replace(LINES, escaped);
}

export function plural(count, word, several = `${word}s`) {
  return `${grouped(count)} ${count === 1 ? word : several}`;
}

// A word of a command line, as a shell reads it back.
export function shellWord(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

// "a/b/train.py:7 in train" without the folders.
export function shortSite(site) {
  return site.replace(/(^|[\s←])[^\s:]*\/([^/\s:]+:\d+)/g, "$1$2");
}
