// A feature's name: its author, its score, its history and an editor.

import { ask, forget, send } from "./api.js";
import { announce, dataText, element, percent } from "./build.js";
import { kind } from "./pieces.js";
import { recall, remember } from "./storage.js";

const AUTHOR = "explorer-author";

function day(time) {
  return new Date(time).toLocaleDateString("en", { day: "numeric", month: "long", year: "numeric" });
}

/** A sentence about the score of a name, and about the criterion by which it was scored if there is one. */
function scored(set, score, criterion = null) {
  return element("p", { class: "soft clamped", "data-score": score },
    `Score ${score.toFixed(2)}: a held-out ${kind(set, 1)} with the feature fits this name better than one without it, ${percent(score)} of the time (chance: 50%).`,
    criterion && [" Judged by ", dataText(criterion), "."]);
}

function pastNames(history) {
  const entry = ({ name, author, time }) => element("li", {},
    name ? dataText(name, { class: "name" }) : element("i", {}, "name removed"), " ",
    element("span", { class: "soft" }, dataText(author || "somebody"), `, ${day(time)}`));
  return history.length > 0 && element("details", {},
    element("summary", {}, `${history.length} ${history.length === 1 ? "name" : "names"} in its history`),
    element("ol", { class: "history" }, history.map(entry)));
}

/** The name with a button that opens an editor. `onChange` receives the new caption. */
export function naming(set, page, canName, onChange) {
  const place = element("div", { class: "naming" });
  const path = `sets/${set}/feature/${page.row.feature}`;
  let { row, history, name_score: nameScore } = page;

  function show() {
    const [latest] = history;
    place.replaceChildren(element("div", {},
      row.name && latest && element("p", { class: "soft clamped" },
        "Named by ", dataText(latest.author || "somebody"), ` on ${day(latest.time)}.`),
      row.name && nameScore && scored(set, nameScore.score, nameScore.criterion),
      !row.name && (row.is_guess || row.score !== null) && [
        element("p", { class: "soft" }, row.is_guess ? "This name is a guess." : "This name is a suggestion."),
        row.score === null ? null : scored(set, row.score)],
      canName && element("button", { type: "button", onclick: () => edit(row.name || "") },
        row.name ? "Rename" : "Name this feature"),
      pastNames(history)));
  }

  /** Close the editor and return the focus to its button. */
  function close() {
    show();
    place.querySelector("button")?.focus();
  }

  function edit(text, problem = "") {
    const name = element("input", { name: "name", value: text, maxlength: 500, autocomplete: "off", dir: "auto" });
    const author = element("input", {
      name: "author", value: recall(AUTHOR) || "", maxlength: 100, autocomplete: "name", dir: "auto",
    });
    const button = element("button", { class: "main" }, "Save");
    place.replaceChildren(element("form", {
      class: "edit",
      onsubmit: (event) => {
        event.preventDefault();
        button.disabled = true;
        remember(AUTHOR, author.value);
        save(name.value.trim(), author.value.trim());
      },
    },
    element("label", {}, "What do these have in common?", name),
    element("label", {}, "Your name", author),
    element("p", { class: "trouble clamped", role: "alert" }, problem),
    element("div", { class: "buttons" },
      button, element("button", { type: "button", onclick: close }, "Cancel"))));
    name.focus();
  }

  async function save(name, author) {
    try {
      const named = await send("PUT", `${path}/name`, { name, author, replaces: row.name || "" });
      apply({ row: { ...row, ...named.caption }, history: named.history, name_score: named.name_score });
    } catch (error) {
      if (error.status !== 409) {
        edit(name, error.message);
        return;
      }
      apply(await ask(path));
      const { author: other = "", name: now = "" } = history[0] ?? {};
      if (now !== name || other !== author) { // somebody else's name
        edit(name, [dataText(other || "Somebody"), ...(now
          ? [" has renamed it “", dataText(now), "” in the meantime. Save again to replace that name; both stay in the history."]
          : [" has removed its name in the meantime. Save again to name it."])]);
        return;
      }
    }
    close();
    announce("Saved");
  }

  function apply(now) {
    ({ row, history, name_score: nameScore } = now);
    forget();
    onChange(row);
  }

  show();
  return place;
}
