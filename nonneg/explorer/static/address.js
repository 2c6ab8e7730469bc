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
const scrolled = new Map(); // how far down the reader was, by entry of the history

function entry() {
  return { entry: Math.random() };
}

/** Go to an address; `replace` leaves no trace behind, `quiet` draws nothing. */
export function go(target, { replace = false, quiet = false } = {}) {
  if (replace) history.replaceState(history.state, "", target);
  else history.pushState(entry(), "", target);
  if (!quiet) draw(true);
}

/** Draw what is at the address once more, leaving the reader where they are. */
export function redraw() {
  draw(false);
}

/** Back where the reader has been, as far down as they were; an address they typed behind the # begins at its top. */
function returned({ state }) {
  if (state === null) {
    history.replaceState(entry(), "");
    draw(true);
  } else draw(false, scrolled.get(state.entry) ?? 0);
}

/**
 * Call `page` whenever the address changes, with whether it is a fresh start, or else how far down the reader was;
 * links inside the page load nothing.
 */
export function follow(page) {
  draw = page;
  if (history.state === null) history.replaceState(entry(), "");
  addEventListener("scroll", () => scrolled.set(history.state?.entry, scrollY), { passive: true });
  addEventListener("popstate", returned);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href]");
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey && !event.altKey;
    if (!link || !plain || event.defaultPrevented || link.target || link.hasAttribute("download")) return;
    const target = link.getAttribute("href");
    if (target === "#main") {
      // Under a base, or where hashes are pages, the browser would leave the page.
      event.preventDefault();
      document.getElementById("main").focus();
      return;
    }
    if (isStatic ? !target.startsWith("#/") : !target.startsWith("/") || target.startsWith("/static/")) return;
    event.preventDefault();
    go(target);
  });
}
