// A tour of four steps, shown at the first visit and again from the footer.

import { element } from "./build.js";
import { recall, remember } from "./storage.js";

const SEEN = "explorer-tour";
const STEPS = [
  ["A feature is one property", "It is active on some samples and inactive on all others. Its name, if it has one, says what those samples have in common."],
  ["Search for anything", "Type into the box at the top: it finds features by their names and samples by their words."],
  ["Open a sample", "A sample is the sum of a few features. Clear a checkbox to see what changes without that feature."],
  ["Look at everything at once", "The map shows all samples. Colour it by a feature or a label, and select a region with the lasso."],
];

/** Show the tour. */
export function showTour() {
  document.querySelector(".tour")?.remove();
  let step = 0;
  const before = document.activeElement;
  const close = () => {
    remember(SEEN, "seen");
    box.remove();
    before.focus();
  };
  const box = element("section", { class: "tour", role: "dialog", "aria-label": "Tour", onkeydown: (event) => event.key === "Escape" && close() });
  function draw() {
    const [heading, words] = STEPS[step];
    const last = step === STEPS.length - 1;
    box.replaceChildren(
      element("p", { class: "soft" }, `Step ${step + 1} of ${STEPS.length}`), element("h2", {}, heading), element("p", {}, words),
      element("div", { class: "buttons" },
        element("button", { type: "button", class: "main", onclick: () => {
          if (last) close();
          else {
            step += 1;
            draw();
          }
        } }, last ? "Done" : "Next"),
        !last && element("button", { type: "button", onclick: close }, "Skip the tour")));
    box.querySelector("button").focus();
  }
  document.body.append(box);
  draw();
}

/** Show the tour unless it was seen before. */
export function firstVisit() {
  if (recall(SEEN) === null) showTour(); // without storage, nobody can say whether this is the first visit
}
