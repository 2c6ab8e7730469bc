// Parts shared by several pages: samples, features, strips and bars.

import { href, isStatic, forSet } from "./address.js";
import { askOnce, picture } from "./api.js";
import { dataText, element, figure, isolated, percent } from "./build.js";

const HUES = 7;
const STRIP_TEXTS = 3;
const SMALL = 64; // pixels; images up to this width are enlarged without smoothing

let overview = null;

/** Load the overview, which the other functions of this file need. */
export async function loadOverview() {
  overview = await askOnce("overview");
  return overview;
}

/** Title the tab after the page's heading and the sets. */
export function titleTab() {
  const names = overview?.sets.map((each) => each.name).join(" and ");
  document.title = `${document.querySelector("main h1")?.textContent || "Explorer"} · ${names || "Explorer"}`;
}

/** Format a count. */
export function count(number) {
  return number.toLocaleString("en");
}

/** The word for the samples of a set, in the singular or plural. */
export function kind(set, number = 2) {
  const name = overview.sets[set].kind;
  return number === 1 ? name.replace(/s$/, "") : name;
}

/** Whether the set was opened with a model that encodes texts. */
export function encodesTexts(set) {
  return overview.sets[set].can_encode === "text";
}

/** A feature's name, hint or number. */
export function title(caption) {
  return caption.name || caption.hint || `feature ${caption.feature}`;
}

/** Whether a feature's title is a suggested name that is only a guess. */
function isGuess(caption) {
  return !caption.name && Boolean(caption.is_guess);
}

function numberOf(caption) {
  return `feature ${caption.feature}${isGuess(caption) ? ", guess" : ""}`;
}

/** A feature's title with its number, where titles must be unique. */
export function fullTitle(caption) {
  return caption.name || caption.hint ? `${title(caption)}, ${numberOf(caption)}` : title(caption);
}

/** What is known about a suggested name, in words. */
function nameQuality(caption) {
  if (caption.name || (caption.score == null && !caption.is_guess)) return "";
  return `${caption.is_guess ? "a guess" : "suggested name"}${caption.score == null ? "" : `, score ${caption.score.toFixed(2)}`}`;
}

/** A feature's title as data; names given by people are styled differently from hints, and guesses are marked. */
function titleText(caption) {
  const words = nameQuality(caption);
  return dataText(title(caption), {
    class: `${caption.name ? "name" : "hint"}${isGuess(caption) ? " guess" : ""}`,
    title: words ? `${title(caption)} (${words})` : title(caption),
  });
}

/** A feature's title as data, followed by its number if the title does not say it. */
export function titleParts(caption) {
  const number = (caption.name || caption.hint) && element("span", { class: "soft number" }, numberOf(caption));
  return number ? [titleText(caption), " ", number] : [titleText(caption)];
}

/** A label on its own; a bare number needs a word. */
export function labelTitle(label) {
  return /^-?\d+(\.\d+)?$/.test(label) ? `Label ${label}` : label;
}

/** A count with its noun. */
export function counted(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** A link to a feature. */
export function featureLink(set, caption, properties = {}) {
  const inside = titleParts(caption);
  if (!hasFeaturePage(set, caption.feature)) return element("span", { class: "caption" }, inside);
  return element("a", { class: "caption", href: href(`/feature/${caption.feature}`, forSet(set)), ...properties }, inside);
}

/** A sample's label, or else its id. */
export function sampleTitle(sample) {
  return sample.label?.trim() ? labelTitle(sample.label) : sample.id;
}

/** Enlarge a small image without smoothing; called when its size is known. */
export function markSmall(event) {
  event.target.classList.toggle("small", event.target.naturalWidth <= SMALL);
}

/** A sample's image or excerpt. */
export function face(set, sample, { large = false, lines = 5 } = {}) {
  if (sample.has_picture) {
    const src = picture(set, overview.sets[set], sample.row);
    return element("img", { src, alt: sampleTitle(sample), loading: large ? "eager" : "lazy", decoding: "async", onload: markSmall });
  }
  const text = sample.excerpt ?? sample.id;
  return element("span", { class: "excerpt", dir: "auto", style: { webkitLineClamp: lines } }, text);
}

/** Whether a sample has a page; in a static copy, some do not. */
export function hasSamplePage(set, row) {
  return !isStatic || overview.sets[set].sample_pages.includes(row);
}

/** Whether a feature has a page; in a static copy, some do not. */
export function hasFeaturePage(set, feature) {
  return !isStatic || !overview.sets[set].feature_pages || overview.sets[set].feature_pages.includes(feature);
}

/** A sample that links to its page. */
export function tile(set, sample, { below = null, mark = "", lines = 5 } = {}) {
  const name = sample.has_picture ? sampleTitle(sample) : null; // a text speaks for itself
  const properties = { class: `tile ${sample.has_picture ? "pictured" : "written"} ${mark}`, title: name };
  const value = below === null && sample.strength !== null && sample.strength !== undefined;
  const inside = [face(set, sample, { lines }),
    below ?? (value && element("span", { class: "value soft" }, sample.label !== null && dataText(labelTitle(sample.label)), element("span", { class: "number" }, figure(sample.strength))))];
  if (!hasSamplePage(set, sample.row)) return element("span", properties, inside);
  return element("a", { ...properties, href: href(`/sample/${sample.row}`, forSet(set)), "aria-label": name && `${kind(set, 1)} ${name}` }, inside);
}

/** A grid of samples, or a list of texts. */
export function tiles(set, samples, options = {}) {
  const written = samples.length && !samples[0].has_picture ? "written" : "";
  const all = samples.map((sample) => tile(set, sample, options));
  return element("div", { class: `tiles ${written} ${options.size || ""}`, "data-list": "" }, all);
}

/** The first, middle and last sample. */
function firstMiddleLast(samples) {
  const last = samples.length - 1;
  return [...new Set([0, Math.floor(last / 2), last])].filter((place) => place >= 0).map((place) => samples[place]);
}

/** A row of a feature's samples, filled in when they arrive: its strongest, or `spread` from strong to weak. */
export function strip(set, feature, max = 9, spread = false) {
  const label = `${kind(set)} of feature ${feature}`;
  const place = element("div", { class: "strip", "aria-label": label, role: "group" });
  place.style.setProperty("--count", max);
  askOnce(`sets/${set}/strip/${feature}`).then(
    (found) => {
      const samples = spread ? found.spread : found.strongest;
      const pictured = samples.length && samples[0].has_picture;
      place.classList.toggle("written", !pictured);
      const few = spread ? firstMiddleLast(samples) : samples.slice(0, STRIP_TEXTS);
      place.append(...(pictured ? samples.slice(0, max) : few).map((s) => tile(set, s, { lines: 1 })));
      if (!samples.length) place.append(element("span", { class: "soft" }, "never active"));
    },
    (error) => place.append(element("span", { class: "soft" }, isStatic ? "not in this copy" : error.message)),
  );
  return place;
}

/** The class of the colour of the nth feature of a sum. */
export function hue(place) {
  return place >= 0 && place < HUES ? `hue-${place}` : "hue-rest";
}

/**
 * A sum as a bar of blocks. `parts` are {feature, value, title}; `places` maps features to colours; `whole` is the
 * sum that fills the bar. Negative values are hatched.
 */
export function bar(parts, places, whole, label) {
  const total = whole || parts.reduce((sum, part) => sum + Math.abs(part.value), 0) || 1;
  const blocks = parts.map((part) =>
    element("i", {
      class: `${hue(places.has(part.feature) ? places.get(part.feature) : -1)} ${part.value < 0 ? "against" : ""}`,
      style: { width: `${(100 * Math.abs(part.value)) / total}%` },
      title: part.title,
    }),
  );
  return element("span", { class: "bar", role: "img", "aria-label": label }, blocks);
}

function shareWords({ activation, share }) {
  const words = percent(share);
  return activation < 0 ? `${/^\d/.test(words) ? "−" : ""}${words}, negative` : words;
}

/** A part's share of a sample, marked if its activation is negative. */
export function shareOf(part) {
  const [number, ...side] = shareWords(part).split(",");
  return element("span", { class: "share" }, number, side.length > 0 && element("span", { class: "side-of" }, `,${side}`));
}

/** The class of a part's colour, hatched if its activation is negative. */
export function keyOf({ activation }, place) {
  return `key ${hue(place)} ${activation < 0 ? "against" : ""}`;
}

/** A sample's features as the blocks of a bar. */
export function blocksOf(parts) {
  const words = (part) => `${isolated(title(part.caption))}: ${shareWords(part)}`;
  const value = ({ activation, share }) => (activation < 0 ? -share : share);
  return parts.map((part) => ({ feature: part.caption.feature, value: value(part), title: words(part) }));
}

/** Map features to their positions, which choose their colours. */
export function placesOf(features) {
  return new Map(features.map((feature, place) => [feature, place]));
}

/** A share as a thin bar. */
export function meter(share) {
  const fill = element("i", { style: { width: `${100 * Math.min(1, Math.max(0, share))}%` } });
  return element("span", { class: "meter", role: "img", "aria-label": percent(share) }, fill);
}

/** Search hits, each with the contributions of its features. */
export function hits(set, found, places, titles, { before = null, more = null } = {}) {
  const sums = found.map((hit) => hit.contributions.reduce((sum, each) => sum + Math.abs(each.value), Math.abs(hit.rest)));
  const whole = Math.max(...sums, 1e-12);
  const items = found.map((hit) => {
    const parts = hit.contributions.map(({ feature, value }) => ({
      feature,
      value,
      title: `${isolated(titles.get(feature) || `feature ${feature}`)}: ${figure(value)}`,
    }));
    if (hit.rest) parts.push({ feature: null, value: hit.rest, title: `all smaller contributions: ${figure(hit.rest)}` });
    const largest = parts.slice(0, 3).map((part) => part.title).join("; ");
    const below = element("span", { class: "below" },
      bar(parts, places, whole, `contributions: ${largest}`),
      element("span", { class: "line soft" }, dataText(sampleTitle(hit.sample)), element("span", {}, figure(hit.score))));
    const found = tile(set, hit.sample, { below, mark: before && !before.has(hit.sample.row) ? "new" : "", lines: 4 });
    return more ? element("div", { class: "hit" }, found, more(hit.sample)) : found;
  });
  const written = found.length && !found[0].sample.has_picture ? "written" : "";
  return element("div", { class: `tiles found ${written}`, "data-list": "" }, items);
}

/** Links to features with which an empty page can start. */
export function examples(set, words, target = (feature) => href(`/feature/${feature}`, forSet(set))) {
  const rows = overview.sets[set].strongest_features.slice(0, 6);
  if (!rows.length) return null;
  return element("div", { class: "examples" }, element("p", {}, words),
    element("div", { class: "buttons" }, rows.map((row) =>
      element("a", { class: "button", href: target(row.feature) }, titleText(row), isGuess(row) && element("span", { class: "soft" }, " guess")))));
}

/** The page number in the address, limited to the existing pages. */
export function pageNumber(parameters, pages) {
  return Math.max(1, Math.min(pages, Math.floor(Number(parameters.get("page"))) || 1));
}

/** Links to the previous and next page. `address` returns an address with changed parameters. */
export function pager(page, pages, address) {
  if (pages < 2) return null;
  const link = (to, text, rel) => to >= 1 && to <= pages
    ? element("a", { class: "button", rel, href: address({ page: to }) }, text)
    : element("span");
  return element("nav", { class: "pages", "aria-label": "Pages of this list" },
    link(page - 1, "Previous", "prev"), element("span", { class: "soft" }, `${page} of ${pages}`), link(page + 1, "Next", "next"));
}

/** Links that switch between two sets. */
export function setChoice(set, target) {
  if (overview.sets.length < 2) return null;
  return element("nav", { class: "choice", "aria-label": "Set of features" }, overview.sets.map((each, number) =>
    element("a", { href: target(number), "aria-current": number === set ? "true" : null }, dataText(each.name))));
}
