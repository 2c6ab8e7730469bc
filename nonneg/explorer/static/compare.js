// Two matched sets of features: common features, and features of only one set.

import { go, here, href, redraw } from "./address.js";
import { askOnce } from "./api.js";
import { dataText, element, figure } from "./build.js";
import { count, featureLink, pageNumber, pager, strip } from "./pieces.js";

const PAGE = 12;
export const DEFAULT_SIMILARITY = 0.5; // minimum cosine of matching features

function side(set, row) {
  return element("div", { class: "half" }, featureLink(set, row, { "data-step": "" }), strip(set, row.feature, 6));
}

/** Split pairs into similar ones and the features of either set without a similar partner. */
function split(pairs, minimum) {
  const isSimilar = (pair) => pair.first && pair.second && pair.cosine >= minimum;
  const unmatched = (set) => pairs.filter((pair) => !isSimilar(pair) && pair[set]).map((pair) => pair[set])
    .sort((a, b) => b.expected_activation - a.expected_activation);
  return { both: pairs.filter(isSimilar), first: unmatched("first"), second: unmatched("second") };
}

export async function comparePage({ overview, parameters }) {
  const found = await askOnce("comparison");
  const level = parseFloat(parameters.get("similarity"));
  const minimum = Number.isFinite(level) ? Math.min(1, Math.max(0, level)) : DEFAULT_SIMILARITY;
  const [first, second] = overview.sets;
  const groups = split(found.pairs, minimum);
  const views = {
    both: ["Matched", `Pairs with a cosine of at least ${figure(minimum)}.`, (pair) => element("div", { class: "pair" },
      side(0, pair.first), element("span", { class: "number" }, figure(pair.cosine)), side(1, pair.second))],
    first: [["Only in ", dataText(first.name)], ["Features of ", dataText(first.name), " without a match in ", dataText(second.name), "."], (row) => element("div", { class: "pair one" }, side(0, row))],
    second: [["Only in ", dataText(second.name)], ["Features of ", dataText(second.name), " without a match in ", dataText(first.name), "."], (row) => element("div", { class: "pair one" }, side(1, row))],
  };
  const requested = parameters.get("show");
  const show = requested !== null && Object.hasOwn(views, requested) ? requested : groups.both.length ? "both" : "second";
  const [, words, draw] = views[show];
  const pages = Math.ceil(groups[show].length / PAGE);
  const page = pageNumber(parameters, pages);
  const address = (changes) => href("/compare", { ...Object.fromEntries(here().parameters), ...changes });

  const shown = element("output", {}, figure(minimum));
  return element("section", {},
    element("h1", {}, dataText(first.name), " and ", dataText(second.name)),
    element("p", {},
      `Each feature of one set is matched with the feature of the other set that is active on the same ${first.kind}.`,
      ` The mean cosine of the pairs is ${figure(found.agreement)}; with shuffled ${first.kind} it would be ${figure(found.chance)}.`),
    element("label", { class: "level" }, "Minimum similarity ",
      element("input", { type: "range", min: 0.1, max: 0.95, step: 0.05, value: minimum, "aria-label": "Minimum similarity",
        oninput: (event) => { shown.textContent = figure(Number(event.target.value)); },
        onchange: (event) => {
          go(address({ similarity: event.target.value, page: "" }), { replace: true, quiet: true });
          redraw();
        } }),
      shown),
    element("nav", { class: "choice", "aria-label": "Matched and unmatched features" }, Object.entries(views).map(([key, [text]]) =>
      element("a", { href: address({ show: key, page: "" }), "aria-current": key === show ? "true" : null },
        text, ` ${count(groups[key].length)}`))),
    element("p", { class: "soft" }, words),
    groups[show].length
      ? element("div", { class: `pairs ${show}` }, groups[show].slice((page - 1) * PAGE, page * PAGE).map(draw))
      : element("p", {}, "None."),
    pager(page, pages, address));
}
