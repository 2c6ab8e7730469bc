// The features of a new image or text. It is sent only to this server and is not stored.

import { href, forSet } from "./address.js";
import { describe, send } from "./api.js";
import { announce, dataText, element } from "./build.js";
import { markedText } from "./marks.js";
import { counted, hits, kind, placesOf, setChoice, markSmall, title } from "./pieces.js";
import { partsOf } from "./sample.js";

function encodedInput(set, given, { parts, neighbours, warning }) {
  const titles = new Map(parts.map((part) => [part.caption.feature, title(part.caption)]));
  const words = counted(parts.length, "active feature");
  announce(words);
  return [
    warning && element("p", { class: "warning", role: "alert" }, element("b", {}, "Out of range. "), warning,
      " What follows is what the model makes of it, but do not rely on it."),
    element("div", { class: "apart" },
      given instanceof Blob
        ? element("div", { class: "whole" }, element("img", { src: URL.createObjectURL(given), alt: "your image", onload: markSmall }))
        : element("div", { class: "whole written" }, markedText(set, given, parts)),
      element("div", {}, element("h2", {}, words), partsOf(set, parts))),
    element("h2", {}, "Most similar"),
    neighbours.length
      ? hits(set, neighbours, placesOf([...titles.keys()]), titles)
      : element("p", {}, "No feature is active on it."),
  ];
}

export async function tryPage({ set, overview }) {
  const usable = overview.sets[set].can_encode ? set : overview.sets.findIndex((each) => each.can_encode);
  if (usable < 0) throw new Error("These features were opened without their model. Open the trained run to try new samples.");
  const isText = overview.sets[usable].can_encode === "text";
  const result = element("div");
  let latest = null; // the input that was given last

  async function show(given) {
    if (!given) return;
    latest = given;
    result.replaceChildren(element("p", { class: "soft" }, "Encoding…"));
    try {
      const found = isText
        ? await send("POST", `sets/${usable}/encode-text`, { text: given })
        : await send("POST", `sets/${usable}/encode`, given);
      if (given === latest) result.replaceChildren(...encodedInput(usable, given, found).filter(Boolean));
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
  const form = element("form", {
    class: "typing",
    onsubmit: (event) => {
      event.preventDefault();
      show(typed.value.trim());
    },
  }, typed, element("button", { type: "submit" }, kind(usable) === "images" ? "Find pictures" : "Show its features"));

  // Of pairs, words find pictures: both have the same features.
  const finds = isText && kind(usable) === "images";
  const heading = finds ? "Find pictures by words" : isText ? "Try a text" : "Try an image";
  return element("section", {},
    element("div", { class: "head" }, element("h1", {}, heading), setChoice(usable, (other) => href("/try", forSet(other)))),
    element("p", {}, finds
      ? "Describe what you look for. The words and the pictures share their features. Words are sent only to this server and are not stored."
      : `See which features are active on ${isText ? "a text" : "an image"} of your own. It should resemble the ${kind(usable)} in`
        + " this set. It is sent only to this server and is not stored."),
    isText ? form : drop,
    isText && element("p", { class: "soft" }, "For example: ",
      (await describe(usable, [overview.sets[usable].example.sample.row])).map((sample) =>
        element("button", { type: "button", class: "link", onclick: () => {
          typed.value = sample.excerpt ?? "";
          show(typed.value);
        } }, dataText((sample.excerpt ?? "").slice(0, 80))))),
    result);
}
