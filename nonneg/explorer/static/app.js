// Begins here: header, routes, keys.

import { follow, go, here, href, isStatic, of, setNumber } from "./address.js";
import { forget, forgetNames } from "./api.js";
import { element, said } from "./build.js";
import { known } from "./pieces.js";
import { comparePage } from "./compare.js";
import { composePage } from "./compose.js";
import { featurePage } from "./feature.js";
import { featuresPage } from "./features.js";
import { overviewPage } from "./overview.js";
import { referencePage } from "./reference.js";
import { samplePage } from "./sample.js";
import { tryPage } from "./try.js";

const ROUTES = [
  [/^\/$/, overviewPage],
  [/^\/features$/, featuresPage],
  [/^\/feature\/(\d+)$/, featurePage],
  [/^\/sample\/(\d+)$/, samplePage],
  [/^\/compose$/, composePage],
  [/^\/compare$/, comparePage],
  [/^\/try$/, tryPage],
  [/^\/reference$/, referencePage],
];
const SERVED = /^\/(compose|try|reference)$/; // pages that ask more than a copy holds
const SETTLES = 1500; // milliseconds between questions whether words have been found

const main = document.getElementById("main");
let turn = 0;

function header(overview) {
  const { path } = here();
  const set = setNumber();
  const link = (target, text, current) =>
    element("a", { href: href(target, of(set)), "aria-current": current ? "page" : null }, text);
  const places = [["/", "Overview", path === "/"], ["/features", "Features", /^\/feature/.test(path)]];
  if (!isStatic) places.push(["/compose", "Compose", path === "/compose"]);
  if (overview.sets.length > 1) places.push(["/compare", "Compare", path === "/compare"]);
  if (overview.sets.some((each) => each.can_encode)) places.push(["/try", "Try", path === "/try"]);
  const find = element("input", {
    id: "find", type: "search", name: "q", placeholder: "Find a feature", autocomplete: "off",
    "aria-label": "Find a feature by name, word or label", value: path === "/features" ? here().parameters.get("q") || "" : "",
  });
  document.getElementById("header").replaceChildren(
    element("nav", { class: "places", "aria-label": "pages" }, places.map((place) => link(...place))),
    element("form", {
      role: "search",
      onsubmit: (event) => {
        event.preventDefault();
        go(href("/features", of(setNumber(), { q: find.value.trim() })));
      },
    }, find),
  );
  document.getElementById("footer").replaceChildren(
    isStatic
      ? said(`A static copy. ${overview.note || ""}`)
      : element("span", {}, "Keys: / finds, j and k step. ", element("a", { href: href("/reference") }, "For programs")),
  );
}

/** What has the focus, in words that find it on a page that is drawn again. */
function focused() {
  const held = document.activeElement;
  for (const name of ["aria-label", "href"]) {
    const value = held?.getAttribute(name);
    if (value) return `${held.localName}[${name}="${CSS.escape(value)}"]`;
  }
  return null;
}

/** Draw what is at the address: from its `fresh` top, or as far down as `place`, or leaving the reader where they are. */
async function draw(fresh, place = null) {
  const mine = (turn += 1);
  const { path, parameters } = here();
  // Only the first page shows the names that the overview holds; it is the slowest to ask for.
  if (!isStatic && (fresh || place !== null)) forgetNames(path === "/" ? "" : "overview");
  main.setAttribute("aria-busy", "true");
  let page;
  let held = null;
  try {
    const overview = await known();
    const number = setNumber();
    if (!Object.hasOwn(overview.sets, number)) throw new Error(`There is no set ${parameters.get("of")} here.`);
    if (isStatic && SERVED.test(path)) throw new Error("A copy has no such page; it needs the explorer itself.");
    const found = ROUTES.map(([pattern, show]) => [path.match(pattern), show]).find(([match]) => match);
    page = found ? await found[1]({ set: number, overview, parameters, number: Number(found[0][1]) }) : null;
    if (mine !== turn) return;
    held = fresh ? null : focused();
    header(overview);
    if (!page) throw new Error("There is no such page.");
  } catch (error) {
    if (mine !== turn) return;
    page = element("section", { class: "trouble" },
      element("h1", {}, "This cannot be shown"), element("p", {}, error.message),
      element("p", {}, element("a", { href: href("/") }, "Back to the overview")));
  }
  main.replaceChildren(page);
  if (held) document.querySelector(held)?.focus({ preventScroll: true });
  main.removeAttribute("aria-busy");
  document.title = `${main.querySelector("h1")?.textContent || "Explorer"} · Explorer`;
  if (fresh) {
    scrollTo(0, 0);
    main.focus({ preventScroll: true });
  } else if (place !== null) scrollTo(0, place);
}

/** Draw again once words for features of texts have been found. */
async function settle() {
  const overview = await known();
  if (isStatic || overview.sets.every((each) => each.is_settled)) return;
  setTimeout(async () => {
    forget();
    const later = await known();
    const busy = document.activeElement?.matches("input, textarea");
    if (later.sets.every((each) => each.is_settled) && !busy) draw(false, scrollY);
    else settle();
  }, SETTLES);
}

/** Step through a list of links with j, k and the arrows. */
function step(by) {
  const links = [...main.querySelectorAll("[data-list] a[href], a.caption[data-step]")].filter((link) => link.offsetParent);
  if (!links.length) return;
  const place = links.indexOf(document.activeElement);
  links[Math.min(links.length - 1, Math.max(0, place + by))].focus();
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, textarea, select, [contenteditable]");
  if (event.metaKey || event.ctrlKey || event.altKey) return;
  if (event.key === "Escape" && typing) event.target.blur();
  if (typing) return;
  if (event.key === "/") {
    event.preventDefault();
    document.getElementById("find")?.select();
  } else if (event.key === "j" || event.key === "k") step(event.key === "j" ? 1 : -1);
  else if ((event.key === "ArrowRight" || event.key === "ArrowLeft") && event.target.closest("[data-list]")) {
    event.preventDefault();
    step(event.key === "ArrowRight" ? 1 : -1);
  }
});

const { path, parameters } = here();
if (parameters.has("token")) {
  // A cookie has taken its place: it need not be seen, or copied with the address.
  parameters.delete("token");
  go(href(path, Object.fromEntries(parameters)), { replace: true, quiet: true });
}
follow(draw);
draw(false).then(settle);
