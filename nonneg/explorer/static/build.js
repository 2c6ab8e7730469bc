// Elements. Whatever comes from data becomes text, never markup.

/** An element with properties and children; strings become text. */
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

/** An SVG element. */
export function drawn(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children.flat(9).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

/** Text from data: isolated, so that writing from right to left turns nothing else around. */
export function said(text, properties = {}) {
  return element("bdi", properties, text);
}

/** The same inside a string that cannot hold elements, such as a tooltip. */
export function isolated(text) {
  return `\u2068${text}\u2069`;
}

/** A share as people say it. */
export function percent(share) {
  const value = 100 * share;
  if (value > 0 && value < 1) return value < 0.1 ? "under 0.1%" : `${value.toFixed(1)}%`;
  return value > 99 && value < 100 ? `${(Math.floor(10 * value) / 10).toFixed(1)}%` : `${Math.round(value)}%`;
}

/** A number with as many digits as help. */
export function figure(value) {
  if (value === null || value === undefined) return "–";
  if (Number.isInteger(value)) return (value || 0).toLocaleString("en");
  const size = Math.abs(value);
  if (size < 0.00005) return "0";
  if (size < 0.001) return value.toFixed(4);
  return size >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(size >= 10 ? 1 : size >= 0.1 ? 2 : 3);
}

/** Say something to people who hear the page. */
export function announce(sentence) {
  document.getElementById("status").textContent = sentence;
}
