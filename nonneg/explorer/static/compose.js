// A query composed of features, example samples and excluded features. The address holds the query.

import { go, href, forSet } from "./address.js";
import { askOnce, send } from "./api.js";
import { announce, element } from "./build.js";
import { chooser } from "./chooser.js";
import { count, examples, face, featureLink, fullTitle, hits, hue, kind, placesOf, setChoice, title } from "./pieces.js";
import { labelFilter } from "./samples.js";

const MAX_WEIGHT = 2;
const SHOWN = 24;
const SLIDER_DELAY = 120; // milliseconds after the last movement of a slider

function read(parameters) {
  const parts = (name) => (parameters.get(name) || "").split(",");
  const numbers = (name) => new Set(parts(name).filter((part) => /^\d+$/.test(part)).map(Number));
  const weights = parts("f").map((part) => part.match(/^(\d+):(\d+(?:\.\d+)?)$/)).filter(Boolean);
  return {
    features: new Map(weights.map(([, feature, weight]) => [Number(feature), Math.min(MAX_WEIGHT, Number(weight))])),
    without: numbers("without"),
    require: numbers("require"),
    like: numbers("like"),
    label: parameters.get("label") || "",
  };
}

function address(set, { features, without, require, like, label }) {
  const weights = [...features].map(([feature, weight]) => `${feature}:${weight}`);
  return href("/compose", forSet(set, { f: weights.join(","), without: [...without].join(","), require: [...require].join(","), like: [...like].join(","), label }));
}

function body({ features, without, require, like, label }) {
  return {
    features: [...features].map(([feature, weight]) => ({ feature, weight })),
    without: [...without],
    require: [...require],
    like: [...like],
    label: label || null,
    top: SHOWN,
  };
}

/** The query as a file for `nonneg search FEATURES --query`, with samples by id. */
function queryFile({ features, without, require, label }, examples) {
  const content = {
    like: examples.map((sample) => sample.id),
    features: [...features].filter(([, weight]) => weight > 0),
    without: [...without],
    require: [...require],
    label,
  };
  const filled = Object.entries(content).filter(([, list]) => list.length);
  return `${JSON.stringify({ ...Object.fromEntries(filled), k: SHOWN }, null, 1)}\n`;
}

function remover(label, onclick) {
  return element("button", { type: "button", class: "plain", "aria-label": label, onclick }, "×");
}

/** Buttons to share the query. `text` is called at download time, because sliders may have moved. */
function shareButtons(text) {
  const copy = element("button", {
    type: "button",
    onclick: async () => {
      try {
        await navigator.clipboard.writeText(location.href);
        copy.textContent = "Copied";
      } catch {
        copy.textContent = "Copy the address from your browser";
      }
      announce(copy.textContent);
    },
  }, "Copy link");
  const file = () => `data:application/json,${encodeURIComponent(text())}`;
  const download = element("a", {
    class: "button", download: "query.json", href: file(), onclick: () => download.setAttribute("href", file()),
  }, "Download as JSON");
  return element("div", { class: "buttons" }, copy, download);
}

export async function composePage({ set, overview, parameters }) {
  const each = overview.sets[set];
  const { rows } = await askOnce(`sets/${set}/features`);
  const query = read(parameters);
  const controls = element("div", { class: "controls" });
  const results = element("div", { class: "results" });
  const caption = (feature) => rows[feature] || { feature, name: null, hint: null };
  let latest = 0; // number of the latest request
  let waiting = 0;
  let likes = [];
  let share = null; // the buttons to share the query

  function isSearch() {
    return query.like.size > 0 || [...query.features.values()].some((weight) => weight > 0);
  }

  function exampleAddress(feature) {
    const without = new Set([...query.without].filter((each) => each !== feature));
    return address(set, { ...query, features: new Map([[feature, 1]]), without });
  }

  async function show() {
    const mine = (latest += 1);
    if (!isSearch()) {
      const words = query.features.size
        ? "All weights are 0. Move one to the right to search."
        : "Add a feature to start. You can combine several features, require some and exclude others.";
      announce(words);
      results.replaceChildren(element("p", { class: "soft" }, words), ...[query.features.size ? null : examples(set, "For example:", exampleAddress)].filter(Boolean));
      return;
    }
    let found;
    try {
      found = await send("POST", `sets/${set}/search`, body(query));
    } catch (error) {
      if (mine === latest) results.replaceChildren(element("p", { class: "trouble" }, error.message));
      return;
    }
    if (mine !== latest) return; // a newer request has been sent
    likes = found.like;
    const others = found.captions.map((each) => each.feature).filter((feature) => !query.without.has(feature));
    const places = placesOf([...new Set([...query.features.keys(), ...others])]);
    const titles = new Map(found.captions.map((each) => [each.feature, title(each)]));
    const remaining = query.without.size || query.require.size || query.label ? " that pass the filters" : "";
    const words = found.hits.length
      ? `The best ${found.hits.length} of ${count(found.candidates)} ${kind(set)}${remaining}.`
      : found.candidates ? `No ${kind(set, 1)} matches.` : `No ${kind(set, 1)} passes the filters.`;
    announce(words);
    results.replaceChildren(element("p", { class: "soft" }, words), hits(set, found.hits, places, titles, { more }));
  }

  /** Change the query; `next` is the label of the control to focus afterwards. */
  async function update(change, next) {
    change();
    go(address(set, query), { quiet: true });
    await show();
    drawControls();
    controls.querySelector(`[aria-label="${CSS.escape(next)}"]`)?.focus({ preventScroll: true });
  }

  function more(sample) {
    return element("button", {
      type: "button", "aria-label": `more like ${kind(set, 1)} ${sample.row}`,
      onclick: () => update(() => query.like.add(sample.row), `remove example ${sample.row}`),
    }, "more like this");
  }

  function setWeight(feature, weight) {
    query.features.set(feature, weight);
    share.hidden = !isSearch();
    clearTimeout(waiting);
    const from = location.href;
    waiting = setTimeout(() => {
      if (location.href !== from) return; // the reader has left the page
      go(address(set, query), { replace: true, quiet: true });
      show();
    }, SLIDER_DELAY);
  }

  function weightControl([feature, weight], place) {
    const name = fullTitle(caption(feature));
    const value = element("output", { class: "number" }, weight.toFixed(1));
    return element("div", { class: "weight" },
      element("div", { class: "what" },
        element("span", { class: `key ${hue(place)}`, "aria-hidden": "true" }),
        featureLink(set, caption(feature)),
        remover(`remove ${name}`, () => update(() => {
          query.features.delete(feature);
          query.require.delete(feature);
        }, "With"))),
      element("div", { class: "what" },
        element("input", {
          type: "range", min: 0, max: MAX_WEIGHT, step: 0.1, value: weight, "aria-label": `weight of ${name}`,
          oninput: (event) => {
            value.textContent = Number(event.target.value).toFixed(1);
            setWeight(feature, Number(event.target.value));
          },
        }), value),
      element("label", { class: "must soft" },
        element("input", { type: "checkbox", checked: query.require.has(feature), "aria-label": `must have ${name}`,
          onchange: () => update(() => (query.require.delete(feature) || query.require.add(feature)), `must have ${name}`) }), " must have"));
  }

  function example(row) {
    const sample = likes.find((each) => each.row === row);
    return element("div", { class: "what" },
      element("a", { class: "example", href: href(`/sample/${row}`, forSet(set)) },
        sample ? face(set, sample, { lines: 2 }) : `${kind(set, 1)} ${row}`),
      remover(`remove example ${row}`, () => update(() => query.like.delete(row), query.like.size > 1 ? "Like" : "With")));
  }

  function excluded(feature) {
    return element("div", { class: "what" }, featureLink(set, caption(feature)),
      remover(`stop excluding ${fullTitle(caption(feature))}`, () => update(() => query.without.delete(feature), "Without")));
  }

  function add(feature) {
    query.features.set(feature, 1);
    query.without.delete(feature);
  }

  function exclude(feature) {
    query.without.add(feature);
    query.features.delete(feature);
    query.require.delete(feature);
  }

  // The heading receives the focus when the focused control is removed.
  function heading(text) {
    return element("h2", { tabindex: -1, "aria-label": text }, text);
  }

  function drawControls() {
    share = shareButtons(() => queryFile(query, likes.filter((sample) => query.like.has(sample.row))));
    share.hidden = !isSearch();
    controls.replaceChildren(...[
      heading("With"),
      ...[...query.features].map(weightControl),
      chooser("Add a feature", rows, query.features, (feature) =>
        update(() => add(feature), `weight of ${fullTitle(caption(feature))}`)),
      query.like.size > 0 && heading("Like"),
      ...[...query.like].map(example),
      labelFilter(each.label_names, query.label, (value) => update(() => { query.label = value; }, "Only samples with this label")),
      heading("Without"),
      ...[...query.without].map(excluded),
      chooser("Exclude a feature", rows, query.without, (feature) =>
        update(() => exclude(feature), `stop excluding ${fullTitle(caption(feature))}`)),
      share,
    ].filter(Boolean));
  }

  await show();
  drawControls();
  return element("section", {},
    element("div", { class: "head" }, element("h1", {}, "Compose"), setChoice(set, (other) => href("/compose", forSet(other)))),
    element("p", {},
      `Choose which features the ${kind(set)} should have and how much each one counts. The bar shows how much each`,
      " feature contributes to the score."),
    element("div", { class: "compose" }, controls, results));
}
