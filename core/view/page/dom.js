// Elements of the page. What a recording says becomes text and never markup: this is the one place that makes elements.

import { visible } from "./text.js";

// make("td", { class: "number" }, "text", element, …)
export function make(name, attributes, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) {
    if (key === "click") element.addEventListener("click", value);
    else if (value === true) element.setAttribute(key, "");
    else if (value !== false && value !== null) element.setAttribute(key, value);
  }
  for (const child of children) if (child !== null) element.append(typeof child === "object" ? child : visible(child));
  return element;
}

export function swatch(colour) {
  const element = make("span", { class: "swatch", "aria-hidden": "true" });
  element.style.background = colour;
  return element;
}

export function table(caption, heads, rows) {
  return make(
    "table",
    {},
    make("caption", {}, caption),
    make("thead", {}, make("tr", {}, ...heads.map(([text, kind]) => make("th", { scope: "col", class: kind }, text)))),
    make("tbody", {}, ...rows.map((cells) => make("tr", {}, ...cells.map((cell, i) => make("td", { class: heads[i][1] }, cell))))),
  );
}

export const byId = (id) => document.getElementById(id);
