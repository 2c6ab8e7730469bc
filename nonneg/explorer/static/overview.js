// The first page: what features are, shown on one sample, then several features, then figures.

import { href, of } from "./address.js";
import { askOnce } from "./api.js";
import { element, figure, percent, said } from "./build.js";
import { against, curve, onAndOff, spread } from "./charts.js";
import { bar, blocksOf, count, counted, face, featureLink, keyOf, kind, placesOf, shareOf, strip } from "./pieces.js";

const PARTS = 3;

function lead({ sets, same_samples: same }) {
  const [first, second] = sets;
  const why = same && sets.map((each) => reason(each)).find(Boolean);
  const both = same ? `Two models looked at the same ${first.kind}.` : "Two sets of features, of different samples.";
  const heading = second
    ? [said(first.name), " beside ", said(second.name)]
    : `${counted(first.features, "feature")} of ${count(first.samples)} ${kind(0, first.samples)}`;
  const unaided = first.labels ? "; nobody told the model" : "";
  return element("header", { class: "lead" },
    element("h1", {}, heading),
    element("p", { class: "large" },
      `A feature is something a model has noticed by itself. It lights up on some ${first.kind} and stays off on the`,
      ` others. What those ${first.kind} have in common is what it means${unaided}.`),
    second && element("p", {},
      `${both} Compare a row of the one with a row of the other: does it show one kind of thing?`,
      // Said once for both, where both show the same one.
      why && ` The ${kind(0, 1)} at the top is chosen because ${why}.`));
}

/** Why a set's example is one: what is true of it is said, and nothing otherwise. */
function reason({ example, active_mean: usual, has_negative: signed }, share = 0) {
  if (example.parts.length < usual) return "few features are on for it";
  return !signed && share > 0.5 && example.parts.length > PARTS ? "few features make up most of it" : null;
}

/** One sample as the sum of its features. */
function apart(set, { sets, same_samples: same }) {
  const { sample, parts } = sets[set].example;
  const most = parts.slice(0, PARTS);
  const share = most.reduce((sum, part) => sum + part.share, 0);
  const number = parts.length === 1 ? "one feature" : `${parts.length} features`;
  const why = reason(sets[set], share);
  const shares = parts.length > PARTS ? `, ${PARTS} of which make up ${percent(share)}` : "";
  return element("section", { class: "apart", "aria-label": "an example" },
    element("a", { class: `whole ${sample.has_picture ? "" : "written"}`, href: href(`/sample/${sample.row}`, of(set)) },
      face(set, sample, { large: true, lines: 8 })),
    element("div", {},
      element("p", {}, `This ${kind(set, 1)} is the sum of ${number}${shares}.`,
        !same && why && element("span", { class: "soft" }, ` This one is chosen because ${why}.`)),
      bar(blocksOf(parts), placesOf(parts.map((part) => part.caption.feature)), 1, `the sum of ${number}`),
      most.map((part, place) => element("div", { class: "part" },
        element("span", { class: keyOf(part, place), "aria-hidden": "true" }),
        element("div", {},
          element("div", { class: "shared" }, shareOf(part), featureLink(set, part.caption)),
          strip(set, part.caption.feature))))));
}

/** Several features. Side by side, not their best samples but all kinds: the best are alike in any model. */
function some(set, { sets }, heading) {
  const each = sets[set];
  const many = sets.length > 1;
  const rows = many ? each.usual_features : each.strongest_features;
  const number = each.kind === "images" ? "nine" : "three";
  const all = each.features === 1 ? "Its one feature" : `All ${count(each.features)} features`;
  const order = each.has_negative ? "most positive to most negative" : "strong to faint";
  return element("section", {},
    element(heading, {}, many ? "Some of its features" : "The features that are used most"),
    many && element("p", { class: "soft" }, `Each by ${number} ${each.kind} it is on for, from ${order}.`),
    element("div", { class: "rows" }, rows.map((row) => element("div", { class: "row" },
      element("div", { class: "what" },
        featureLink(set, row, { "data-step": "" }), element("span", { class: "soft" }, `on for ${percent(row.frequency)}`)),
      strip(set, row.feature, 9, many)))),
    element("p", {},
      element("a", { class: "button", href: href("/features", of(set)) }, all)));
}

function told(value, words, drawing) {
  return element("div", { class: "figure" }, element("b", {}, value), element("p", {}, words), drawing);
}

function figures(set, { sets }, heading) {
  const each = sets[set];
  const slow = element("div", { class: "figures" });
  // One scale for both sets: curves are there to be compared.
  Promise.all(sets.map((_, number) => askOnce(`sets/${number}/figures`))).then((all) => {
    const found = all[set];
    if (found.consistency !== null) {
      const drawing = against(found.consistency, found.chance);
      slow.append(told(percent(found.consistency), "of what a feature lights up on has the same label, on average.", drawing));
    }
    if (found.alone.length) {
      const words = "is how much the best feature tells that no other does (SEPIN); higher is better. The curve is the"
        + " mean over more and more features.";
      const most = Math.max(...all.flatMap((other) => other.alone));
      slow.append(told(figure(found.alone[0]), words, curve(found.alone_k, found.alone, most)));
    }
  }, () => {});
  const often = each.dense ? count(each.dense) : "none";
  return element("section", {}, element(heading, {}, "In figures"),
    element("div", { class: "figures" },
      told(`${figure(each.active_mean)} of ${count(each.features)}`,
        `features are on for one ${kind(set, 1)}. ${counted(each.live, "is", "are")} used at all, ${often} on more than half of the`
        + ` ${each.kind}.`,
        onAndOff(each.active_mean, each.features)),
      told(each.dead ? `${count(each.dead)} never on` : "None is idle",
        `How many features are on for which share of the ${each.kind}:`,
        spread(each.spread_edges, each.spread))),
    slow);
}

export async function overviewPage({ overview }) {
  const many = overview.sets.length > 1;
  const heading = many ? "h3" : "h2";
  const columns = overview.sets.map((each, set) => element("article", { class: many ? "side" : "" },
    many && element("h2", {}, element("a", { href: href("/features", of(set)) }, said(each.name))),
    apart(set, overview), some(set, overview, heading), figures(set, overview, heading)));
  return element("div", {}, lead(overview), element("div", { class: many ? "sides" : "single" }, columns));
}
