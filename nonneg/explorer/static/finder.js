// The search box of the header: suggests features and samples while the reader types.

import { go, href, isStatic, forSet, setNumber } from "./address.js";
import { ask, askOnce } from "./api.js";
import { dataText, element } from "./build.js";
import { kind, titleParts } from "./pieces.js";

const FEATURES = 6;
const SAMPLES = 4;
const DELAY = 150; // milliseconds after the last key
const HIDE_DELAY = 200; // so that a click on a suggestion still arrives

async function matchingFeatures(set, words) {
  const { rows } = await askOnce(`sets/${set}/features`);
  const text = (row) => `${row.feature} ${row.name || ""} ${row.hint || ""} ${row.label || ""}`.toLowerCase();
  return rows.filter((row) => row.active && words.every((word) => text(row).includes(word)))
    .sort((a, b) => !a.name - !b.name || b.expected_activation - a.expected_activation);
}

/** The search form. `value` is the text it starts with. */
export function finder(value) {
  const list = element("div", { class: "choices", role: "listbox", "aria-label": "Suggestions", hidden: true });
  let waiting = 0;
  let latest = 0;

  function showList(isShown) {
    list.hidden = !isShown;
    input.setAttribute("aria-expanded", String(isShown));
  }

  function option(target, ...inside) {
    return element("a", { role: "option", class: "suggestion", href: target, onclick: () => showList(false) }, inside);
  }

  async function suggest() {
    const mine = (latest += 1);
    const set = setNumber();
    const text = input.value.trim();
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length) {
      showList(false);
      return;
    }
    const [features, samples] = await Promise.all([
      matchingFeatures(set, words),
      isStatic ? { total: 0, samples: [] } : ask(`sets/${set}/find`, [["q", text], ["shown", SAMPLES]]).catch(() => ({ total: 0, samples: [] })),
    ]);
    if (mine !== latest || document.activeElement !== input) return;
    list.replaceChildren(...[
      ...features.slice(0, FEATURES).map((row) => option(href(`/feature/${row.feature}`, forSet(set)), ...titleParts(row))),
      features.length > FEATURES && option(href("/features", forSet(set, { q: text })), element("span", { class: "soft" }, `All ${features.length} features`)),
      ...samples.samples.map((sample) => option(href(`/sample/${sample.row}`, forSet(set)),
        element("span", { class: "soft" }, `${kind(set, 1)} `), dataText(sample.excerpt ?? sample.id))),
      samples.total > SAMPLES && option(href("/samples", forSet(set, { q: text })), element("span", { class: "soft" }, `All ${samples.total.toLocaleString("en")} ${kind(set)}`)),
    ].filter(Boolean));
    showList(list.children.length > 0);
  }

  function step(event) {
    const options = [...list.children];
    const index = options.indexOf(document.activeElement);
    if (event.key === "ArrowDown" && !list.hidden) options[Math.min(options.length - 1, index + 1)]?.focus();
    else if (event.key === "ArrowUp" && index >= 0) (index > 0 ? options[index - 1] : input).focus();
    else if (event.key === "Escape" && !list.hidden) {
      input.focus();
      showList(false);
    } else return;
    event.preventDefault();
  }

  const input = element("input", {
    id: "find", type: "search", name: "q", placeholder: "Find features and samples", autocomplete: "off", value,
    "aria-label": "Find features and samples", role: "combobox", "aria-expanded": "false",
    oninput: () => {
      clearTimeout(waiting);
      waiting = setTimeout(suggest, DELAY);
    },
  });
  const hide = () => setTimeout(() => {
    if (!list.contains(document.activeElement) && document.activeElement !== input) showList(false);
  }, HIDE_DELAY);
  return element("form", {
    role: "search", class: "chooser", onkeydown: step, onfocusout: hide,
    onsubmit: async (event) => {
      event.preventDefault();
      latest += 1;
      showList(false);
      const [set, text] = [setNumber(), input.value.trim()];
      const features = await matchingFeatures(set, text.toLowerCase().split(/\s+/).filter(Boolean));
      go(href(features.length || isStatic ? "/features" : "/samples", forSet(set, { q: text })));
    },
  }, input, list);
}
