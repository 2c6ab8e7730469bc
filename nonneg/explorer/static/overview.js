// The overview: what features are, one sample as an example, several features and statistics.

import { href, forSet } from "./address.js";
import { askOnce } from "./api.js";
import { dataText, element, figure, percent } from "./build.js";
import { activeShare, curve, frequencies, withChance } from "./charts.js";
import { findsByWords, wordsForm } from "./try.js";
import { bar, blocksOf, count, counted, face, featureLink, keyOf, kind, placesOf, shareOf, strip } from "./pieces.js";

const PARTS = 3;

function lead(overview) {
  const { sets, same_samples: same } = overview;
  const [first, second] = sets;
  const sparsest = sets.reduce((a, b) => (b.active_mean < a.active_mean ? b : a)); // its example is shown for all
  const both = same ? `Two models have encoded the same ${first.kind}.` : "The two sets of features have different samples.";
  const features = second ? `${count(first.features)} and ${counted(second.features, "feature")}` : counted(first.features, "feature");
  const heading = second && !same ? features : `${features} of ${count(first.samples)} ${kind(0, first.samples)}`;
  return element("header", { class: "lead" },
    element("h1", {}, heading),
    element("p", { class: "large" },
      `A feature is a property that a model has discovered. It is active on some ${first.kind} and inactive on the`,
      ` others. Its meaning is what those ${first.kind} have in common.`),
    !second && findsByWords(first) && wordsForm(0, overview),
    second && element("p", {},
      `${both} Compare the rows on the left and on the right: does each row show one kind of thing?`,
      same && reason(sparsest)
        && [` The ${kind(0, 1)} at the top was chosen because few features of `, dataText(sparsest.name), " are active on it."]));
}

/** Why a set's example was chosen, or null if no reason applies. */
function reason({ example, active_mean: mean, has_negative: signed }, share = 0) {
  if (example.parts.length < mean) return "few features are active on it";
  return !signed && share > 0.5 && example.parts.length > PARTS ? "few features make up most of it" : null;
}

/** One sample as the sum of its features. */
function example(set, { sets, same_samples: same }) {
  const { sample, parts } = sets[set].example;
  const most = parts.slice(0, PARTS);
  const share = most.reduce((sum, part) => sum + part.share, 0);
  const number = parts.length === 1 ? "one feature" : counted(parts.length, "feature");
  const why = reason(sets[set], share);
  const shares = parts.length > PARTS ? `, ${PARTS} of which make up ${percent(share)}` : "";
  return element("section", { class: "apart", "aria-label": "Example" },
    element("a", { class: `whole ${sample.has_picture ? "" : "written"}`, href: href(`/sample/${sample.row}`, forSet(set)) },
      face(set, sample, { large: true, lines: 8 })),
    element("div", {},
      element("p", {}, `This ${kind(set, 1)} is the sum of ${number}${shares}.`,
        !same && why && element("span", { class: "soft" }, ` It was chosen because ${why}.`)),
      bar(blocksOf(parts), placesOf(parts.map((part) => part.caption.feature)), 1, `the sum of ${number}`),
      most.map((part, place) => element("div", { class: "part" },
        element("span", { class: keyOf(part, place), "aria-hidden": "true" }),
        element("div", {},
          element("div", { class: "shared" }, shareOf(part), featureLink(set, part.caption)),
          strip(set, part.caption.feature))))));
}

/** Several features. Two sets are compared by samples from strong to weak, since the strongest look alike in any model. */
function selection(set, { sets }, heading) {
  const each = sets[set];
  const many = sets.length > 1;
  const rows = many ? each.spread_features : each.strongest_features;
  const number = each.has_media ? "nine" : "three";
  const all = each.features === 1 ? "Its only feature" : `All ${count(each.features)} features`;
  const order = each.has_negative ? "most positive to most negative" : "strong to weak";
  return element("section", {},
    element(heading, {}, many ? "Some of its features" : "Most active features"),
    many && element("p", { class: "soft" }, `Each row shows ${number} ${each.kind} on which the feature is active, from ${order}.`),
    element("div", { class: "rows" }, rows.map((row) => element("div", { class: "row" },
      element("div", { class: "what" },
        featureLink(set, row, { "data-step": "" }), element("span", { class: "soft" }, `active on ${percent(row.frequency)}`)),
      strip(set, row.feature, 9, many)))),
    element("p", {},
      element("a", { class: "button", href: href("/features", forSet(set)) }, all)));
}

function statistic(value, words, chart) {
  return element("div", { class: "figure" }, element("b", {}, value), element("p", {}, words), chart);
}

function figures(set, { sets }, heading) {
  const each = sets[set];
  const slow = element("div", { class: "figures" });
  // Both sets share one scale, so that their curves can be compared.
  Promise.all(sets.map((_, number) => askOnce(`sets/${number}/figures`))).then((all) => {
    const found = all[set];
    if (found.consistency !== null) {
      const chart = withChance(found.consistency, found.chance);
      slow.append(statistic(percent(found.consistency), "of a feature's active samples have the same label, on average.", chart));
    }
    if (found.sepin.length) {
      const words = "is the information in the best feature that no other feature has (SEPIN@1); higher is better. The curve shows"
        + " SEPIN@k, the mean over the best k features.";
      const top = Math.max(...all.flatMap((other) => other.sepin));
      slow.append(statistic(figure(found.sepin[0]), words, curve(found.sepin_k, found.sepin, top)));
    }
  }, (error) => slow.append(element("p", { class: "trouble" }, error.message)));
  const often = each.dense ? count(each.dense) : "none";
  return element("section", {}, element(heading, {}, "Statistics"),
    element("div", { class: "figures" },
      statistic(`${figure(each.active_mean)} of ${count(each.features)}`,
        `features are active per ${kind(set, 1)} on average. ${counted(each.live, "feature is", "features are")} active on at`
        + ` least one ${kind(set, 1)}, ${often} on more than half of the ${each.kind}.`,
        activeShare(each.active_mean, each.features)),
      statistic(each.dead ? `${count(each.dead)} never active` : "All features are used",
        `Number of features by the share of ${each.kind} they are active on:`,
        frequencies(each.frequency_edges, each.frequency_counts))),
    slow);
}

export async function overviewPage({ overview }) {
  const many = overview.sets.length > 1;
  const heading = many ? "h3" : "h2";
  const columns = overview.sets.map((each, set) => element("article", { class: many ? "side" : "" },
    many && element("h2", {}, element("a", { href: href("/features", forSet(set)) }, dataText(each.name))),
    example(set, overview), selection(set, overview, heading), figures(set, overview, heading)));
  return element("div", {}, lead(overview), element("div", { class: many ? "sides" : "single" }, columns));
}
