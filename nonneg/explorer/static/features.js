// All features: sorted, filtered, a page at a time.

import { go, here, href } from "./address.js";
import { askOnce } from "./api.js";
import { announce, element, figure, percent } from "./build.js";
import { count, featureLink, kind, meter, pager, setChoice, strip } from "./pieces.js";

const PAGE = 25;
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

function head(columns, by, down, address, samples) {
  const heads = columns.map(({ name, text, meaning }) => {
    const current = name === by;
    const order = current ? (down ? "up" : "down") : "";
    const direction = current && (down ? "descending" : "ascending");
    return element("th", { scope: "col", class: name, title: meaning, "aria-sort": direction },
      element("a", { href: address({ sort: name, order, page: "" }) }, text),
      current && element("span", { "aria-hidden": "true" }, down ? " ↓" : " ↑"));
  });
  heads.splice(1, 0, element("th", { scope: "col" }, `Strongest ${samples}`));
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
  const found = sorted(rows.filter((row) => (all || row.active) && fits(row, words)), by, down);
  const page = Math.max(1, Number(parameters.get("page")) || 1);
  const address = (changes) => href("/features", { ...Object.fromEntries(here().parameters), ...changes });

  const what = found.length === 1 ? "feature" : "features";
  const told = `${count(found.length)} ${what}${words.length ? ` with “${query}”` : ""}`;
  announce(told);
  const left = overview.sets[set].left_out;
  return element("section", {},
    element("div", { class: "head" },
      element("h1", {}, "Features"), setChoice(set, (number) => address({ of: number || "", page: "" }))),
    element("p", { class: "clamped" }, `${told}, over ${count(samples)} ${kind(set)}. `,
      words.length > 0 && element("a", { href: address({ q: "", page: "" }) }, "Show all"),
      !words.length && dead > 0 && element("a", { href: address({ all: all ? "" : 1, page: "" }) },
        all ? "Hide those never on" : `${count(dead)} more are never on`),
      left > 0 && ` ${count(left)} less active ones are not in this copy.`),
    element("label", { class: "sortby" }, "Sort by ",
      element("select", { onchange: (event) => go(address({ sort: event.target.value, order: "", page: "" })) },
        columns.map(({ name, text }) => element("option", { value: name, selected: name === by }, text)))),
    found.length
      ? element("table", { class: "features" }, head(columns, by, down, address, kind(set)),
        element("tbody", {}, found.slice((page - 1) * PAGE, page * PAGE).map((row) => line(set, row, columns))))
      : element("p", {}, "No feature fits. Try fewer letters."),
    pager(page, Math.ceil(found.length / PAGE), address));
}
