// A search field for choosing a feature by part of its name, its words or its number.

import { element } from "./build.js";
import { combobox } from "./combobox.js";
import { titleParts } from "./pieces.js";

const MAX_OPTIONS = 8;

/** Offer the `rows` of the feature table except the `excluded` ones; `choose` receives a feature's number. */
export function chooser(label, rows, excluded, choose) {
  function suggest() {
    const words = box.input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (row) => `${row.feature} ${row.name || ""} ${row.hint || ""}`.toLowerCase();
    const matches = rows.filter((row) => row.active && !excluded.has(row.feature) && words.every((word) => text(row).includes(word)));
    // The exact number first, then named features.
    const exact = (row) => words.length === 1 && String(row.feature) === words[0];
    matches.sort((a, b) => exact(b) - exact(a) || !a.name - !b.name || b.expected_activation - a.expected_activation);
    box.show(matches.slice(0, MAX_OPTIONS).map((row) =>
      element("button", { type: "button", role: "option", tabindex: -1, onclick: () => choose(row.feature) }, ...titleParts(row))));
  }

  const box = combobox(label, suggest, (first) => first?.click(), { oninput: suggest, onfocus: suggest });
  return box.form;
}
