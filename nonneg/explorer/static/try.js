// A new image or text: what it is made of. It is sent to this server alone, and not kept.

import { href, of } from "./address.js";
import { send } from "./api.js";
import { announce, element } from "./build.js";
import { hits, kind, placesOf, setChoice, sharp, title } from "./pieces.js";
import { partsOf } from "./sample.js";

function taken(set, given, { parts, neighbours }) {
  const titles = new Map(parts.map((part) => [part.caption.feature, title(part.caption)]));
  const words = `Made of ${parts.length} ${parts.length === 1 ? "feature" : "features"}`;
  announce(words);
  return [
    element("div", { class: "apart" },
      given instanceof Blob
        ? element("div", { class: "whole" }, element("img", { src: URL.createObjectURL(given), alt: "your image", onload: sharp }))
        : element("div", { class: "whole written" }, element("p", { class: "text", dir: "auto" }, given)),
      element("div", {}, element("h2", {}, words), partsOf(set, parts))),
    element("h2", {}, "Most like it"),
    neighbours.length
      ? hits(set, neighbours, placesOf([...titles.keys()]), titles)
      : element("p", {}, "No feature is on for it."),
  ];
}

export async function tryPage({ set, overview }) {
  const able = overview.sets[set].can_encode ? set : overview.sets.findIndex((each) => each.can_encode);
  if (able < 0) throw new Error("These features were opened without their model; open the trained run to try images on it.");
  const isText = overview.sets[able].can_encode === "text";
  const result = element("div");

  async function show(given) {
    if (!given) return;
    result.replaceChildren(element("p", { class: "soft" }, "Looking…"));
    try {
      const found = isText
        ? await send("POST", `sets/${able}/encode-text`, { text: given })
        : await send("POST", `sets/${able}/encode`, given);
      result.replaceChildren(...taken(able, given, found));
    } catch (error) {
      result.replaceChildren(element("p", { class: "trouble", role: "alert" }, error.message));
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

  const typed = element("textarea", { id: "typed", rows: 4, dir: "auto", "aria-label": "a text of your own" });
  const form = element("form", {
    class: "typing",
    onsubmit: (event) => {
      event.preventDefault();
      show(typed.value.trim());
    },
  }, typed, element("button", { type: "submit" }, "Take it apart"));

  return element("section", {},
    element("div", { class: "head" }, element("h1", {}, isText ? "Try a text" : "Try an image"), setChoice(able, (other) => href("/try", of(other)))),
    element("p", {},
      `See which features light up on ${isText ? "a text" : "an image"} of your own. It should be of the same kind as the`,
      ` ${kind(able)} here. It is sent to this server alone, and not kept.`),
    isText ? form : drop, result);
}
