// One sample: the features it is the sum of, and its neighbours by the features they share.

import { go, here, href, isStatic, of, redraw } from "./address.js";
import { ask } from "./api.js";
import { announce, element, percent, said } from "./build.js";
import {
  bar, blocksOf, counted, face, featureLink, fullTitle, hits, keyOf, kind, placesOf, setChoice, shareOf, strip, title,
} from "./pieces.js";

const SHOWN = 8;

/** Features as a bar and a list. `toggle` gets a feature to switch on or off, where that can be done. */
export function partsOf(set, parts, off = new Set(), toggle = null) {
  const places = placesOf(parts.map((part) => part.caption.feature));
  const list = parts.slice(0, SHOWN).map((part, place) => {
    const { caption } = part;
    const isOff = off.has(caption.feature);
    const key = toggle
      ? element("input", {
        type: "checkbox", class: keyOf(part, place), checked: !isOff, "aria-label": `count ${fullTitle(caption)}`,
        onchange: () => toggle(caption.feature),
      })
      : element("span", { class: keyOf(part, place), "aria-hidden": "true" });
    return element("div", { class: `part ${isOff ? "off" : ""}` }, key,
      element("div", {},
        element("div", { class: "shared" },
          shareOf(part), featureLink(set, caption, { "data-step": "" })),
        strip(set, caption.feature, 6)));
  });
  const rest = parts.slice(SHOWN);
  const restShare = percent(rest.reduce((sum, part) => sum + part.share, 0));
  return [
    bar(blocksOf(parts.filter((part) => !off.has(part.caption.feature))), places, 1, `made of ${counted(parts.length, "feature")}`),
    element("div", { class: "parts" }, list),
    rest.length > 0 && element("p", { class: "soft" },
      `and ${rest.length} smaller ${rest.length === 1 ? "one" : "ones"}, ${restShare} together`),
  ];
}

/** What switching features off has changed, in pieces of a sentence. */
function changed(off, titles, whole, neighbours) {
  if (!off.size) return null;
  const [first] = off;
  const what = off.size === 1 ? ["“", said(titles.get(first) || `feature ${first}`), "”"] : `${off.size} features`;
  const rows = (hits) => new Set(hits.map((hit) => hit.sample.row));
  const [before, now] = [rows(whole), rows(neighbours)];
  const fresh = [...now].filter((row) => !before.has(row)).length;
  const gone = [...before].filter((row) => !now.has(row)).length;
  const lost = `${gone} of ${counted(before.size, "neighbour")} ${gone === 1 ? "is" : "are"} gone`;
  const came = `${fresh} of ${counted(now.size, "neighbour")} ${fresh === 1 ? "is new; it is" : "are new; they are"} framed`;
  let told = "the neighbours stay the same";
  if (!now.size && before.size) told = before.size === 1 ? "its one neighbour is gone" : `all ${before.size} neighbours are gone`;
  else if (fresh) told = gone === fresh ? came : `${came}, and ${lost}`;
  else if (gone) told = lost;
  return ["Without ", what, `, ${told}.`];
}

/** What a glass-box classifier says of it, before and after features were switched off. */
function prediction(set, whole, page, off) {
  if (!page.prediction) return null;
  const { label, probability, spoken } = page.prediction;
  const was = whole.prediction;
  const same = was.label === label
    ? `, which was ${percent(was.probability)} likely`
    : [`; with ${off.size === 1 ? "it" : "them"}: `, said(was.label)];
  return element("section", {},
    element("h2", {}, "A glass box says"),
    element("p", { class: "change clamped" }, said(label), `, ${percent(probability)} likely`, off.size ? same : "", "."),
    element("p", { class: "soft" }, spoken.length
      ? "A classifier that only adds: each feature speaks for a class, none against one. What speaks loudest for this one:"
      : "No feature that is on speaks for it: it is what is commonest."),
    element("ul", { class: "plain" }, spoken.map(({ caption, adds }) =>
      element("li", {}, element("span", { class: "share" }, `+${adds.toFixed(2)}`), " ", featureLink(set, caption)))));
}

export async function samplePage({ set, number, parameters }) {
  const off = new Set((parameters.get("off") || "").split(",").filter((part) => /^\d+$/.test(part)).map(Number));
  const path = `sets/${set}/sample/${number}`;
  const whole = await ask(path);
  const page = off.size && !isStatic ? await ask(path, [...off].map((feature) => ["off", feature])) : whole;
  const { sample, parts, neighbours } = page;
  const one = kind(set, 1);
  const toggle = (feature) => {
    if (!off.delete(feature)) off.add(feature);
    const kept = [...off].sort((a, b) => a - b).join(",");
    go(href(`/sample/${number}`, { ...Object.fromEntries(here().parameters), off: kept }), { quiet: true });
    redraw();
  };
  const titles = new Map(parts.map((part) => [part.caption.feature, title(part.caption)]));
  const before = new Set(whole.neighbours.map((hit) => hit.sample.row));
  const change = changed(off, titles, whole.neighbours, neighbours);
  if (change) announce(element("p", {}, change).textContent);

  return element("article", { class: "sample" },
    element("div", { class: "head" },
      element("div", {},
        element("p", { class: "soft over clamped" }, `${one[0].toUpperCase()}${one.slice(1)} `, said(sample.id)),
        element("h1", {}, said(sample.label ?? sample.id))),
      setChoice(set, (other) => href(`/sample/${number}`, of(other)))),
    element("div", { class: "apart" },
      element("div", { class: `whole ${sample.has_picture ? "" : "written"}` }, sample.has_picture
        ? face(set, sample, { large: true })
        : element("p", { class: "text", dir: "auto" }, page.text ?? sample.id)),
      element("div", {},
        element("h2", {}, `Made of ${counted(parts.length, "feature")}`),
        parts.length > 0 && !isStatic
          && element("p", { class: "soft" }, "Untick one to see who its neighbours would be without it."),
        parts.length ? partsOf(set, parts, off, isStatic ? null : toggle) : element("p", {}, "No feature is on here."))),
    prediction(set, whole, page, off),
    element("section", {},
      element("h2", {}, "Neighbours"),
      element("p", { class: "soft" },
        `The ${kind(set)} that share the most with it. Each bar says through which features: the colours are those above.`),
      change && element("p", { class: "change clamped" }, changed(off, titles, whole.neighbours, neighbours), " ",
        element("a", { href: href(`/sample/${number}`, of(set)) }, "Count all again")),
      neighbours.length
        ? hits(set, neighbours, placesOf([...titles.keys()]), titles, { before: off.size ? before : null })
        : element("p", {}, "Nothing shares a feature with it.")),
    !isStatic && element("p", { class: "buttons" },
      element("a", { class: "button", href: href("/compose", of(set, { like: number })) }, `Search with this ${one}`)));
}
