// Samples by keyword and label.

import { go, here, href, redraw, forSet } from "./address.js";
import { ask } from "./api.js";
import { announce, dataText, element } from "./build.js";
import { count, counted, examples, kind, setChoice, tiles } from "./pieces.js";

const SHOWN = 48;

/** A choice of a label; `change` receives its name, or an empty string for all. */
export function labelFilter(names, current, change) {
  if (names.length < 2) return null;
  return element("label", { class: "filter" }, "Label ",
    element("select", { "aria-label": "Only samples with this label", onchange: (event) => change(event.target.value) },
      element("option", { value: "" }, "all"),
      names.map((name) => element("option", { value: name, selected: name === current }, name))));
}

export async function samplesPage({ set, overview, parameters }) {
  const [q, label] = [parameters.get("q") || "", parameters.get("label") || ""];
  const address = (changes) => href("/samples", { ...Object.fromEntries(here().parameters), ...changes });
  const query = [["q", q], ["shown", SHOWN], ...(label ? [["label", label]] : [])];
  const found = q || label ? await ask(`sets/${set}/find`, query) : null;
  const words = found && [counted(found.total, kind(set, 1), kind(set)), q && [" with “", dataText(q), "”"], label && [q ? " and" : " with", " the label ", dataText(label)],
    found.total > SHOWN && `; the first ${SHOWN} are shown`, "."];
  if (words) announce(element("p", {}, words).textContent);
  const input = element("input", { type: "search", value: q, placeholder: "A word, an id or a label", "aria-label": `Find ${kind(set)}` });
  return element("section", {},
    element("div", { class: "head" }, element("h1", {}, `Find ${kind(set)}`), setChoice(set, (other) => href("/samples", forSet(other, { q })))),
    element("form", { class: "finding", onsubmit: (event) => {
      event.preventDefault();
      go(address({ q: input.value.trim() }));
    } }, input, labelFilter(overview.sets[set].label_names, label, (value) => {
      go(address({ label: value }), { quiet: true });
      redraw();
    }), element("button", { type: "submit", class: "main" }, "Find")),
    found
      ? [element("p", { class: "clamped" }, words, " ", found.total > 0 && element("a", { href: href("/map", forSet(set, { q, label })) }, "Show on the map")),
        tiles(set, found.samples, { size: "nine", lines: 4 })]
      : [element("p", { class: "soft" }, `Type a word that the ${kind(set)} contain, or choose a label. There are ${count(overview.sets[set].samples)} ${kind(set)}.`),
        examples(set, "Or start from one of these features:")]);
}
