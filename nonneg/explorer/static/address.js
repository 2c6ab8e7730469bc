// Every state of the page has an address. In a static copy, which is a single page, it follows a #.

export const isStatic = document.documentElement.dataset.mode === "static";

/** Return the current path and parameters. */
export function here() {
  const text = isStatic ? location.hash.slice(1) || "/" : location.pathname + location.search;
  const [path, query = ""] = text.split("?");
  return { path, parameters: new URLSearchParams(query) };
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
const scrolled = new Map(); // scroll position of each history entry

function entry() {
  return { entry: Math.random() };
}

/** Go to an address. `replace` adds no history entry; `quiet` does not draw the page. */
export function go(target, { replace = false, quiet = false } = {}) {
  if (replace) history.replaceState(history.state, "", target);
  else history.pushState(entry(), "", target);
  if (!quiet) draw(true);
}

/** Draw the current page again and keep the scroll position. */
export function redraw() {
  draw(false);
}

/** Restore the scroll position of a visited page; an address typed after the # starts at the top. */
function onPopState({ state }) {
  if (state === null) {
    history.replaceState(entry(), "");
    draw(true);
  } else draw(false, scrolled.get(state.entry) ?? 0);
}

/**
 * Call `page(fresh, scroll)` whenever the address changes: `fresh` for a new visit, `scroll` for a position to
 * restore. Internal links do not reload the document.
 */
export function follow(page) {
  draw = page;
  if (history.state === null) history.replaceState(entry(), "");
  addEventListener("scroll", () => scrolled.set(history.state?.entry, scrollY), { passive: true });
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
