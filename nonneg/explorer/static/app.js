// Entry point: header, routes and keyboard shortcuts.

import { focusPlace, follow, go, here, href, isStatic, forSet, restoreFocus, setNumber } from "./address.js";
import { forget, forgetNames } from "./api.js";
import { dataText, element } from "./build.js";
import { finder } from "./finder.js";
import { mapPage } from "./map.js";
import { loadOverview, titleTab } from "./pieces.js";
import { samplesPage } from "./samples.js";
import { firstVisit, showTour } from "./tour.js";
import { comparePage } from "./compare.js";
import { composePage } from "./compose.js";
import { featurePage } from "./feature.js";
import { featuresPage } from "./features.js";
import { overviewPage } from "./overview.js";
import { referencePage } from "./reference.js";
import { samplePage } from "./sample.js";
import { findsByWords, tryPage } from "./try.js";

const ROUTES = [
  [/^\/$/, overviewPage],
  [/^\/features$/, featuresPage],
  [/^\/feature\/(\d+)$/, featurePage],
  [/^\/sample\/(\d+)$/, samplePage],
  [/^\/samples$/, samplesPage],
  [/^\/map$/, mapPage],
  [/^\/compose$/, composePage],
  [/^\/compare$/, comparePage],
  [/^\/try$/, tryPage],
  [/^\/reference$/, referencePage],
];
const LIVE_ONLY = /^\/(samples|compose|try|reference)$/; // pages that a static copy does not have
const POLL = 1500; // milliseconds between checks whether hints from texts are ready
const TYPED = "input:not([type=checkbox]):not([type=range]), textarea, select, [contenteditable]"; // takes letters

const main = document.getElementById("main");
let latest = 0; // number of the latest call of draw

/** What is open: the names of the sets, with the model and the data of each as far as they are known. */
function project({ sets }) {
  const shared = sets.every((each) => each.source === sets[0].source);
  const about = (source) => source && element("span", { class: "soft" }, " · ", dataText(source));
  return element("p", { class: "project clamped" }, sets.map((each, place) => [
    place ? " and " : "", element("a", { href: href("/", forSet(place)), class: "name" }, dataText(each.name)), !shared && about(each.source),
  ]), shared && about(sets[0].source));
}

function isFinding() {
  return document.activeElement?.id === "find";
}

function header(overview) {
  const { path } = here();
  const set = Object.hasOwn(overview.sets, setNumber()) ? setNumber() : 0;
  const link = (target, text, current) =>
    element("a", { href: href(target, forSet(set)), "aria-current": current ? "page" : null }, text);
  const pages = [["/", "Overview", path === "/"], ["/features", "Features", /^\/feature/.test(path)]];
  if (!isStatic || overview.sets[set]?.has_map) pages.push(["/map", "Map", path === "/map"]);
  if (!isStatic) pages.push(["/samples", "Samples", /^\/sample/.test(path)]);
  if (!isStatic) pages.push(["/compose", "Compose", path === "/compose"]);
  if (overview.same_samples) pages.push(["/compare", "Compare", path === "/compare"]);
  if (overview.sets.some((each) => each.can_encode)) {
    pages.push(["/try", overview.sets.some(findsByWords) ? "Search" : "Try", path === "/try"]);
  }
  const bar = document.getElementById("header");
  const parts = [project(overview), element("nav", { class: "places", "aria-label": "Pages" }, pages.map((page) => link(...page)))];
  // What somebody is typing is kept.
  if (isFinding()) parts.forEach((part, place) => bar.children[place].replaceWith(part));
  else bar.replaceChildren(...parts, finder(/^\/(features|samples)$/.test(path) ? here().parameters.get("q") || "" : ""));
  document.getElementById("footer").replaceChildren(
    isStatic
      ? dataText(`Static copy. ${overview.note || ""}`)
      : element("span", {}, element("span", { class: "keys" }, "Keyboard: / to search, j and k to move. "), element("a", { href: href("/reference") }, "API"), " · ",
        element("button", { type: "button", class: "link", onclick: showTour }, "Tour")),
  );
}

/** Draw the current page: at the top if `fresh`, at the position and with the focus if given, or else as it is. */
async function draw(fresh, { scroll = null, focus: left = null } = {}) {
  const mine = (latest += 1);
  const { path, parameters } = here();
  // The overview is the slowest request, and only the first page shows the names in it.
  if (!isStatic && (fresh || scroll !== null)) forgetNames(path === "/" ? "" : "overview");
  main.setAttribute("aria-busy", "true");
  let page;
  let overview = null;
  let focus = null;
  try {
    overview = await loadOverview();
    const number = setNumber();
    if (!Object.hasOwn(overview.sets, number)) throw new Error(`There is no set number ${parameters.get("set")}.`);
    if (isStatic && LIVE_ONLY.test(path)) throw new Error("This page is not part of a static copy. Open the features with nonneg explore to use it.");
    const found = ROUTES.map(([pattern, show]) => [path.match(pattern), show]).find(([match]) => match);
    page = found ? await found[1]({ set: number, overview, parameters, number: Number(found[0][1]) }) : null;
    if (mine !== latest) return;
    focus = fresh ? null : left ?? focusPlace();
    header(overview);
    if (!page) throw new Error("This page does not exist.");
  } catch (error) {
    if (mine !== latest) return;
    if (overview) header(overview);
    page = element("section", { class: "trouble" },
      element("h1", {}, "This page cannot be shown"), element("p", {}, error.message),
      element("p", {}, element("a", { href: href("/") }, "Back to the overview")));
  }
  main.replaceChildren(page);
  if (focus && !isFinding()) restoreFocus(focus);
  main.removeAttribute("aria-busy");
  titleTab();
  if (fresh) {
    scrollTo(0, 0);
    if (!isFinding()) main.focus({ preventScroll: true });
  } else if (scroll !== null) scrollTo(0, scroll);
}

/** Draw the page again when hints from texts are ready and the reader is not typing. */
async function awaitHints() {
  const areReady = () => loadOverview().then(({ sets }) => sets.every((each) => each.is_settled), () => false);
  const isTyping = () => document.activeElement?.matches(TYPED) || main.querySelector(".edit");
  const pause = () => new Promise((resolve) => setTimeout(resolve, POLL));
  if (isStatic || await areReady()) return;
  do {
    await pause();
    forget();
  } while (!await areReady());
  while (isTyping()) await pause();
  if (!/^\/(map|try)$/.test(here().path)) draw(false, { scroll: scrollY }); // what these pages show is not in their address
}

/** Move the focus through a list of links. */
function step(by) {
  const links = [...main.querySelectorAll("[data-list] a[href], a.caption[data-step]")].filter((link) => link.offsetParent);
  if (!links.length) return;
  const index = links.indexOf(document.activeElement);
  links[Math.min(links.length - 1, Math.max(0, index + by))].focus();
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.matches(TYPED);
  if (event.metaKey || event.ctrlKey || event.altKey) return;
  if (event.key === "Escape" && typing && !event.defaultPrevented) event.target.blur();
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
  // A cookie has replaced the token, which should not be copied with the address.
  parameters.delete("token");
  go(href(path, Object.fromEntries(parameters)), { replace: true, quiet: true });
}
follow(draw);
draw(false).then(() => {
  // A copy lacks half of what the tour shows.
  if (!isStatic && !main.querySelector(".trouble")) firstVisit();
  return awaitHints();
});
