// A field to choose a feature in, by typing a part of its name, its words or its number.

import { element, said } from "./build.js";
import { title } from "./pieces.js";

const OFFERED = 8;
const LINGERS = 200; // milliseconds in which a click on an offer is still counted

/** `rows` of the table of features, without those that are `taken`; `choose` gets a feature's number. */
export function chooser(label, rows, taken, choose) {
  const list = element("div", { class: "choices", role: "listbox", "aria-label": label, hidden: true });

  function offer() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const text = (row) => `${row.feature} ${row.name || ""} ${row.hint || ""}`.toLowerCase();
    const fits = rows.filter((row) => row.active && !taken.has(row.feature) && words.every((word) => text(row).includes(word)));
    // Named ones first, and the number that was typed before numbers that hold it.
    const exact = (row) => words.length === 1 && String(row.feature) === words[0];
    fits.sort((a, b) => exact(b) - exact(a) || !a.name - !b.name || b.expected_activation - a.expected_activation);
    list.replaceChildren(...fits.slice(0, OFFERED).map((row) =>
      element("button", { type: "button", role: "option", onclick: () => choose(row.feature) },
        said(title(row), { class: row.name ? "name" : "hint" }), " ",
        element("span", { class: "soft number" }, `feature ${row.feature}`))));
    list.hidden = !fits.length;
    input.setAttribute("aria-expanded", String(fits.length > 0));
  }

  function hide() {
    if (list.contains(document.activeElement)) return;
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
  }

  function step(event) {
    const options = [...list.children];
    const place = options.indexOf(document.activeElement);
    const steps = {
      ArrowDown: () => options[Math.min(options.length - 1, place + 1)]?.focus(),
      ArrowUp: () => (place > 0 ? options[place - 1] : input).focus(),
      Enter: () => options[Math.max(0, place)]?.click(),
      Escape: () => {
        input.focus();
        list.hidden = true;
      },
    };
    if (!(event.key in steps)) return;
    event.preventDefault();
    steps[event.key]();
  }

  const input = element("input", {
    type: "search", placeholder: label, "aria-label": label, autocomplete: "off", role: "combobox", "aria-expanded": "false",
    oninput: offer, onfocus: offer,
  });
  return element("div", { class: "chooser", onkeydown: step, onfocusout: () => setTimeout(hide, LINGERS) }, input, list);
}
