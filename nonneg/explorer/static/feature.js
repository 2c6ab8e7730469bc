// One feature: what it lights up on, how strongly, beside what.

import { href, of } from "./address.js";
import { ask } from "./api.js";
import { element, figure, percent, said } from "./build.js";
import { activation } from "./charts.js";
import { naming } from "./naming.js";
import { count, featureLink, kind, setChoice, strip, tiles, title } from "./pieces.js";

function section(heading, words, ...children) {
  return element("section", {}, element("h2", {}, heading), words && element("p", { class: "soft" }, words), ...children);
}

/** The feature's title, and a function that changes it. */
function called(row) {
  const heading = element("h1");
  const over = element("p", { class: "soft over" });
  const call = (caption) => {
    const words = title(caption);
    // What people wrote stays as they wrote it.
    heading.replaceChildren(said(caption.name ? words : words[0].toUpperCase() + words.slice(1)));
    over.textContent = caption.name || caption.hint ? `Feature ${caption.feature}` : "";
  };
  call(row);
  return [element("div", {}, over, heading), call];
}

/** What a band of a feature with signs is called: the strongest of it may be below zero. */
function side({ low, high }, place, bands) {
  if (place === 0) return high > 0 ? "most positive" : "least negative";
  if (place === bands.length - 1) return low < 0 ? "most negative" : "least positive";
  if (low >= 0) return "positive";
  return high <= 0 ? "negative" : "around zero";
}

/** How many of the samples it is on for have its commonest label. */
function commonest({ row, labelled = row.active }) {
  const label = [said(row.label, { class: "name" }), "."];
  if (labelled === row.active) return [`${percent(row.consistency)} of them are labelled `, label];
  return labelled === 1
    ? ["The only one with a label is ", label]
    : [`Of the ${count(labelled)} with a label, ${percent(row.consistency)} are `, label];
}

function band(set, words, { low, high, samples }, few) {
  const some = few ? [0, 4, 8].map((place) => samples[place]).filter(Boolean) : samples;
  return element("div", { class: "band" },
    element("p", { class: "soft" },
      element("span", {}, words), " ", element("span", {}, `${figure(low)} to ${figure(high)}`)),
    tiles(set, some, { size: "nine", lines: 2 }));
}

function labels({ labels: found }) {
  if (!found.length) return null;
  const most = Math.max(...found.map((each) => Math.max(each.share, each.everywhere)));
  const width = (share) => `${(100 * share) / most}%`;
  return section("Labels", "Of what it is on for; the line marks a label's share of everything.",
    element("div", { class: "labels" }, found.map((each) => element("div", { class: "labelled" },
      said(each.label, { title: each.label }),
      element("span", { class: "track", role: "img", "aria-label": `everywhere ${percent(each.everywhere)}` },
        element("i", { style: { width: width(each.share) } }), element("b", { style: { left: width(each.everywhere) } })),
      element("span", { class: "number" }, percent(each.share))))));
}

function related(set, heading, words, relations) {
  if (!relations.length) return null;
  return section(heading, words, element("div", { class: "rows" }, relations.map((each) => element("div", { class: "row" },
    element("div", { class: "what" },
      featureLink(set, each.other, { "data-step": "" }),
      element("span", { class: "soft" }, `both on: ${percent(each.together)}`)),
    strip(set, each.other.feature, 6)))));
}

export async function featurePage({ set, overview, number }) {
  const page = await ask(`sets/${set}/feature/${number}`);
  const { row } = page;
  const each = overview.sets[set];
  const few = each.kind !== "images"; // texts take more room, and more time to read
  const live = row.active > 0;
  const signed = each.has_negative;
  const [heading, call] = called(row);
  const step = (to, text, rel) => !each.left_out && to >= 0 && to < each.features
    && element("a", { class: "button", rel, href: href(`/feature/${to}`, of(set)) }, text);
  const search = href("/compose", of(set, { f: `${number}:1` }));

  return element("article", { class: "feature" },
    element("div", { class: "head" }, heading,
      element("nav", { class: "buttons", "aria-label": "other features" },
        step(number - 1, "Before", "prev"), step(number + 1, "Next", "next"))),
    setChoice(set, (other) => href(`/feature/${number}`, of(other))),
    element("div", { class: "split" },
      element("div", {},
        element("p", { class: "large" }, live
          ? `On for ${count(row.active)} of ${count(each.samples)} ${kind(set)}.`
          : `Never on for any of the ${count(each.samples)} ${kind(set)}.`),
        row.label !== null && element("p", { class: "clamped" },
          commonest(page)),
        live && each.searchable !== false
          && element("p", {}, element("a", { class: "button main", href: search }, "Search with this"))),
      naming(set, page, each.can_name && live, call)),
    live && section(signed ? "Most positive" : "Strongest", null, tiles(set, page.strongest.slice(0, few ? 9 : 18), { size: "rows" })),
    live && section(signed ? "From most positive to most negative" : "From strong to faint",
      `The ${signed ? "most positive" : "strongest"} alone can mislead: here are some of every quarter.`,
      page.bands.map((some, place) => band(set, signed ? side(some, place, page.bands) : some.title, some, few))),
    page.near_misses.length > 0 && section("Near misses", "Much like those above, and yet it stays off.",
      tiles(set, page.near_misses.slice(0, few ? 6 : 9), { size: "nine", lines: 3 })),
    live && element("div", { class: "sides plain" },
      section("How strong, how often", null, activation(page.histogram, each.samples)), labels(page)),
    element("div", { class: "sides plain" },
      related(set, "Lights up together with", `On the same ${kind(set)}.`, page.together),
      related(set, "Resembles", `Keeps the same company, if not on the same ${kind(set)}.`, page.resembling)));
}
