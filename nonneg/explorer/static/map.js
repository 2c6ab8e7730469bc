// A map of all samples: coloured by label or by a feature, filtered by label or words, with a lasso.

import { go, here, href, isStatic, forSet } from "./address.js";
import { ask, askOnce, describe } from "./api.js";
import { announce, dataText, element, percent } from "./build.js";
import { chooser } from "./chooser.js";
import { count, counted, face, fullTitle, hasSamplePage, kind, labelTitle, setChoice, tiles, title } from "./pieces.js";
import { scatter } from "./scatter.js";

const HUES = 10;
const LISTED = 48; // samples of a selection that are listed
const GAP = 12; // pixels between the pointer and the description of a point

const scheme = matchMedia("(prefers-color-scheme: dark)");

function bytes(text, Kind) {
  const raw = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  return new Kind(raw.buffer);
}

function colourOf(name) {
  const value = getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return [1, 3, 5].map((start) => parseInt(value.slice(start, start + 2), 16));
}

/** The most common labels, each with the place of its colour. */
function placesOfLabels(labels, names) {
  const counts = names.map(() => 0);
  for (const label of labels || []) if (label < counts.length) counts[label] += 1;
  const common = [...counts.keys()].sort((a, b) => counts[b] - counts[a]).slice(0, HUES).sort((a, b) => a - b);
  return new Map(common.map((label, place) => [label, place]));
}

/** Colours of the points: of their label, or from grey to full colour by the strength of a feature. */
function coloured(total, labels, places, strengths, chosen) {
  const found = new Uint8Array(4 * total);
  const [rest, full] = [colourOf("--hue-rest"), colourOf("--bar")];
  const hues = Array.from({ length: HUES }, (_, place) => colourOf(`--hue-${place}`));
  for (let i = 0; i < total; i += 1) {
    let ink = rest;
    let front = chosen ? chosen[i] : true;
    if (strengths) {
      const share = 0.35 + (0.65 * strengths[i]) / 255;
      ink = strengths[i] ? full.map((value, c) => value * share + rest[c] * (1 - share)) : rest;
      front = front && strengths[i] > 0;
    } else if (labels && places.has(labels[i])) ink = hues[places.get(labels[i])];
    found.set(ink, 4 * i);
    found[4 * i + 3] = front ? 255 : 0;
  }
  return found;
}

function legend(names, places) {
  const rest = names.length - places.size;
  return element("div", { class: "legend" }, [...places].map(([label, place]) =>
    element("span", {}, element("i", { class: `key hue-${place}` }), dataText(labelTitle(names[label])))),
  rest > 0 && element("span", {}, element("i", { class: "key hue-rest" }), counted(rest, "other label")));
}

export async function mapPage({ set, overview, parameters }) {
  const each = overview.sets[set];
  const total = each.samples;
  const state = { feature: parameters.get("feature"), label: parameters.get("label") || "", q: parameters.get("q") || "" };
  const canvas = element("canvas", { class: "points", tabindex: 0, role: "application",
    "aria-label": `Map of ${count(total)} ${kind(set, total)}. Arrow keys move, plus and minus zoom, 0 shows everything.` });
  const overlay = element("canvas", { class: "overlay", "aria-hidden": "true" });
  const tip = element("div", { class: "tip", hidden: true });
  const note = element("p", { class: "soft", role: "status" }, `Placing ${count(total)} ${kind(set, total)}. The first time this can take a minute.`);
  const list = element("div", { class: "chosen" });
  const key = element("div");
  let plot = null;
  let found = null;
  let latest = 0; // number of the latest call of colour
  let search = null; // what the words have found, as rows and a heading
  let selected = null; // what the lasso has selected, which is listed instead
  let listed = null;

  function clear() {
    selected = null;
    tell();
    lasso.focus();
  }

  /** List the samples of the lasso, or else those of the search. */
  async function tell() {
    const shown = selected ?? search;
    if (shown === listed) return;
    listed = shown;
    if (!shown) {
      list.replaceChildren();
      return;
    }
    const { rows, words } = shown;
    const head = element("div", { class: "head" }, element("h2", {}, words), shown === selected
      && element("button", { type: "button", onclick: clear }, "Clear the selection"));
    list.replaceChildren(head, element("p", { class: "soft" }, "Loading…"));
    let inside;
    try {
      const samples = await describe(set, rows.slice(0, LISTED));
      const more = rows.length > samples.length && element("p", { class: "soft" }, `The first ${samples.length} are listed.`);
      inside = [more || "", tiles(set, samples, { size: "nine", lines: 3 })];
    } catch (error) {
      inside = [element("p", { class: "trouble" }, error.message)];
    }
    if (shown !== listed) return; // something else is listed now
    list.replaceChildren(head, ...inside);
    announce(words);
  }

  function fail(error) {
    note.replaceChildren(element("span", { class: "trouble" }, error.message));
  }

  async function colour() {
    const mine = (latest += 1);
    const labels = found.labels && bytes(found.labels, Uint16Array);
    const { feature, label, q } = state;
    const wanted = label ? found.label_names.indexOf(label) : -1;
    let strengths = null;
    let hits = null;
    try {
      if (feature !== null) strengths = bytes((await askOnce(`sets/${set}/map/${feature}`)).values, Uint8Array);
      if (q && !isStatic) hits = new Set((await ask(`sets/${set}/find`, [["q", q], ["shown", 0]])).rows);
    } catch (error) {
      if (mine === latest) fail(error);
      return;
    }
    if (mine !== latest) return; // the reader has chosen something else
    const isChosen = (i) => (wanted < 0 || labels[i] === wanted) && (!hits || hits.has(i));
    const chosen = wanted >= 0 || hits ? Array.from({ length: total }, (_, i) => isChosen(i)) : null;
    const places = placesOfLabels(labels, found.label_names);
    plot.colour(coloured(total, labels, places, strengths, chosen), (i) => (chosen ? chosen[i] : true));
    key.replaceChildren(strengths
      ? element("p", { class: "soft" }, `Orange: ${kind(set)} on which the feature is active.`)
      : found.label_names.length ? legend(found.label_names, places) : "");
    const matching = chosen ? chosen.reduce((sum, is) => sum + is, 0) : total;
    note.textContent = `${counted(matching, kind(set, 1), kind(set))}${chosen ? (matching === 1 ? " matches" : " match") : ""}. Similar ones are close (${found.method}).`
      + (matchMedia("(pointer: coarse)").matches
        ? " Drag to move, pinch to zoom, use Lasso to select."
        : " Drag to move, scroll to zoom, hold Shift or use Lasso to select.");
    if (!hits) search = null;
    else if (search?.q !== q || search.label !== label) search = { q, label, rows: [...hits].filter(isChosen), words: `${count(matching)} with “${q}”` };
    tell();
  }

  function change(changes) {
    Object.assign(state, changes);
    const shown = Object.fromEntries(Object.entries(state).filter(([, value]) => value !== null && value !== ""));
    go(href("/map", forSet(set, shown)), { replace: true, quiet: true });
    drawColouring();
    colour();
  }

  let hovered = -1;
  async function hover(point, event) {
    if (point === hovered) return;
    hovered = point;
    if (point < 0) {
      tip.hidden = true;
      return;
    }
    const [sample] = await describe(set, [point]).catch((error) => {
      fail(error);
      return [];
    });
    if (!sample || point !== hovered) return;
    const box = canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    tip.replaceChildren(sample.label !== null ? element("b", {}, dataText(labelTitle(sample.label))) : "", face(set, sample, { lines: 4 }));
    tip.hidden = false;
    const fits = y + GAP + tip.offsetHeight <= box.height;
    tip.style.left = `${Math.max(0, Math.min(x + GAP, box.width - tip.offsetWidth - GAP))}px`;
    tip.style.top = `${Math.max(0, fits ? y + GAP : y - GAP - tip.offsetHeight)}px`;
  }

  const colouring = element("span", { class: "colouring" });
  const { rows: features } = await askOnce(`sets/${set}/features`);
  /** Show the feature that colours the map, or a way to choose one; the keyboard's focus stays where it was. */
  function drawColouring() {
    const hadFocus = colouring.contains(document.activeElement);
    const feature = features.find((row) => String(row.feature) === state.feature);
    colouring.replaceChildren(feature
      ? element("span", { class: "picked" }, "Coloured by ", dataText(title(feature), { class: "name" }),
        element("button", { type: "button", class: "plain", "aria-label": `stop colouring by ${fullTitle(feature)}`, onclick: () => change({ feature: null }) }, "×"))
      : chooser("Colour by a feature", features, new Set(), (chosen) => change({ feature: String(chosen) })));
    if (hadFocus) colouring.querySelector("button, input")?.focus();
  }
  const lasso = element("button", { type: "button", "aria-pressed": "false", onclick: () => {
    const on = lasso.getAttribute("aria-pressed") === "false";
    lasso.setAttribute("aria-pressed", String(on));
    plot?.setLasso(on);
  } }, "Lasso");
  const controls = element("div", { class: "mapping" }, [
    (!isStatic || each.map_features) && colouring,
    each.label_names.length > 1 && element("label", {}, "Label ",
      element("select", { "aria-label": "Show only one label", onchange: (event) => change({ label: event.target.value }) },
        element("option", { value: "" }, "all"),
        each.label_names.map((name) => element("option", { value: name, selected: name === state.label }, name)))),
    !isStatic && element("input", { type: "search", placeholder: `Find ${kind(set)} with …`, "aria-label": `Find ${kind(set)} by a word`, value: state.q,
      onchange: (event) => change({ q: event.target.value.trim() }) }),
    lasso,
    element("button", { type: "button", "aria-label": "Zoom in", onclick: () => plot?.zoom(1.5) }, "+"),
    element("button", { type: "button", "aria-label": "Zoom out", onclick: () => plot?.zoom(1 / 1.5) }, "−"),
    element("button", { type: "button", onclick: () => plot?.reset() }, "Show all"),
  ]);

  askOnce(`sets/${set}/map`).then(async (answer) => {
    found = answer;
    plot = scatter(canvas, overlay, bytes(found.positions, Uint16Array), {
      onPick: hover,
      onClick: (row, event) => {
        if (!hasSamplePage(set, row)) return;
        const target = href(`/sample/${row}`, forSet(set));
        if (event.ctrlKey || event.metaKey) open(target, "_blank", "noopener");
        else go(target);
      },
      onLasso: (rows) => {
        selected = { rows, words: `${count(rows.length)} selected (${percent(rows.length / total)})` };
        tell();
      },
    });
    scheme.onchange = () => plot && canvas.isConnected && colour();
    if (plot) await colour();
    else note.textContent = "The map needs WebGL, which this browser does not offer.";
  }).catch(fail);
  drawColouring();

  return element("section", { class: "map" },
    element("div", { class: "head" }, element("h1", {}, `Map of ${count(total)} ${kind(set, total)}`), setChoice(set, (other) => href("/map", forSet(other)))),
    controls, note, element("div", { class: "plane" }, canvas, overlay, tip), key, list);
}
