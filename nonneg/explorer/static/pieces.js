// What several pages show: samples, features, strips, bars.

import { href, isStatic, of } from "./address.js";
import { askOnce, picture } from "./api.js";
import { element, figure, isolated, percent, said } from "./build.js";

const HUES = 7;
const FEW = 3; // texts in a strip
const SMALL = 64; // pixels; below this, an image is scaled without blur

let overview = null;

/** All sets at a glance; what other pieces need to know of a set. */
export async function known() {
  overview = await askOnce("overview");
  return overview;
}

/** A number of things. */
export function count(number) {
  return number.toLocaleString("en");
}

/** What samples of a set are called. */
export function kind(set, number = 2) {
  const name = overview.sets[set].kind;
  return number === 1 ? name.slice(0, -1) : name;
}

/** What a feature is called, as text. */
export function title(caption) {
  return caption.name || caption.hint || `feature ${caption.feature}`;
}

/** What a feature is called where its title alone might be another's too. */
export function fullTitle(caption) {
  return caption.name || caption.hint ? `${title(caption)}, feature ${caption.feature}` : title(caption);
}

/** A number of things and what they are called. */
export function counted(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

/** What a feature is called, as a link; a name that people gave stands out from what the data say. */
export function featureLink(set, caption, properties = {}) {
  const inside = [said(title(caption), { class: caption.name ? "name" : "hint", title: title(caption) })];
  if (caption.name || caption.hint) {
    inside.push(" ", element("span", { class: "soft number" }, `feature ${caption.feature}`));
  }
  if (!hasFeaturePage(set, caption.feature)) return element("span", { class: "caption" }, inside);
  return element("a", { class: "caption", href: href(`/feature/${caption.feature}`, of(set)), ...properties }, inside);
}

function told(sample) {
  return sample.label === null ? sample.id : sample.label;
}

/** Have a small image scaled without blur, once its size is known. */
export function sharp(event) {
  event.target.classList.toggle("small", event.target.naturalWidth <= SMALL);
}

/** A sample's image or excerpt. */
export function face(set, sample, { large = false, lines = 5 } = {}) {
  if (sample.has_picture) {
    const src = picture(set, overview.sets[set], sample.row);
    return element("img", { src, alt: told(sample), loading: large ? "eager" : "lazy", decoding: "async", onload: sharp });
  }
  const text = sample.excerpt ?? sample.id;
  return element("span", { class: "excerpt", dir: "auto", style: { webkitLineClamp: lines } }, text);
}

/** Whether a sample has a page of its own; in a static copy some have not. */
function hasPage(set, row) {
  return !isStatic || overview.sets[set].rows.includes(row);
}

function hasFeaturePage(set, feature) {
  return !isStatic || !overview.sets[set].kept || overview.sets[set].kept.includes(feature);
}

/** A sample to click on. */
export function tile(set, sample, { below = null, mark = "", lines = 5 } = {}) {
  const properties = { class: `tile ${sample.has_picture ? "pictured" : "written"} ${mark}`, title: told(sample) };
  const inside = [face(set, sample, { lines }), below];
  if (!hasPage(set, sample.row)) return element("span", properties, inside);
  const label = `${kind(set, 1)} ${told(sample)}`;
  return element("a", { ...properties, href: href(`/sample/${sample.row}`, of(set)), "aria-label": label }, inside);
}

/** Samples side by side, or below each other where they are texts. */
export function tiles(set, samples, options = {}) {
  const written = samples.length && !samples[0].has_picture ? "written" : "";
  const all = samples.map((sample) => tile(set, sample, options));
  return element("div", { class: `tiles ${written} ${options.size || ""}`, "data-list": "" }, all);
}

/** The first, the middle one and the last. */
function ends(samples) {
  const last = samples.length - 1;
  return [...new Set([0, Math.floor(last / 2), last])].filter((place) => place >= 0).map((place) => samples[place]);
}

/** A feature's samples in one line, filled in when they come: its strongest, or `across` all it is on for. */
export function strip(set, feature, most = 9, across = false) {
  const label = `${kind(set)} of feature ${feature}`;
  const place = element("div", { class: "strip", "aria-label": label, role: "group" });
  place.style.setProperty("--count", most);
  askOnce(`sets/${set}/strip/${feature}`).then(
    (found) => {
      const samples = across ? found.across : found.samples;
      const pictured = samples.length && samples[0].has_picture;
      place.classList.toggle("written", !pictured);
      const few = across ? ends(samples) : samples.slice(0, FEW);
      place.append(...(pictured ? samples.slice(0, most) : few).map((s) => tile(set, s, { lines: 1 })));
      if (!samples.length) place.append(element("span", { class: "soft" }, "never active"));
    },
    () => place.append(element("span", { class: "soft" }, "not in this copy")),
  );
  return place;
}

/** The colour of the nth feature of a sum. */
export function hue(place) {
  return place >= 0 && place < HUES ? `hue-${place}` : "hue-rest";
}

/**
 * A sum as a bar of blocks. `parts` are {feature, value, title}; `places` says which colour a feature has;
 * `whole` is the sum that fills the bar. What counts against the sum is hatched.
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
  return activation < 0 ? `${/^\d/.test(words) ? "−" : ""}${words}, on the negative side` : words;
}

/** A part's share of a sample; where codes have signs, with its side. */
export function shareOf(part) {
  const [number, ...side] = shareWords(part).split(",");
  return element("span", { class: "share" }, number, side.length > 0 && element("span", { class: "side-of" }, `,${side}`));
}

/** The class of a part's colour, hatched where it is on the negative side. */
export function keyOf({ activation }, place) {
  return `key ${hue(place)} ${activation < 0 ? "against" : ""}`;
}

/** A sample's features as blocks of a bar. */
export function blocksOf(parts) {
  const words = (part) => `${isolated(title(part.caption))}: ${shareWords(part)}`;
  const value = ({ activation, share }) => (activation < 0 ? -share : share);
  return parts.map((part) => ({ feature: part.caption.feature, value: value(part), title: words(part) }));
}

/** Feature to the place of its colour, in order of share. */
export function placesOf(features) {
  return new Map(features.map((feature, place) => [feature, place]));
}

/** A share as a thin bar. */
export function meter(share) {
  const fill = element("i", { style: { width: `${100 * Math.min(1, Math.max(0, share))}%` } });
  return element("span", { class: "meter", role: "img", "aria-label": percent(share) }, fill);
}

/** Found samples, each with the features that brought it up. */
export function hits(set, found, places, titles, { before = null, more = null } = {}) {
  const sums = found.map((hit) => hit.contributions.reduce((sum, each) => sum + Math.abs(each.value), 0));
  const whole = Math.max(...sums, 1e-12);
  const items = found.map((hit) => {
    const parts = hit.contributions.map(({ feature, value }) => ({
      feature,
      value,
      title: `${isolated(titles.get(feature) || `feature ${feature}`)}: ${figure(value)}`,
    }));
    const most = parts.slice(0, 3).map((part) => part.title).join("; ");
    const below = element("span", { class: "below" },
      bar(parts, places, whole, `shared: ${most}`),
      element("span", { class: "line soft" }, said(told(hit.sample)), element("span", {}, figure(hit.score))));
    const found = tile(set, hit.sample, { below, mark: before && !before.has(hit.sample.row) ? "new" : "", lines: 4 });
    return more ? element("div", { class: "hit" }, found, more(hit.sample)) : found;
  });
  const written = found.length && !found[0].sample.has_picture ? "written" : "";
  return element("div", { class: `tiles found ${written}`, "data-list": "" }, items);
}

/** Which page of so many an address asks for; the nearest there is. */
export function pageNumber(parameters, pages) {
  return Math.max(1, Math.min(pages, Math.floor(Number(parameters.get("page"))) || 1));
}

/** Links to the page before and the page after. `address` makes one with changed parameters. */
export function pager(page, pages, address) {
  if (pages < 2) return null;
  const link = (to, text, rel) => to >= 1 && to <= pages
    ? element("a", { class: "button", rel, href: address({ page: to }) }, text)
    : element("span");
  return element("nav", { class: "pages", "aria-label": "more pages" },
    link(page - 1, "Before", "prev"), element("span", { class: "soft" }, `${page} of ${pages}`), link(page + 1, "More", "next"));
}

/** Which of two sets is looked at. */
export function setChoice(set, target) {
  if (overview.sets.length < 2) return null;
  return element("nav", { class: "choice", "aria-label": "which features" }, overview.sets.map((each, number) =>
    element("a", { href: target(number), "aria-current": number === set ? "true" : null }, said(each.name))));
}
