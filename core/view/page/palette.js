// Colours: the profiler's of PyTorch where users know them (parameters green, gradients blue, activations red, …). Neighbours
// in the stack differ in lightness too, so that they stay apart for colour-blind readers. The themes are in style.css.

// From the bottom of the plot up: what stays, then what comes and goes.
export const ORDER = [
  "parameter",
  "buffer",
  "optimizer_state",
  "kv_cache",
  "gradient",
  "input",
  "activation",
  "communication",
  "workspace",
  "temporary",
  "unknown",
  "rest",
];

export const WORDS = { rest: "from before the recording" };

export function words(category) {
  return WORDS[category] ?? category.replaceAll("_", " ");
}

export class Palette {
  constructor() {
    this.read();
  }

  // After a change of the theme.
  read() {
    const style = getComputedStyle(document.documentElement);
    this.colour = (name) => style.getPropertyValue(`--${name}`).trim();
    this.cache = new Map();
  }

  get(name) {
    if (!this.cache.has(name)) this.cache.set(name, this.colour(name));
    return this.cache.get(name);
  }

  category(name) {
    return this.get(`category-${name.replaceAll("_", "-")}`) || this.get("category-unknown");
  }

  phase(name) {
    return this.get(`phase-${name.replaceAll("_", "-")}`) || this.get("phase-other");
  }
}
