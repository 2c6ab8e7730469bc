// Elements. Data is always inserted as text, never as markup.

/** Create an element with properties and children; strings become text nodes. */
export function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (name === "style") Object.assign(made.style, value);
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  made.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** Create an SVG element. */
export function drawn(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** Create an element for text from data, isolated so that right-to-left text does not affect its surroundings. */
export function dataText(text, properties = {}) {
  return element("bdi", properties, text);
}

/** Isolate text in the same way inside a plain string, such as a tooltip. */
export function isolated(text) {
  return `\u2068${text}\u2069`;
}

/** Format a share as a percentage. */
export function percent(share) {
  const value = 100 * share;
  if (value > 0 && value < 1) return value < 0.1 ? "under 0.1%" : `${value.toFixed(1)}%`;
  return value > 99 && value < 100 ? `${(Math.floor(10 * value) / 10).toFixed(1)}%` : `${Math.round(value)}%`;
}

/** Format a number with a useful number of digits. */
export function figure(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value)) return (value || 0).toLocaleString("en");
  const size = Math.abs(value);
  if (size < 0.00005) return "0";
  if (size < 0.001) return value.toFixed(4);
  return size >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(size >= 10 ? 1 : size >= 0.1 ? 2 : 3);
}

/** Announce a message to screen readers. */
export function announce(message) {
  document.getElementById("status").textContent = message;
}
