// One feature: its samples, its strength, its labels and related features.

import { href, forSet } from "./address.js";
import { ask } from "./api.js";
import { dataText, element, figure, percent } from "./build.js";
import { activation } from "./charts.js";
import { DEFAULT_SIMILARITY } from "./compare.js";
import { markTiles } from "./marks.js";
import { naming } from "./naming.js";
import { count, featureLink, hasFeaturePage, kind, setChoice, strip, tiles, title, titleTab } from "./pieces.js";

function section(heading, words, ...children) {
  return element("section", {}, element("h2", {}, heading), words && element("p", { class: "soft" }, words), ...children);
}

/** Return the feature's title and a function that updates it. */
function titleOf(row) {
  const heading = element("h1");
  const number = element("p", { class: "soft over" });
  const update = (caption) => {
    const words = title(caption);
    // Names are shown exactly as people wrote them.
    heading.replaceChildren(dataText(caption.name ? words : words[0].toUpperCase() + words.slice(1)));
    number.textContent = caption.name || caption.hint ? `Feature ${caption.feature}` : "";
  };
  update(row);
  return [element("div", {}, number, heading), update];
}

/** The title of a band of a signed feature, whose largest values may be negative. */
function signedTitle({ low, high }, place, bands) {
  if (place === 0) return high > 0 ? "most positive" : "least negative";
  if (place === bands.length - 1) return low < 0 ? "most negative" : "least positive";
  if (low >= 0) return "positive";
  return high <= 0 ? "negative" : "around zero";
}

/** A sentence about the most common label of the active samples. */
function mostCommonLabel({ row, labelled = row.active }) {
  const label = [dataText(row.label, { class: "name" }), "."];
  if (labelled === row.active) return [`${percent(row.consistency)} of them have the label `, label];
  return labelled === 1
    ? ["The only labelled one has the label ", label]
    : [`Of the ${count(labelled)} labelled ones, ${percent(row.consistency)} have the label `, label];
}

function band(set, words, { low, high, samples }, few) {
  const some = few ? [0, 4, 8].map((place) => samples[place]).filter(Boolean) : samples;
  return element("div", { class: "band" },
    element("p", { class: "soft" },
      element("span", {}, words), " ", element("span", {}, `${figure(low)} to ${figure(high)}`)),
    tiles(set, some, { size: "nine", lines: 2 }));
}

/** Bars for the shares of active samples, each with a line for the share of all samples. */
function shares(heading, words, found) {
  if (!found.length) return null;
  const most = Math.max(...found.map((each) => Math.max(each.share, each.overall)));
  const width = (share) => `${(100 * share) / most}%`;
  return section(heading, words,
    element("div", { class: "labels" }, found.map((each) => element("div", { class: "labelled" },
      dataText(each.label ?? each.term, { title: each.label ?? each.term }),
      element("span", { class: "track", role: "img", "aria-label": `share of all samples ${percent(each.overall)}` },
        element("i", { style: { width: width(each.share) } }), element("b", { style: { left: width(each.overall) } })),
      element("span", { class: "number" }, percent(each.share))))));
}

function labels({ labels: found }) {
  return shares("Labels", "Bar: the label's share of the active samples; line: its share of all.", found);
}

function terms(set, { title: name, terms: found }) {
  const words = `What is more common where the feature is active. Bar: share of active ${kind(set)}; line: share of all.`;
  return shares(name[0].toUpperCase() + name.slice(1), words, found);
}

function related(set, heading, words, relations) {
  if (!relations.length) return null;
  return section(heading, words, element("div", { class: "rows" }, relations.map((each) => element("div", { class: "row" },
    element("div", { class: "what" },
      featureLink(set, each.other, { "data-step": "" }),
      element("span", { class: "soft" }, `both active: ${percent(each.co_activation)}`)),
    strip(set, each.other.feature, 6)))));
}

/** The address of the same feature in the other set if it is known, or else of the list of its features. */
function counterpart(partner, other) {
  const isSame = partner && partner.cosine >= DEFAULT_SIMILARITY && hasFeaturePage(other, partner.feature);
  return href(isSame ? `/feature/${partner.feature}` : "/features", forSet(other));
}

export async function featurePage({ set, overview, number }) {
  const page = await ask(`sets/${set}/feature/${number}`);
  const { row } = page;
  const each = overview.sets[set];
  const few = !each.has_media; // texts take more space and time to read
  const live = row.active > 0;
  const signed = each.has_negative;
  const [heading, update] = titleOf(row);
  const step = (to, text, rel) => !each.omitted_features && to >= 0 && to < each.features
    && element("a", { class: "button", rel, href: href(`/feature/${to}`, forSet(set)) }, text);
  const search = href("/compose", forSet(set, { f: `${number}:1` }));

  return element("article", { class: "feature" },
    element("div", { class: "head" }, heading,
      element("nav", { class: "buttons", "aria-label": "Other features" },
        step(number - 1, "Previous", "prev"), step(number + 1, "Next", "next"))),
    setChoice(set, (other) => (other === set ? href(`/feature/${number}`, forSet(set)) : counterpart(page.partner, other))),
    element("div", { class: "split" },
      element("div", {},
        element("p", { class: "large" }, live
          ? `Active on ${count(row.active)} of ${count(each.samples)} ${kind(set)}.`
          : `Not active on any of the ${count(each.samples)} ${kind(set)}.`),
        row.label !== null && element("p", { class: "clamped" },
          mostCommonLabel(page)),
        typeof row.agreement === "number" && element("p", {
          title: "The chance that a sample whose partner has this feature has a larger value than one whose partner lacks it. 50% is chance.",
        }, `The two sides of the pairs agree on it in ${percent(row.agreement)} of comparisons`,
        row.agreement >= 0.8 ? ": trustworthy." : row.agreement >= 0.65 ? ": fair." : ": do not rely on it."),
        live && page.figures.map((one) => element("p", {},
          `${one.title[0].toUpperCase()}${one.title.slice(1)}: ${percent(one.value)} (chance: ${percent(one.chance)}).`)),
        live && each.searchable !== false
          && element("p", {}, element("a", { class: "button main", href: search }, "Search with this feature"))),
      naming(set, page, each.can_name && live, (caption) => {
        update(caption);
        titleTab();
      })),
    live && section(signed ? "Most positive" : "Strongest", null, 
      markTiles(set, number, tiles(set, page.strongest.slice(0, few ? 9 : 18), { size: "rows" }))),
    live && section(signed ? "From most positive to most negative" : "From strong to weak",
      `The ${signed ? "most positive" : "strongest"} ${kind(set)} alone can mislead; these are from each quarter of the active ones.`,
      page.bands.map((some, place) => band(set, signed ? signedTitle(some, place, page.bands) : some.title, some, few))),
    page.near_misses.length > 0 && section("Near misses", `Similar to the ${kind(set)} above, but the feature is inactive.`,
      tiles(set, page.near_misses.slice(0, few ? 6 : 9), { size: "nine", lines: 3 })),
    live && element("div", { class: "sides plain" },
      element("div", {}, section("Activation", null, activation(page.histogram, each.samples)),
        page.terms.length > 0 && labels(page)),
      page.terms.length ? element("div", {}, page.terms.map((some) => terms(set, some))) : labels(page)),
    element("div", { class: "sides plain" },
      related(set, "Active together with", `Features that are active on the same ${kind(set)}.`, page.co_active),
      related(set, "Similar features", `Features that occur with the same other features, possibly on other ${kind(set)}.`, page.similar)));
}
