// A feature's name: who gave it, how well it tells, how to change it.

import { ask, forget, send } from "./api.js";
import { announce, element, percent, said } from "./build.js";

const AUTHOR = "explorer-author";

function day(time) {
  return new Date(time).toLocaleDateString("en", { day: "numeric", month: "long", year: "numeric" });
}

/** How well a name tells whether its feature is on. */
function score(found) {
  return found && element("p", { class: "soft clamped", "data-score": found.score },
    "On samples kept aside, ", said(found.by),
    ` ranks one with this feature above one without it ${percent(found.score)} of the time; 50% is chance.`);
}

function past(history) {
  const entry = ({ name, author, time }) => element("li", {},
    name ? said(name, { class: "name" }) : element("i", {}, "name taken away"), " ",
    element("span", { class: "soft" }, said(author || "somebody"), `, ${day(time)}`));
  return history.length > 0 && element("details", {},
    element("summary", {}, `${history.length} ${history.length === 1 ? "naming" : "namings"}`),
    element("ol", { class: "history" }, history.map(entry)));
}

/** The name, with an editor behind a button. `called` gets the new caption. */
export function naming(set, page, canName, called) {
  const place = element("div", { class: "naming" });
  const path = `sets/${set}/feature/${page.row.feature}`;
  let { row, history, name_score: told } = page;

  function rest() {
    const [latest] = history;
    place.replaceChildren(element("div", {},
      row.name && latest && element("p", { class: "soft clamped" },
        "Named by ", said(latest.author || "somebody"), ` on ${day(latest.time)}.`),
      row.name && score(told),
      canName && element("button", { type: "button", onclick: () => edit(row.name || "") },
        row.name ? "Rename" : "Give it a name"),
      past(history)));
  }

  /** Put the editor away; who used the keyboard goes on where they began. */
  function close() {
    rest();
    place.querySelector("button")?.focus();
  }

  function edit(text, trouble = "") {
    const name = element("input", { name: "name", value: text, maxlength: 500, autocomplete: "off", dir: "auto" });
    const author = element("input", {
      name: "author", value: localStorage.getItem(AUTHOR) || "", maxlength: 100, autocomplete: "name", dir: "auto",
    });
    place.replaceChildren(element("form", {
      class: "edit",
      onsubmit: (event) => {
        event.preventDefault();
        localStorage.setItem(AUTHOR, author.value);
        save(name.value, author.value);
      },
    },
    element("label", {}, "What do these have in common?", name),
    element("label", {}, "Your name", author),
    element("p", { class: "trouble clamped", role: "alert" }, trouble),
    element("div", { class: "buttons" },
      element("button", { class: "main" }, "Save"), element("button", { type: "button", onclick: close }, "Cancel"))));
    name.focus();
  }

  async function save(name, author) {
    try {
      const named = await send("PUT", `${path}/name`, { name, author, replaces: row.name || "" });
      take({ row: { ...row, ...named.caption }, history: named.history, name_score: named.name_score });
      close();
      announce("Saved");
    } catch (error) {
      if (error.status !== 409) {
        edit(name, error.message);
        return;
      }
      take(await ask(path));
      const other = history[0]?.author || "somebody";
      edit(name, ["Meanwhile ", said(other), " called it “", said(row.name || ""),
        "”. Save again to replace that; both stay in its history."]);
    }
  }

  function take(now) {
    ({ row, history, name_score: told } = now);
    forget();
    called(row);
  }

  rest();
  return place;
}
