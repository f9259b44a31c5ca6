// The recording in the words of `info`, `peak` and `timeline`, and the banner that says what it lacks.

import { byId, make } from "./dom.js";
import { visibleLines } from "./text.js";

export function showBanner(recording) {
  const { info } = recording.head;
  const lacks = info.gaps.map((gap) => make("li", {}, gap));
  if (!info.closed) lacks.push(make("li", {}, "the recording is not closed: it still runs, or the recorder was killed"));
  if (!lacks.length) return;
  byId("banner").replaceChildren(make("strong", {}, "This recording is not complete."), make("ul", {}, ...lacks));
  byId("banner").hidden = false;
}

export function showProblem(text) {
  byId("problem").textContent = text;
  byId("problem").hidden = false;
}

function printed(text) {
  const element = make("pre", { tabindex: "0" });
  element.textContent = visibleLines(text);
  return element;
}

export function showSummary(view) {
  const { head } = view.recording;
  const lines = head.shapes_text.split("\n").filter((line) => line);
  const shapes = lines.map((line, i) => {
    const shape = head.timeline.shapes[i];
    const last = shape.last_event ?? head.events - 1;
    const around = Math.max(2, (last - shape.first_event) * 0.1);
    const show = () => {
      view.setRange(shape.first_event - around, last + around);
      view.setMoment(shape.first_event === last ? last : shape.first_event);
    };
    return make("li", {}, make("button", { type: "button", class: "link line", click: show }, line.trim()));
  });
  byId("summary").replaceChildren(
    make("h2", {}, "Summary"),
    ...(head.oom_text ? [make("h3", {}, "Out of memory"), printed(head.oom_text)] : []),
    make("h3", {}, "The peak"),
    printed(head.peak_text),
    make("h3", {}, shapes.length ? "The shapes in the plot" : "No known shapes in the plot"),
    make("ul", { class: "shapes" }, ...shapes),
    make("h3", {}, "The recording"),
    printed(head.info_text),
  );
}
