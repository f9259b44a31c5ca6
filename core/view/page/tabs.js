// Views of the moment, of which one is shown: a list of tabs, by mouse and by arrows.

import { byId } from "./dom.js";

export class Tabs {
  // shows: { name: function that shows the view }; #tab-NAME and #view-NAME are the page's elements
  constructor(shows) {
    this.shows = shows;
    this.names = Object.keys(shows);
    this.chosen = this.names[0];
    this.names.forEach((name, i) => {
      const tab = byId(`tab-${name}`);
      tab.addEventListener("click", () => this.choose(name));
      tab.addEventListener("keydown", (event) => {
        const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
        if (!by) return;
        event.preventDefault();
        const other = this.names[(i + by + this.names.length) % this.names.length];
        this.choose(other);
        byId(`tab-${other}`).focus();
      });
    });
  }

  choose(name) {
    if (!this.shows[name]) return;
    this.chosen = name;
    for (const one of this.names) {
      byId(`tab-${one}`).setAttribute("aria-selected", String(one === name));
      byId(`tab-${one}`).tabIndex = one === name ? 0 : -1;
      byId(`view-${one}`).hidden = one !== name;
    }
    this.show();
  }

  // Again, of what is chosen now.
  show() {
    return this.shows[this.chosen]();
  }
}
