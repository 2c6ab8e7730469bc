// A search field with a list of suggestions, for the mouse, the keyboard and screen readers.

import { element } from "./build.js";

const HIDE_DELAY = 200; // milliseconds, so that a click on a suggestion still arrives
let made = 0;

/**
 * Return the field in its form, and functions that show a list of options or hide it. `suggest` is called when the
 * reader wants suggestions, `submit` after Enter in the field; `properties` are those of the field.
 */
export function combobox(label, suggest, submit, properties = {}) {
  made += 1;
  const list = element("div", { id: `choices-${made}`, class: "choices", role: "listbox", "aria-label": label, hidden: true });
  const input = element("input", {
    type: "search", placeholder: label, "aria-label": label, autocomplete: "off",
    role: "combobox", "aria-expanded": "false", "aria-controls": list.id, ...properties,
  });

  function setShown(isShown) {
    list.hidden = !isShown;
    input.setAttribute("aria-expanded", String(isShown));
  }
  const hide = () => setShown(false);

  function step(event) {
    const options = [...list.querySelectorAll("[role=option]")];
    const place = options.indexOf(document.activeElement);
    if (event.key === "ArrowDown" && list.hidden) suggest();
    else if (event.key === "ArrowDown") options[Math.min(options.length - 1, place + 1)]?.focus();
    else if (event.key === "ArrowUp" && place >= 0) (options[place - 1] ?? input).focus();
    else if (event.key === "Escape" && !list.hidden) {
      input.focus();
      hide();
    } else return;
    event.preventDefault();
  }

  const form = element("form", {
    class: "chooser",
    onkeydown: step,
    onfocusout: () => setTimeout(() => form.contains(document.activeElement) || hide(), HIDE_DELAY),
    onsubmit: (event) => {
      event.preventDefault();
      submit(list.hidden ? null : list.querySelector("[role=option]"));
      hide();
    },
  }, input, list);
  return {
    form,
    input,
    hide,
    show(options) {
      list.replaceChildren(...options);
      setShown(options.length > 0);
    },
  };
}
