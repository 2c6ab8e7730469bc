// Every state has an address. On a static server, where only one file is served, it stands behind a #.

export const isStatic = document.documentElement.dataset.mode === "static";

/** The address as path and parameters. */
export function here() {
  const text = isStatic ? location.hash.slice(1) || "/" : location.pathname + location.search;
  const [path, query = ""] = text.split("?");
  return { path, parameters: new URLSearchParams(query) };
}

/** What a link to a path needs as its href. */
export function href(path, parameters = {}) {
  const kept = Object.entries(parameters).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const query = new URLSearchParams(kept).toString().replaceAll("%3A", ":").replaceAll("%2C", ",");
  return (isStatic ? "#" : "") + path + (query ? `?${query}` : "");
}

/** Which set of features an address is about. */
export function setNumber() {
  return Number(here().parameters.get("of") || 0);
}

/** Parameters that say which set an address is about. */
export function of(number, parameters = {}) {
  return number ? { ...parameters, of: number } : parameters;
}

let draw = () => {};

/** Go to an address; `replace` leaves no trace behind, `quiet` draws nothing. */
export function go(target, { replace = false, quiet = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", target);
  if (!quiet) draw(true);
}

/** Draw what is at the address once more, leaving the reader where they are. */
export function redraw() {
  draw(false);
}

/** Call `page` whenever the address changes; links inside the page load nothing. */
export function follow(page) {
  draw = page;
  addEventListener("popstate", () => draw(false));
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!link || !plain || event.defaultPrevented || link.target || link.hasAttribute("download")) return;
    const target = link.getAttribute("href");
    if (target === "#main") return;
    if (isStatic ? !target.startsWith("#/") : !target.startsWith("/") || target.startsWith("/static/")) return;
    event.preventDefault();
    go(target);
  });
}
