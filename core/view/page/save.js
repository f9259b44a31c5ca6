// What leaves the page: rows as CSV and the plot as a picture, as downloads that the browser makes without a request.

import { make } from "./dom.js";
import { visible } from "./text.js";

function download(blob, name) {
  const address = URL.createObjectURL(blob);
  make("a", { href: address, download: visible(name) }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
}

// As core/export/csv.c has it: what a spreadsheet would take for a formula gets a quote before it.
function field(value) {
  if (typeof value === "number") return String(value);
  const text = visible(value ?? "");
  return `"${/^[=+\-@]/.test(text) ? "'" : ""}${text.replaceAll('"', '""')}"`;
}

// rows: an iterable of arrays of numbers and texts.
export function csv(heads, rows) {
  const parts = [];
  let lines = [heads.join(",")];
  for (const row of rows) {
    lines.push(row.map(field).join(","));
    if (lines.length < 10_000) continue;
    parts.push(`${lines.join("\r\n")}\r\n`);
    lines = [];
  }
  parts.push(lines.length ? `${lines.join("\r\n")}\r\n` : "");
  return parts;
}

export function saveCsv(name, heads, rows) {
  download(new Blob(csv(heads, rows), { type: "text/csv" }), name);
}

// The plot with its title above and its legend below. legend: [{ text, colour }]
export function savePicture(name, plot, title, legend) {
  const { canvas: source, ratio, palette } = plot;
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d");
  const font = `${12 * ratio}px system-ui, sans-serif`;
  context.font = font;
  const gap = 16 * ratio;
  const line = 20 * ratio;
  let x = gap;
  let rows = 1;
  const places = legend.map(({ text }) => {
    const width = context.measureText(text).width + 2 * gap;
    if (x + width > source.width && x > gap) {
      x = gap;
      rows++;
    }
    const place = { x, row: rows - 1 };
    x += width;
    return place;
  });
  canvas.width = source.width;
  canvas.height = source.height + line * (rows + 1.5);
  context.fillStyle = palette.get("surface");
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(source, 0, line);
  context.font = font;
  context.textBaseline = "middle";
  context.fillStyle = palette.get("text");
  context.fillText(title, gap, line / 2, canvas.width - 2 * gap);
  legend.forEach(({ text, colour }, i) => {
    const y = source.height + line * (places[i].row + 1.75);
    context.fillStyle = colour;
    context.fillRect(places[i].x, y - 5 * ratio, 10 * ratio, 10 * ratio);
    context.fillStyle = palette.get("text");
    context.fillText(text, places[i].x + gap, y);
  });
  canvas.toBlob((blob) => download(blob, name), "image/png");
}
