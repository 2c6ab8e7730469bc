// The features of a new image or text. It is sent only to this server and is not stored.

import { go, here, href, forSet } from "./address.js";
import { askOnce, picture, send } from "./api.js";
import { announce, dataText, element } from "./build.js";
import { markedText } from "./marks.js";
import { counted, face, hits, kind, placesOf, setChoice, markSmall, title } from "./pieces.js";
import { partsOf } from "./sample.js";

const EXAMPLES = 4;

function encodedInput(set, given, { parts, neighbours, warning }, finds) {
  const titles = new Map(parts.map((part) => [part.caption.feature, title(part.caption)]));
  const words = counted(parts.length, "active feature");
  announce(words);
  const similar = [
    element("h2", {}, finds ? "Found" : "Most similar"),
    neighbours.length
      ? hits(set, neighbours, placesOf([...titles.keys()]), titles)
      : element("p", {}, "No feature is active on it."),
  ];
  return [
    warning && element("p", { class: "warning", role: "alert" }, element("b", {}, "Out of range. "), warning,
      " The result below is unreliable."),
    ...(finds ? similar : []),
    finds && element("h2", {}, "Features of the words"),
    element("div", { class: "apart" },
      given instanceof Blob
        ? element("div", { class: "whole" }, element("img", { src: URL.createObjectURL(given), alt: "your image", onload: markSmall }))
        : element("div", { class: "whole written" }, markedText(set, given, parts)),
      element("div", {}, element("h2", {}, words), partsOf(set, parts))),
    ...(finds ? [] : similar),
  ].filter(Boolean);
}

/** Whether words find the pictures of a set: of pairs, both have the same features. */
export function findsByWords(each) {
  return each.can_encode === "text" && each.kind === "images";
}

/** Return names of features that have no word in common, as examples of what to search for. */
function exampleWords({ strongest_features, spread_features }) {
  // A hint with a score is a suggested name; others, such as "mostly dog", are no words to search by.
  const named = [...strongest_features, ...spread_features].map((row) => row.name || (row.score !== null && row.hint));
  const seen = new Set();
  const isNew = (name) => {
    const words = name.toLowerCase().split(/[\s,]+/);
    if (words.some((word) => seen.has(word))) return false;
    words.forEach((word) => seen.add(word));
    return true;
  };
  return named.filter(Boolean).filter(isNew).slice(0, EXAMPLES).map((name) => name.replaceAll(",", ""));
}

/** A search box for words, with names of features as examples. */
export function wordsForm(set, overview, value = "") {
  const input = element("input", {
    id: "words", type: "search", placeholder: "Describe what you look for", autocomplete: "off", dir: "auto", value, "aria-label": "Words",
  });
  const search = (words) => go(href("/try", forSet(set, { words })));
  const examples = exampleWords(overview.sets[set]);
  return element("div", {},
    element("form", {
      role: "search", class: "words",
      onsubmit: (event) => {
        event.preventDefault();
        if (input.value.trim()) search(input.value.trim());
      },
    }, input, element("button", { type: "submit" }, "Find pictures")),
    examples.length > 0 && element("p", { class: "soft" }, "For example: ", examples.flatMap((words, place) => [
      place ? " · " : "",
      element("button", { type: "button", class: "link", onclick: () => search(words) }, dataText(words)),
    ])));
}

/** A text of the set to try, as a link. `choose` receives the text. */
function exampleText({ example: { text } }, choose) {
  return text && element("p", { class: "soft" }, "For example: ",
    element("button", { type: "button", class: "link", onclick: () => choose(text) }, dataText(text.slice(0, 80))));
}

/** Images of the set to try: the strongest of several features. `choose` receives the content of an image. */
async function exampleImages(set, info, choose) {
  const strips = await Promise.all(info.strongest_features.map((row) => askOnce(`sets/${set}/strip/${row.feature}`)));
  const samples = new Map(strips.map(({ strongest }) => [strongest[0]?.row, strongest[0]]));
  const pictured = [...samples.values()].filter((sample) => sample?.has_picture);
  const load = async ({ row }) => choose(await (await fetch(picture(set, info, row))).blob());
  return pictured.length > 0 && element("div", { class: "examples" },
    element("p", { class: "soft" }, `Or one of the ${info.kind} in this set:`),
    element("div", { class: "tiles" }, pictured.map((sample) =>
      element("button", { type: "button", class: "plain tile", "aria-label": `Try ${kind(set, 1)} ${sample.id}`, onclick: () => load(sample) }, face(set, sample)))));
}

export async function tryPage({ set, overview }) {
  const usable = overview.sets[set].can_encode ? set : overview.sets.findIndex((each) => each.can_encode);
  if (usable < 0) throw new Error("These features were opened without their model. Open the trained run to try new samples.");
  const isText = overview.sets[usable].can_encode === "text";
  const finds = findsByWords(overview.sets[usable]);
  const result = element("div", { class: "tried" });
  let latest = null; // the input that was given last

  async function show(given) {
    if (!given) return;
    latest = given;
    result.replaceChildren(element("p", { class: "soft" }, "Encoding…"));
    try {
      const found = isText
        ? await send("POST", `sets/${usable}/encode-text`, { text: given })
        : await send("POST", `sets/${usable}/encode`, given);
      if (given === latest) result.replaceChildren(...encodedInput(usable, given, found, finds));
    } catch (error) {
      if (given === latest) result.replaceChildren(element("p", { class: "trouble", role: "alert" }, error.message));
    }
  }

  const file = element("input", {
    type: "file", id: "file", accept: "image/png,image/jpeg", onchange: () => show(file.files[0]),
  });
  const drop = element("label", {
    class: "drop",
    for: "file",
    ondragover: (event) => {
      event.preventDefault();
      drop.classList.add("over");
    },
    ondragleave: () => drop.classList.remove("over"),
    ondrop: (event) => {
      event.preventDefault();
      drop.classList.remove("over");
      show(event.dataTransfer.files[0]);
    },
  }, file, element("span", {}, "Drop an image here, or choose one (PNG or JPEG)."));

  const typed = element("textarea", { id: "typed", rows: 4, dir: "auto", "aria-label": "Your text" });
  if (finds) {
    const words = here().parameters.get("words") || "";
    setTimeout(() => show(words.trim()));
    return element("section", {},
      element("div", { class: "head" }, element("h1", {}, "Find pictures by words"), setChoice(usable, (other) => href("/try", forSet(other)))),
      wordsForm(usable, overview, words),
      element("p", { class: "soft" }, "The words and the pictures share their features. Words are sent only to this server and are not stored."),
      result);
  }
  const form = element("form", {
    class: "typing",
    onsubmit: (event) => {
      event.preventDefault();
      show(typed.value.trim());
    },
  }, typed, element("button", { type: "submit" }, "Show its features"));

  return element("section", {},
    element("div", { class: "head" }, element("h1", {}, isText ? "Try a text" : "Try an image"), setChoice(usable, (other) => href("/try", forSet(other)))),
    element("p", {}, `See which features are active on ${isText ? "a text" : "an image"} of your own. It should resemble the ${kind(usable)} in`
        + " this set. It is sent only to this server and is not stored."),
    isText ? form : drop,
    isText
      ? exampleText(overview.sets[usable], (text) => {
        typed.value = text;
        show(text);
      })
      : await exampleImages(usable, overview.sets[usable], show),
    result);
}
