// Two sets of features, matched: what stayed, what was lost, what is new.

import { go, here, href, redraw } from "./address.js";
import { askOnce } from "./api.js";
import { element, figure, said } from "./build.js";
import { count, featureLink, pageNumber, pager, strip } from "./pieces.js";

const PAGE = 12;
const USUAL = 0.5; // cosine from which two features are one

function half(set, row) {
  return element("div", { class: "half" }, featureLink(set, row, { "data-step": "" }), strip(set, row.feature, 6));
}

/** Pairs that are alike enough, and the features of either side that are left without a partner. */
function sortedOut(pairs, least) {
  const alike = (pair) => pair.first && pair.second && pair.cosine >= least;
  const strongest = (side) => pairs.filter((pair) => !alike(pair) && pair[side]).map((pair) => pair[side])
    .sort((a, b) => b.expected_activation - a.expected_activation);
  return { stayed: pairs.filter(alike), lost: strongest("first"), gained: strongest("second") };
}

export async function comparePage({ overview, parameters }) {
  const found = await askOnce("comparison");
  const level = parseFloat(parameters.get("least"));
  const least = Number.isFinite(level) ? Math.min(1, Math.max(0, level)) : USUAL;
  const [first, second] = overview.sets;
  const groups = sortedOut(found.pairs, least);
  const views = {
    stayed: ["Stayed", `In both, with a cosine of ${figure(least)} or more.`, (pair) => element("div", { class: "pair" },
      half(0, pair.first), element("span", { class: "number" }, figure(pair.cosine)), half(1, pair.second))],
    lost: ["Lost", ["Only in ", said(first.name), "."], (row) => element("div", { class: "pair one" }, half(0, row))],
    gained: ["Gained", ["Only in ", said(second.name), "."], (row) => element("div", { class: "pair one" }, half(1, row))],
  };
  const asked = parameters.get("show");
  const show = asked !== null && Object.hasOwn(views, asked) ? asked : groups.stayed.length ? "stayed" : "gained";
  const [, words, draw] = views[show];
  const pages = Math.ceil(groups[show].length / PAGE);
  const page = pageNumber(parameters, pages);
  const address = (changes) => href("/compare", { ...Object.fromEntries(here().parameters), ...changes });

  return element("section", {},
    element("h1", {}, said(first.name), " and ", said(second.name)),
    element("p", {},
      `Each feature of one is matched with the feature of the other that lights up on the same ${first.kind}. On average`,
      ` they agree to ${figure(found.agreement)} (cosine); with shuffled ${first.kind} it would be ${figure(found.chance)}.`),
    element("label", { class: "level" }, "Alike from ",
      element("input", { type: "range", min: 0.1, max: 0.95, step: 0.05, value: least, "aria-label": "Alike from",
        onchange: (event) => {
          go(address({ least: event.target.value, page: "" }), { replace: true, quiet: true });
          redraw();
        } }),
      element("output", {}, figure(least))),
    element("nav", { class: "choice", "aria-label": "what became of features" }, Object.entries(views).map(([key, [text]]) =>
      element("a", { href: address({ show: key, page: "" }), "aria-current": key === show ? "true" : null },
        `${text} ${count(groups[key].length)}`))),
    element("p", { class: "soft" }, words),
    groups[show].length
      ? element("div", { class: `pairs ${show}` }, groups[show].slice((page - 1) * PAGE, page * PAGE).map(draw))
      : element("p", {}, "None."),
    pager(page, pages, address));
}
