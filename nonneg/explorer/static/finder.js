// The search box of the header: suggests features and samples while the reader types.

import { go, here, href, isStatic, forSet, setNumber } from "./address.js";
import { ask, askOnce } from "./api.js";
import { dataText, element } from "./build.js";
import { combobox } from "./combobox.js";
import { kind, titleParts } from "./pieces.js";

const FEATURES = 6;
const SAMPLES = 4;
const DELAY = 150; // milliseconds after the last key

async function matchingFeatures(set, words) {
  const { rows } = await askOnce(`sets/${set}/features`);
  const text = (row) => `${row.feature} ${row.name || ""} ${row.hint || ""} ${row.label || ""}`.toLowerCase();
  return rows.filter((row) => row.active && words.every((word) => text(row).includes(word)))
    .sort((a, b) => !a.name - !b.name || b.expected_activation - a.expected_activation);
}

/** The address of a list of what contains a text. The list that is open keeps its order and its limits. */
function listAddress(path, text) {
  const { path: open, parameters } = here();
  return href(path, { ...(open === path ? Object.fromEntries(parameters) : forSet(setNumber())), q: text, page: "" });
}

/** The search form. `value` is the text it starts with. */
export function finder(value) {
  let waiting = 0;
  let latest = 0;

  function option(target, ...inside) {
    return element("a", { role: "option", tabindex: -1, class: "suggestion", href: target, onclick: box.hide }, inside);
  }

  function given() {
    const text = box.input.value.trim();
    return { set: setNumber(), text, words: text.toLowerCase().split(/\s+/).filter(Boolean) };
  }

  async function options({ set, text, words }) {
    if (!words.length) return [];
    const [features, samples] = await Promise.all([
      matchingFeatures(set, words),
      isStatic ? { total: 0, samples: [] } : ask(`sets/${set}/find`, [["q", text], ["shown", SAMPLES]]),
    ]);
    return [
      ...features.slice(0, FEATURES).map((row) => option(href(`/feature/${row.feature}`, forSet(set)), ...titleParts(row))),
      features.length > FEATURES && option(href("/features", forSet(set, { q: text })), element("span", { class: "soft" }, `All ${features.length} features`)),
      ...samples.samples.map((sample) => option(href(`/sample/${sample.row}`, forSet(set)),
        element("span", { class: "soft" }, `${kind(set, 1)} `), dataText(sample.excerpt ?? sample.id))),
      samples.total > SAMPLES && option(href("/samples", forSet(set, { q: text })), element("span", { class: "soft" }, `All ${samples.total.toLocaleString("en")} ${kind(set)}`)),
    ].filter(Boolean);
  }

  const failed = (error) => [element("p", { class: "trouble", role: "alert" }, error.message)];

  async function suggest() {
    const mine = (latest += 1);
    const found = await options(given()).catch(failed);
    if (mine === latest && document.activeElement === box.input) box.show(found);
  }

  async function submit() {
    latest += 1;
    const { set, text, words } = given();
    try {
      const features = await matchingFeatures(set, words);
      box.input.blur(); // the page receives the focus
      go(listAddress(features.length || isStatic ? "/features" : "/samples", text));
    } catch (error) {
      box.show(failed(error));
    }
  }

  const box = combobox("Find features and samples", suggest, submit, {
    id: "find", name: "q", value,
    oninput: () => {
      clearTimeout(waiting);
      waiting = setTimeout(suggest, DELAY);
    },
  });
  box.form.setAttribute("role", "search");
  return box.form;
}
