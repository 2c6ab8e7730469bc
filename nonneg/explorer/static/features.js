// All features: sorted, filtered, a page at a time.

import { go, here, href, redraw } from "./address.js";
import { askOnce } from "./api.js";
import { announce, element, figure, percent, said } from "./build.js";
import { count, counted, featureLink, kind, meter, pageNumber, pager, setChoice, strip } from "./pieces.js";

const PAGE = 25;
const LIMITS = { min_on: "On for at least", max_on: "at most", min_same: "Same label at least" };
const COLUMNS = [
  { name: "name", text: "Feature", meaning: "its name, or what the data say of it" },
  { name: "frequency", text: "On for", shown: percent, meaning: "share of the samples it is on for" },
  { name: "expected_activation", text: "Strength", shown: figure, meaning: "mean share of a sample's length (expected activation)" },
  { name: "consistency", text: "Same label", shown: percent, meaning: "share of the commonest label (class consistency)" },
  { name: "entropy", text: "Mixture", shown: figure, meaning: "entropy of its labels in nats; 0 is one label" },
  { name: "redundancy", text: "Overlap", shown: figure, meaning: "cosine with the feature most like it (redundancy)" },
];

function sorted(rows, by, down) {
  const sign = down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [x, y] = [a[by], b[by]];
    if (x === null || y === null) return (x === null) - (y === null) || a.feature - b.feature;
    return sign * (by === "name" ? x.localeCompare(y) : x - y) || a.feature - b.feature;
  });
}

function fits(row, words) {
  const text = `${row.feature} ${row.name || ""} ${row.hint || ""} ${row.label || ""}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

/** A limit in percent from the address; null where there is none. */
function limit(parameters, name) {
  const value = parseFloat(parameters.get(name));
  return Number.isFinite(value) ? value : null;
}

function isWithin(row, { min_on: least, max_on: most, min_same: same }) {
  return (least === null || 100 * row.frequency >= least) && (most === null || 100 * row.frequency <= most)
    && (same === null || (row.consistency !== null && 100 * row.consistency >= same));
}

/** Fields for the limits. */
function limiting(limits, texts, change) {
  const field = ([name, text]) => element("label", {}, `${text} `,
    element("input", {
      type: "number", name, min: 0, max: 100, step: "any", value: limits[name], "aria-label": `${text}, in percent`,
      onchange: (event) => change({ [name]: event.target.value, page: "" }),
    }), " %");
  return element("div", { class: "limits" }, Object.entries(texts).map(field));
}

function head(columns, by, down, address, strongest) {
  const heads = columns.map(({ name, text, meaning }) => {
    const current = name === by;
    const order = current ? (down ? "up" : "down") : "";
    const direction = current && (down ? "descending" : "ascending");
    return element("th", { scope: "col", class: name, title: meaning, "aria-sort": direction },
      element("a", { href: address({ sort: name, order, page: "" }) }, text),
      current && element("span", { "aria-hidden": "true" }, down ? " ↓" : " ↑"));
  });
  heads.splice(1, 0, element("th", { scope: "col" }, strongest));
  return element("thead", {}, element("tr", {}, heads));
}

function line(set, row, columns) {
  return element("tr", {},
    element("th", { scope: "row" }, featureLink(set, row, { "data-step": "" })),
    element("td", { class: "samples" }, strip(set, row.feature)),
    columns.slice(1).map(({ name, text, shown }) => element("td", { class: "number", "data-title": text },
      row[name] === null ? "–" : shown(row[name]),
      name === "consistency" && row[name] !== null && meter(row[name]))));
}

export async function featuresPage({ set, overview, parameters }) {
  const { rows, samples } = await askOnce(`sets/${set}/features`);
  const columns = COLUMNS.filter(({ name }) => name === "name" || rows.some((row) => row[name] !== null));
  const asked = parameters.get("sort");
  const by = columns.some(({ name }) => name === asked) ? asked : "expected_activation";
  const down = (parameters.get("order") || (by === "name" ? "up" : "down")) === "down";
  const query = parameters.get("q") || "";
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const all = Boolean(parameters.get("all"));
  const dead = rows.filter((row) => !row.active).length;
  const limits = Object.fromEntries(Object.keys(LIMITS).map((name) => [name, limit(parameters, name)]));
  const limited = Object.values(limits).some((value) => value !== null);
  const isShown = (row) => (all || row.active) && fits(row, words) && isWithin(row, limits);
  const found = sorted(rows.filter(isShown), by, down);
  const pages = Math.ceil(found.length / PAGE);
  const page = pageNumber(parameters, pages);
  const address = (changes) => href("/features", { ...Object.fromEntries(here().parameters), ...changes });
  // The control that was used keeps the focus.
  const change = (changes) => {
    go(address(changes), { quiet: true });
    redraw();
  };

  const { min_same: _, ...unlabelled } = LIMITS;
  const texts = columns.some(({ name }) => name === "consistency") ? LIMITS : unlabelled;
  const told = [counted(found.length, "feature"), words.length > 0 && [" with “", said(query), "”"]];
  announce(element("p", {}, told).textContent);
  const { left_out: left, has_negative: signed } = overview.sets[set];
  return element("section", {},
    element("div", { class: "head" },
      element("h1", {}, "Features"), setChoice(set, (number) => address({ of: number || "", page: "" }))),
    element("p", { class: "clamped" }, told, `, over ${count(samples)} ${kind(set, samples)}. `,
      (words.length > 0 || limited)
        && element("a", { href: address({ q: "", min_on: "", max_on: "", min_same: "", page: "" }) }, "Show all"),
      !words.length && !limited && dead > 0 && element("a", { href: address({ all: all ? "" : 1, page: "" }) },
        all ? "Hide those never on" : `${count(dead)} more ${dead === 1 ? "is" : "are"} never on`),
      left > 0 && ` ${counted(left, "less active one is", "less active ones are")} not in this copy.`),
    element("div", { class: "sortby" },
      element("label", {}, "Sort by ",
        element("select", {
          "aria-label": "Sort by", onchange: (event) => change({ sort: event.target.value, order: "", page: "" }),
        }, columns.map(({ name, text }) => element("option", { value: name, selected: name === by }, text)))), " ",
      element("button", {
        type: "button", "aria-label": "turn the order around", onclick: () => change({ order: down ? "up" : "down", page: "" }),
      }, down ? "↓ falling" : "↑ rising")),
    limiting(limits, texts, change),
    found.length
      ? element("table", { class: "features" }, head(columns, by, down, address, `${signed ? "Most positive" : "Strongest"} ${kind(set)}`),
        element("tbody", {}, found.slice((page - 1) * PAGE, page * PAGE).map((row) => line(set, row, columns))))
      : element("p", {}, `No feature fits. Try ${limited ? "wider limits" : "fewer letters"}.`),
    pager(page, pages, address));
}
