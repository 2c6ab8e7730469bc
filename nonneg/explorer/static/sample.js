// One sample: its active features, and its neighbours with the features they share.

import { go, here, href, isStatic, forSet, redraw } from "./address.js";
import { ask } from "./api.js";
import { announce, dataText, element, percent } from "./build.js";
import { markedText } from "./marks.js";
import {
  bar, blocksOf, counted, face, featureLink, fullTitle, hasSamplePage, hits, keyOf, kind, labelTitle, placesOf, sampleTitle, setChoice, shareOf,
  strip, title,
} from "./pieces.js";

const SHOWN = 8;

/**
 * Features as a bar and a list: the largest and those in `listed`, then the others if `all` is true or after a click
 * on a button, which calls `onAll`. `toggle`, if given, receives a feature to switch on or off; `off` holds those that are.
 */
export function partsOf(set, parts, { off = new Set(), listed = new Set(), toggle = null, all = false, onAll = () => {} } = {}) {
  const places = placesOf(parts.map((part) => part.caption.feature));
  const isListed = ({ caption }) => places.get(caption.feature) < SHOWN || listed.has(caption.feature) || off.has(caption.feature);
  const line = (part) => {
    const { caption } = part;
    const place = places.get(caption.feature);
    const isOff = off.has(caption.feature);
    const key = toggle
      ? element("input", {
        type: "checkbox", class: keyOf(part, place), checked: !isOff, "aria-label": `use ${fullTitle(caption)}`,
        onchange: () => toggle(caption.feature),
      })
      : element("span", { class: keyOf(part, place), "aria-hidden": "true" });
    return element("div", { class: `part ${isOff ? "off" : ""}` }, key,
      element("div", {},
        element("div", { class: "shared" },
          shareOf(part), featureLink(set, caption, { "data-step": "" })),
        isListed(part) && strip(set, caption.feature, 6)));
  };
  const rest = parts.filter((part) => !isListed(part)); // there can be thousands, too many for their strips
  const list = element("div", { class: "parts" }, parts.filter(isListed).map(line), all && rest.map(line));
  const restShare = percent(rest.reduce((sum, part) => sum + part.share, 0));
  const more = element("p", { class: "soft" }, `and ${counted(rest.length, "other feature")}, ${restShare} in total. `,
    element("button", { type: "button", class: "link", onclick: () => {
      const lines = rest.map(line);
      list.append(...lines);
      more.remove();
      lines[0].querySelector("input, a")?.focus();
      onAll();
    } }, `Show all ${parts.length}`));
  return [
    bar(blocksOf(parts.filter((part) => !off.has(part.caption.feature))), places, 1, `sum of ${counted(parts.length, "feature")}`),
    list,
    rest.length > 0 && !all && more,
  ];
}

/** A sentence about what changes without the features that are switched off. */
function ablationSummary(off, titles, whole, neighbours) {
  if (!off.size) return null;
  const [first] = off;
  const what = off.size === 1 ? ["“", dataText(titles.get(first) || `feature ${first}`), "”"] : counted(off.size, "feature");
  const rows = (hits) => new Set(hits.map((hit) => hit.sample.row));
  const [before, now] = [rows(whole), rows(neighbours)];
  const fresh = [...now].filter((row) => !before.has(row)).length;
  const gone = [...before].filter((row) => !now.has(row)).length;
  const lost = `${gone} of ${counted(before.size, "neighbour")} ${gone === 1 ? "disappears" : "disappear"}`;
  const came = `${fresh} of ${counted(now.size, "neighbour")} ${fresh === 1 ? "is" : "are"} new (framed)`;
  let effect = "the neighbours stay the same";
  if (!now.size && before.size) effect = before.size === 1 ? "its only neighbour disappears" : `all ${before.size} neighbours disappear`;
  else if (fresh) effect = gone === fresh ? came : `${came}, and ${lost}`;
  else if (gone) effect = lost;
  return ["Without ", what, `, ${effect}.`];
}

/** The prediction of a glass-box classifier, with and without the features that are switched off. */
function prediction(set, whole, page, off) {
  if (!page.prediction) return null;
  const { label, probability, evidence, missing } = page.prediction;
  const was = whole.prediction;
  const change = was.label === label
    ? ` (${percent(was.probability)} with all features)`
    : [" (with all features: ", dataText(labelTitle(was.label)), ")"];
  return element("section", { class: "prediction" },
    element("h2", {}, "Prediction of the glass-box classifier"),
    element("p", { class: "change clamped" }, dataText(labelTitle(label)), `, probability ${percent(probability)}`, off.size ? change : "", "."),
    element("p", { class: "soft" }, evidence.length
      ? "In this classifier, a feature only adds evidence for a class. The strongest evidence for this class:"
      : "No active feature is evidence for this class; its score is the intercept alone."),
    missing > 0 && element("p", { class: "soft" },
      `${counted(missing, "feature of the classifier is", "features of the classifier are")} not in this set and ${missing === 1 ? "counts" : "count"} as 0.`),
    element("ul", { class: "evidence" }, evidence.map(({ caption, value }) =>
      element("li", {}, element("span", { class: "share" }, `+${value.toFixed(2)}`), featureLink(set, caption)))));
}

export async function samplePage({ set, overview, number, parameters }) {
  const off = new Set((parameters.get("off") || "").split(",").filter((part) => /^\d+$/.test(part)).map(Number));
  const path = `sets/${set}/sample/${number}`;
  const whole = await ask(path);
  const page = off.size && !isStatic ? await ask(path, [...off].map((feature) => ["off", feature])) : whole;
  const { sample, parts, neighbours } = page;
  const one = kind(set, 1);
  const address = (changes) => href(`/sample/${number}`, { ...Object.fromEntries(here().parameters), ...changes });
  const toggle = (feature) => {
    if (!off.delete(feature)) off.add(feature);
    go(address({ off: [...off].sort((a, b) => a - b).join(",") }), { quiet: true });
    redraw();
  };
  const evidence = [whole, page].flatMap((each) => each.prediction?.evidence ?? []).map((each) => each.caption.feature);
  const options = {
    off, listed: new Set(evidence), toggle: isStatic ? null : toggle,
    all: parameters.has("all"), onAll: () => go(address({ all: 1 }), { replace: true, quiet: true }),
  };
  const titles = new Map(parts.map((part) => [part.caption.feature, title(part.caption)]));
  const before = new Set(whole.neighbours.map((hit) => hit.sample.row));
  const change = ablationSummary(off, titles, whole.neighbours, neighbours);
  if (change) announce(element("p", {}, change).textContent);

  return element("article", { class: "sample" },
    element("div", { class: "head" },
      element("div", {},
        element("p", { class: "soft over clamped" }, `${one[0].toUpperCase()}${one.slice(1)} `, dataText(sample.id)),
        element("h1", {}, dataText(sampleTitle(sample)))),
      overview.same_samples && overview.sets.every((_, other) => hasSamplePage(other, number))
        && setChoice(set, (other) => href(`/sample/${number}`, forSet(other)))),
    element("div", { class: "apart" },
      element("div", {},
        element("div", { class: `whole ${sample.has_picture ? "" : "written"}` }, sample.has_picture
          ? [face(set, sample, { large: true }), overview.sets[set].legend && element("p", { class: "soft" }, overview.sets[set].legend),
            page.text && element("p", { class: "soft" }, dataText(page.text))]
          : markedText(set, page.text ?? sample.id, page.text ? parts : [])),
        prediction(set, whole, page, off)),
      element("div", {},
        element("h2", {}, counted(parts.length, "active feature")),
        parts.length > 0 && !isStatic
          && element("p", { class: "soft" }, `Clear a checkbox to see the ${page.prediction ? "prediction and the " : ""}neighbours without that feature.`),
        parts.length ? partsOf(set, parts, options) : element("p", {}, "No feature is active."))),
    element("section", {},
      element("h2", {}, "Neighbours"),
      element("p", { class: "soft" },
        `The most similar ${kind(set)} (cosine). Each bar shows which features they share, in the colours used above.`),
      change && element("p", { class: "change clamped" }, ablationSummary(off, titles, whole.neighbours, neighbours), " ",
        element("a", { href: address({ off: "" }) }, "Restore all")),
      neighbours.length
        ? hits(set, neighbours, placesOf([...titles.keys()]), titles, { before: off.size ? before : null })
        : element("p", {}, `No other ${one} shares ${off.size ? "one of the remaining features" : "a feature with it"}.`)),
    !isStatic && element("p", { class: "buttons" },
      element("a", { class: "button", href: href("/compose", forSet(set, { like: number })) }, `Search with this ${one}`)));
}
