// The table of all features: sorted, filtered and paged.

import { go, here, href, redraw } from "./address.js";
import { askOnce } from "./api.js";
import { announce, dataText, element, figure, percent } from "./build.js";
import { count, counted, featureLink, kind, meter, pageNumber, pager, setChoice, strip } from "./pieces.js";

const PAGE = 25;
const LIMITS = { min_active: "Active on at least", max_active: "at most", min_consistency: "Same label at least" };
const COLUMNS = [
  { name: "name", text: "Feature", meaning: "name, or suggested name" },
  { name: "frequency", text: "Active on", format: percent, meaning: "share of the samples it is active on" },
  { name: "expected_activation", text: "Strength", format: figure, meaning: "expected activation: mean value relative to the sample's length" },
  { name: "consistency", text: "Same label", format: percent, meaning: "class consistency: share of the most common label" },
  { name: "entropy", text: "Label entropy", format: figure, meaning: "entropy of its labels in nats; 0 means a single label" },
  { name: "score", text: "Name score", format: (value) => value.toFixed(2), meaning: "how often a sample with the feature fits its suggested name better than one without it; 0.5 is chance" },
  { name: "agreement", text: "Agreement", format: percent, meaning: "how well its value on a sample predicts that it is active on the partner (AUC; 50% is chance)" },
  { name: "redundancy", text: "Redundancy", format: figure, meaning: "how much it repeats another feature (largest absolute cosine)" },
];

function sorted(rows, by, down) {
  const sign = down ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [x, y] = by === "name" ? [a.name || a.hint, b.name || b.hint] : [a[by], b[by]];
    if (x === null || y === null) return (x === null) - (y === null) || a.feature - b.feature;
    return sign * (by === "name" ? x.localeCompare(y) : x - y) || a.feature - b.feature;
  });
}

function matches(row, words) {
  const text = `${row.feature} ${row.name || ""} ${row.hint || ""} ${row.label || ""}`.toLowerCase();
  return words.every((word) => text.includes(word));
}

/** Return a limit in percent from the address, or null. */
function limit(parameters, name) {
  const value = parseFloat(parameters.get(name));
  return Number.isFinite(value) ? value : null;
}

function isWithin(row, { min_active: low, max_active: high, min_consistency: consistency }) {
  return (low === null || 100 * row.frequency >= low) && (high === null || 100 * row.frequency <= high)
    && (consistency === null || (row.consistency !== null && 100 * row.consistency >= consistency));
}

/** Input fields for the limits. */
function limitFields(limits, texts, change) {
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
    columns.slice(1).map(({ name, text, format }) => element("td", { class: "number", "data-title": text },
      row[name] === null ? "–" : format(row[name]),
      name === "consistency" && row[name] !== null && meter(row[name]))));
}

/** Map the first feature of each family, in the order of the table, to the family's name and its other features. */
function inFamilies(rows, families) {
  const familyOf = new Map(families.flatMap((family) => family.features.map((feature) => [feature, family])));
  const heads = new Map();
  const groups = new Map();
  for (const row of rows) {
    const of = familyOf.get(row.feature);
    if (of && heads.has(of)) groups.get(heads.get(of)).others.push(row);
    else {
      if (of) heads.set(of, row.feature);
      groups.set(row.feature, { name: of?.name, others: [] });
    }
  }
  return groups;
}

/** The rows of a family: its first feature, and the others, which a button shows. */
function family(set, row, group, columns) {
  const first = line(set, row, columns);
  if (!group?.others.length) return [first];
  const others = group.others.map((each) => line(set, each, columns));
  for (const each of others) {
    each.hidden = true;
    each.classList.add("member");
  }
  const open = element("button", { type: "button", class: "link", "aria-expanded": "false", onclick: () => {
    const isOpen = open.getAttribute("aria-expanded") === "true";
    open.setAttribute("aria-expanded", String(!isOpen));
    for (const each of others) each.hidden = isOpen;
  } }, `${counted(others.length, "similar feature")} (`, dataText(group.name), ")");
  first.firstChild.append(element("div", {}, open));
  return [first, ...others];
}

export async function featuresPage({ set, overview, parameters }) {
  const table = await askOnce(`sets/${set}/features`);
  const { samples, families } = table;
  const rows = table.rows.map((row) => (row.name ? { ...row, score: null } : row)); // it is the suggested name's
  const columns = COLUMNS.filter(({ name }) => name === "name" || rows.some((row) => row[name] !== null));
  const requested = parameters.get("sort");
  const by = columns.some(({ name }) => name === requested) ? requested : "expected_activation";
  const down = (parameters.get("order") || (by === "name" ? "up" : "down")) === "down";
  const query = parameters.get("q") || "";
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const all = Boolean(parameters.get("all"));
  const dead = rows.filter((row) => !row.active).length;
  const limits = Object.fromEntries(Object.keys(LIMITS).map((name) => [name, limit(parameters, name)]));
  const limited = Object.values(limits).some((value) => value !== null);
  const grouped = Boolean(parameters.get("families")) && families.length > 0;
  const isShown = (row) => (all || row.active) && matches(row, words) && isWithin(row, limits);
  const matching = sorted(rows.filter(isShown), by, down);
  const groups = grouped ? inFamilies(matching, families) : new Map();
  const found = grouped ? matching.filter((row) => groups.has(row.feature)) : matching;
  const pages = Math.ceil(found.length / PAGE);
  const page = pageNumber(parameters, pages);
  const address = (changes) => href("/features", { ...Object.fromEntries(here().parameters), ...changes });
  // A quiet change keeps the focus on the control that was used.
  const change = (changes) => {
    go(address(changes), { quiet: true });
    redraw();
  };

  const { min_consistency: _, ...unlabelled } = LIMITS;
  const texts = columns.some(({ name }) => name === "consistency") ? LIMITS : unlabelled;
  const summary = [counted(matching.length, "feature"), words.length > 0 && [" matching “", dataText(query), "”"]];
  announce(element("p", {}, summary).textContent);
  const { omitted_features: omitted, has_negative: signed } = overview.sets[set];
  return element("section", {},
    element("div", { class: "head" },
      element("h1", {}, "Features"), setChoice(set, (number) => address({ set: number || "", page: "" }))),
    element("p", { class: "clamped" }, summary, `, computed from ${count(samples)} ${kind(set, samples)}. `,
      omitted > 0 && `${counted(omitted, "less active feature is", "less active features are")} not in this copy. `,
      (words.length > 0 || limited)
        && element("a", { href: address({ q: "", min_active: "", max_active: "", min_consistency: "", page: "" }) }, "Show all"),
      !words.length && !limited && dead > 0 && element("a", { href: address({ all: all ? "" : 1, page: "" }) },
        all ? "Hide features that are never active" : `Show ${counted(dead, "feature that is never active", "features that are never active")}`)),
    element("div", { class: "sortby" },
      element("label", {}, "Sort by ",
        element("select", {
          "aria-label": "Sort by", onchange: (event) => change({ sort: event.target.value, order: "", page: "" }),
        }, columns.map(({ name, text }) => element("option", { value: name, selected: name === by }, text)))), " ",
      element("button", {
        type: "button", "aria-label": "Reverse the order", onclick: () => change({ order: down ? "up" : "down", page: "" }),
      }, down ? "↓ descending" : "↑ ascending")),
    families.length > 0 && element("label", { class: "grouping" },
      element("input", { type: "checkbox", checked: grouped, "aria-label": "Group similar features", onchange: () => change({ families: grouped ? "" : 1, page: "" }) }),
      ` Group similar features${grouped ? `: ${counted(found.length, "row")}` : ""}`),
    limitFields(limits, texts, change),
    found.length
      ? element("table", { class: "features" }, head(columns, by, down, address, `${signed ? "Most positive" : "Strongest"} ${kind(set)}`),
        element("tbody", {}, found.slice((page - 1) * PAGE, page * PAGE).flatMap((row) => family(set, row, groups.get(row.feature), columns))))
      : element("p", {}, `No feature matches. Try ${limited ? "wider limits" : "a shorter search"}.`),
    pager(page, pages, address));
}
