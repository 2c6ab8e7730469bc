// Every state of the page has an address. In a static copy, which is a single page, it follows a #.

export const isStatic = document.documentElement.dataset.mode === "static";

/** Return the current path and parameters. */
export function here() {
  const text = isStatic ? location.hash.slice(1) || "/" : location.pathname + location.search;
  const [path] = text.split("?", 1);
  return { path, parameters: new URLSearchParams(text.slice(path.length)) };
}

/** Return the href of a link to a path; empty parameters are dropped. */
export function href(path, parameters = {}) {
  const kept = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(kept).toString().replaceAll("%3A", ":").replaceAll("%2C", ",");
  return (isStatic ? "#" : "") + path + (query ? `?${query}` : "");
}

/** Return the number of the set of features in the address. */
export function setNumber() {
  return Number(here().parameters.get("set") || 0);
}

/** Return parameters that select a set of features. */
export function forSet(number, parameters = {}) {
  return number ? { ...parameters, set: number } : parameters;
}

let draw = () => {};
const visited = new Map(); // scroll position and focus of each history entry

function entry() {
  return { entry: Math.random() };
}

function remember(part) {
  const key = history.state?.entry;
  visited.set(key, { ...visited.get(key), ...part });
}

/** Describe the focused element, so that it can be found again after the page is redrawn. */
export function focusPlace() {
  const active = document.activeElement;
  for (const name of ["aria-label", "href"]) {
    const value = active?.getAttribute(name);
    if (!value) continue;
    const selector = `${active.localName}[${name}="${CSS.escape(value)}"]`;
    return { selector, place: [...document.querySelectorAll(selector)].indexOf(active) };
  }
  return null;
}

/** Move the focus to an element that `focusPlace` has described. */
export function restoreFocus({ selector, place }) {
  const found = document.querySelectorAll(selector);
  (found[place] ?? found[0])?.focus({ preventScroll: true });
}

/** Go to an address. `replace` adds no history entry; `quiet` does not draw the page. */
export function go(target, { replace = false, quiet = false } = {}) {
  if (replace) history.replaceState(history.state, "", target);
  else history.pushState(entry(), "", target);
  if (quiet) remember({ scroll: scrollY });
  else draw(true);
}

/** Draw the current page again and keep the scroll position. */
export function redraw() {
  draw(false);
}

/** Restore the scroll position and the focus of a visited page; an address typed after the # starts at the top. */
function onPopState({ state }) {
  if (state === null) {
    history.replaceState(entry(), "");
    draw(true);
  } else draw(false, { scroll: 0, ...visited.get(state.entry) });
}

/**
 * Call `page(fresh, { scroll, focus })` whenever the address changes: `fresh` for a new visit; otherwise the position to
 * restore and the focused element, if they are known. Internal links do not reload the document.
 */
export function follow(page) {
  draw = page;
  if (history.state === null) history.replaceState(entry(), "");
  addEventListener("scroll", () => remember({ scroll: scrollY }), { passive: true });
  addEventListener("focusin", (event) => event.target.closest("main") && remember({ focus: focusPlace() }));
  addEventListener("popstate", onPopState);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    const isPlainClick = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!link || !isPlainClick || event.defaultPrevented || link.target || link.hasAttribute("download")) return;
    const target = link.getAttribute("href");
    if (target === "#main") {
      // The browser would leave the page, because of the base address or because hashes are pages.
      event.preventDefault();
      document.getElementById("main").focus();
      return;
    }
    if (isStatic ? !target.startsWith("#/") : !target.startsWith("/") || target.startsWith("/static/")) return;
    event.preventDefault();
    go(target);
  });
}
