// Steps and phases: runs of events that are in one step and one phase.

import { countUpTo } from "./search.js";

export class Runs {
  constructor(first, step, phase, phases) {
    Object.assign(this, { first, step, phase, phases });
    this.steps = []; // { step, first }
    for (let i = 0; i < first.length; i++) if (step[i] && step[i] !== this.steps.at(-1)?.step) this.steps.push({ step: step[i], first: first[i] });
    this.stepFirsts = Float64Array.from(this.steps, (one) => one.first);
  }

  at(event) {
    return Math.max(0, countUpTo(this.first, event) - 1);
  }

  stepAt(event) {
    return this.step.length ? this.step[this.at(event)] : 0;
  }

  phaseAt(event) {
    return this.phase.length ? this.phases[this.phase[this.at(event)]] : "other";
  }

  // "in step 2 (forward)", as the commands say it
  words(event) {
    const step = this.stepAt(event);
    return `${step ? `in step ${step} ` : ""}(${this.phaseAt(event)})`;
  }

  // The same behind the event that it is about: "#7, in step 2 (forward)", "#7 (init)".
  after(event) {
    return `${this.stepAt(event) ? "," : ""} ${this.words(event)}`;
  }

  // The steps whose first events are in [from, to).
  stepsIn(from, to) {
    return this.steps.slice(countUpTo(this.stepFirsts, from - 1e-9), countUpTo(this.stepFirsts, to));
  }
}
