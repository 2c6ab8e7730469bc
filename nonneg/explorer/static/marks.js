// A text in which the words that switch a feature on are marked, and a button per feature that chooses it.

import { isStatic } from "./address.js";
import { send } from "./api.js";
import { announce, dataText, element, figure } from "./build.js";
import { encodesTexts, fullTitle, title } from "./pieces.js";

const WEAKEST = 0.1; // share of the largest effect below which a word is not marked

/** Parts of a text: plain strings, and marked words that are the stronger the larger their effect. */
function marked(text, words) {
  const characters = [...text]; // the server counts characters, not the 16-bit units of a JavaScript string
  const largest = Math.max(...words.map((word) => word.effect), 0);
  const parts = [];
  let place = 0;
  for (const { start, stop, effect } of words) {
    const strength = largest > 0 ? effect / largest : 0;
    if (strength < WEAKEST) continue;
    parts.push(characters.slice(place, start).join(""),
      element("mark", {
        class: "word",
        style: { backgroundColor: `color-mix(in srgb, var(--mark) ${Math.round(100 * strength)}%, transparent)` },
        title: `weaker by ${figure(effect)} without this word`,
      }, characters.slice(start, stop).join("")));
    place = stop;
  }
  return [...parts, characters.slice(place).join("")];
}

function hasModel(set) {
  return !isStatic && encodesTexts(set);
}

/** Mark the words of a feature in tiles of texts, which are shown before the marks are known; returns the tiles. */
export function markTiles(set, feature, tiles) {
  async function mark(excerpts) {
    for (const excerpt of excerpts) {
      const text = excerpt.textContent;
      if (!text.trim()) continue; // a text without words is an error
      const { words } = await send("POST", `sets/${set}/marks`, { text, feature });
      excerpt.replaceChildren(...marked(text, words));
    }
  }

  // Without marks the page is complete; a model that cannot be used is reported where it was asked for.
  if (hasModel(set)) mark(tiles.querySelectorAll(".excerpt")).catch(() => {});
  return tiles;
}

/** The text, and a chooser of the feature whose words are marked; just the text if no model is open. */
export function markedText(set, text, parts) {
  const shown = element("p", { class: "text", dir: "auto" }, text);
  if (!parts.length || !hasModel(set)) return [shown];
  const note = element("p", { class: "soft clamped", role: "status" });
  let latest = null;

  async function show(caption) {
    latest = caption;
    note.replaceChildren("Looking for the words…");
    try {
      const found = await send("POST", `sets/${set}/marks`, { text, feature: caption.feature });
      if (latest !== caption) return;
      shown.replaceChildren(...marked(text, found.words));
      note.replaceChildren("Marked: words without which “", dataText(title(caption)), "” is weaker.");
    } catch (error) {
      if (latest === caption) note.replaceChildren(error.message);
    }
    announce(note.textContent);
  }

  const choice = element("select", { "aria-label": "Mark the words of", onchange: () => show(parts[choice.selectedIndex].caption) },
    parts.slice(0, 50).map(({ caption }) => element("option", { value: caption.feature }, fullTitle(caption))));
  show(parts[0].caption);
  return [shown, element("label", { class: "marking" }, "Mark the words of ", choice), note];
}
