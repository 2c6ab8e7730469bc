// A query made of features, examples and exclusions. The address is the query.

import { go, href, of } from "./address.js";
import { askOnce, send } from "./api.js";
import { announce, element } from "./build.js";
import { chooser } from "./chooser.js";
import { count, face, featureLink, fullTitle, hits, hue, kind, placesOf, setChoice, title } from "./pieces.js";

const LARGEST = 2;
const SHOWN = 24;
const WAITS = 120; // milliseconds after the last movement of a slider

function read(parameters) {
  const parts = (name) => (parameters.get(name) || "").split(",");
  const numbers = (name) => new Set(parts(name).filter((part) => /^\d+$/.test(part)).map(Number));
  const weights = parts("f").map((part) => part.match(/^(\d+):(\d+(?:\.\d+)?)$/)).filter(Boolean);
  return {
    features: new Map(weights.map(([, feature, weight]) => [Number(feature), Math.min(LARGEST, Number(weight))])),
    without: numbers("without"),
    like: numbers("like"),
  };
}

function address(set, { features, without, like }) {
  const weights = [...features].map(([feature, weight]) => `${feature}:${weight}`);
  return href("/compose", of(set, { f: weights.join(","), without: [...without].join(","), like: [...like].join(",") }));
}

function body({ features, without, like }) {
  return {
    features: [...features].map(([feature, weight]) => ({ feature, weight })),
    without: [...without],
    like: [...like],
    top: SHOWN,
  };
}

/** The query as a file that `nonneg search FEATURES --query` runs: samples by their ids. */
function written({ features, without }, examples) {
  const content = {
    like: examples.map((sample) => sample.id),
    features: [...features].filter(([, weight]) => weight > 0),
    without: [...without],
  };
  const told = Object.entries(content).filter(([, list]) => list.length);
  return `${JSON.stringify({ ...Object.fromEntries(told), k: SHOWN }, null, 1)}\n`;
}

function remover(label, onclick) {
  return element("button", { type: "button", class: "plain", "aria-label": label, onclick }, "×");
}

/** `text` is asked for when somebody wants the file: sliders move meanwhile. */
function sharing(text) {
  const copy = element("button", {
    type: "button",
    onclick: async () => {
      try {
        await navigator.clipboard.writeText(location.href);
        copy.textContent = "Copied";
      } catch {
        copy.textContent = "Copy the address above";
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

export async function composePage({ set, parameters }) {
  const { rows } = await askOnce(`sets/${set}/features`);
  const query = read(parameters);
  const controls = element("div", { class: "controls" });
  const results = element("div", { class: "results" });
  const caption = (feature) => rows[feature] || { feature, name: null, hint: null };
  let asking = 0;
  let waiting = 0;
  let examples = [];

  async function show() {
    const mine = (asking += 1);
    if (!query.features.size && !query.like.size) {
      results.replaceChildren(element("p", { class: "soft" },
        "Add a feature to begin. Mix several, and leave out what you do not want."));
      return;
    }
    let found;
    try {
      found = await send("POST", `sets/${set}/search`, body(query));
    } catch (error) {
      if (mine === asking) results.replaceChildren(element("p", { class: "trouble" }, error.message));
      return;
    }
    if (mine !== asking) return; // an older answer than what is asked now
    examples = found.like;
    const others = found.captions.map((each) => each.feature).filter((feature) => !query.without.has(feature));
    const places = placesOf([...new Set([...query.features.keys(), ...others])]);
    const titles = new Map(found.captions.map((each) => [each.feature, title(each)]));
    const left = query.without.size ? " that are left" : "";
    const words = found.hits.length
      ? `The best ${found.hits.length} of ${count(found.left)} ${kind(set)}${left}.`
      : found.left ? `No ${kind(set, 1)} has any of this.` : `Every ${kind(set, 1)} has a feature that is left out.`;
    announce(words);
    results.replaceChildren(element("p", { class: "soft" }, words), hits(set, found.hits, places, titles, { more }));
  }

  /** Change the query; `next` is the label of the control to go on with. */
  async function changed(change, next) {
    change();
    go(address(set, query), { quiet: true });
    await show();
    drawControls();
    controls.querySelector(`[aria-label="${CSS.escape(next)}"]`)?.focus({ preventScroll: true });
  }

  function more(sample) {
    return element("button", {
      type: "button", "aria-label": `more like ${kind(set, 1)} ${sample.row}`,
      onclick: () => changed(() => query.like.add(sample.row), `remove example ${sample.row}`),
    }, "more like this");
  }

  function slid(feature, weight) {
    query.features.set(feature, weight);
    clearTimeout(waiting);
    const from = location.href;
    waiting = setTimeout(() => {
      if (location.href !== from) return; // the reader has gone on
      go(address(set, query), { replace: true, quiet: true });
      show();
    }, WAITS);
  }

  function weighed([feature, weight], place) {
    const name = fullTitle(caption(feature));
    const value = element("output", { class: "number" }, weight.toFixed(1));
    return element("div", { class: "weight" },
      element("div", { class: "what" },
        element("span", { class: `key ${hue(place)}`, "aria-hidden": "true" }),
        featureLink(set, caption(feature)),
        remover(`remove ${name}`, () => changed(() => query.features.delete(feature), "With"))),
      element("div", { class: "what" },
        element("input", {
          type: "range", min: 0, max: LARGEST, step: 0.1, value: weight, "aria-label": `how much ${name} counts`,
          oninput: (event) => {
            value.textContent = Number(event.target.value).toFixed(1);
            slid(feature, Number(event.target.value));
          },
        }), value));
  }

  function example(row) {
    const sample = examples.find((each) => each.row === row);
    return element("div", { class: "what" },
      element("a", { class: "example", href: href(`/sample/${row}`, of(set)) },
        sample ? face(set, sample, { lines: 2 }) : `${kind(set, 1)} ${row}`),
      remover(`remove example ${row}`, () => changed(() => query.like.delete(row), query.like.size > 1 ? "Like" : "With")));
  }

  function banned(feature) {
    return element("div", { class: "what" }, featureLink(set, caption(feature)),
      remover(`allow ${fullTitle(caption(feature))} again`, () => changed(() => query.without.delete(feature), "Without")));
  }

  function add(feature) {
    query.features.set(feature, 1);
    query.without.delete(feature);
  }

  function ban(feature) {
    query.without.add(feature);
    query.features.delete(feature);
  }

  // What was removed cannot keep the focus: its heading takes it.
  function heading(text) {
    return element("h2", { tabindex: -1, "aria-label": text }, text);
  }

  function drawControls() {
    controls.replaceChildren(...[
      heading("With"),
      ...[...query.features].map(weighed),
      chooser("Add a feature", rows, query.features, (feature) =>
        changed(() => add(feature), `how much ${fullTitle(caption(feature))} counts`)),
      query.like.size > 0 && heading("Like"),
      ...[...query.like].map(example),
      heading("Without"),
      ...[...query.without].map(banned),
      chooser("Leave out a feature", rows, query.without, (feature) =>
        changed(() => ban(feature), `allow ${fullTitle(caption(feature))} again`)),
      (query.features.size > 0 || query.like.size > 0) && sharing(() => written(query, examples.filter((sample) => query.like.has(sample.row)))),
    ].filter(Boolean));
  }

  await show();
  drawControls();
  return element("section", {},
    element("div", { class: "head" }, element("h1", {}, "Compose"), setChoice(set, (other) => href("/compose", of(other)))),
    element("p", {},
      `Say what should be in the ${kind(set)}, feature by feature, and how much each counts. A score is the sum of what the`,
      " features add; the bar shows it."),
    element("div", { class: "compose" }, controls, results));
}
