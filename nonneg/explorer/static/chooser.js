// A search field for choosing a feature by part of its name, its words or its number.

import { element } from "./build.js";
import { titleParts } from "./pieces.js";

const MAX_OPTIONS = 8;
const HIDE_DELAY = 200; // milliseconds, so that a click on an option still arrives

/** Offer the `rows` of the feature table except the `excluded` ones; `choose` receives a feature's number. */
export function chooser(label, rows, excluded, choose) {
  const list = element("div", { class: "choices", role: "listbox", "aria-label": label, hidden: true });

  function showList(isShown) {
    list.hidden = !isShown;
    input.setAttribute("aria-expanded", String(isShown));
  }

  function showOptions() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (row) => `${row.feature} ${row.name || ""} ${row.hint || ""}`.toLowerCase();
    const matches = rows.filter((row) => row.active && !excluded.has(row.feature) && words.every((word) => text(row).includes(word)));
    // The exact number first, then named features.
    const exact = (row) => words.length === 1 && String(row.feature) === words[0];
    matches.sort((a, b) => exact(b) - exact(a) || !a.name - !b.name || b.expected_activation - a.expected_activation);
    list.replaceChildren(...matches.slice(0, MAX_OPTIONS).map((row) =>
      element("button", { type: "button", role: "option", onclick: () => choose(row.feature) }, ...titleParts(row))));
    showList(matches.length > 0);
  }

  function hide() {
    if (!list.contains(document.activeElement)) showList(false);
  }

  function step(event) {
    const options = [...list.children];
    const index = options.indexOf(document.activeElement);
    const steps = {
      ArrowDown: () => options[Math.min(options.length - 1, index + 1)]?.focus(),
      ArrowUp: () => (index > 0 ? options[index - 1] : input).focus(),
      Enter: () => !list.hidden && options[Math.max(0, index)]?.click(),
      Escape: () => {
        input.focus();
        showList(false);
      },
    };
    if (!(event.key in steps)) return;
    event.preventDefault();
    steps[event.key]();
  }

  const input = element("input", {
    type: "search", placeholder: label, "aria-label": label, autocomplete: "off", role: "combobox", "aria-expanded": "false",
    oninput: showOptions, onfocus: showOptions,
  });
  return element("div", { class: "chooser", onkeydown: step, onfocusout: () => setTimeout(hide, HIDE_DELAY) }, input, list);
}
