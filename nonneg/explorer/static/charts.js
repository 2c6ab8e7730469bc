// Charts, each with a label for screen readers.

import { drawn, element, figure, percent } from "./build.js";

const WIDTH = 560;

function text(x, y, content, anchor = "middle") {
  return drawn("text", { x, y, "text-anchor": anchor }, content);
}

function framed(height, label, ...children) {
  return drawn("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": label, class: "chart" }, ...children);
}

function box(x, y, width, height, kind = "filled", ...children) {
  return drawn("rect", { x, y, width: Math.max(0, width), height: Math.max(0, height), class: kind }, ...children);
}

function ground(y) {
  return drawn("line", { x1: 0, x2: WIDTH, y1: y + 0.5, y2: y + 0.5 });
}

/** The active share of a whole as a bar. */
export function activeShare(active, whole) {
  const label = `${percent(active / whole)} are active`;
  return element("div", { class: "activity", role: "img", "aria-label": label },
    element("i", { class: "active", style: { width: `${(100 * active) / whole}%` } }),
    element("i", { class: "inactive", style: { width: `${100 - (100 * active) / whole}%` } }));
}

/** A feature's activity: its active share, and a histogram of its values on active samples. */
export function activation({ edges, counts, inactive }, samples) {
  const active = samples - inactive;
  const share = (number) => `${number.toLocaleString("en")} (${percent(number / samples)})`;
  const words = `Active on ${share(active)}, inactive on ${share(inactive)}.`;
  const [floor, tall] = [110, 100];
  const step = WIDTH / counts.length;
  const most = Math.max(...counts);
  const bars = counts.map((count, i) => {
    const height = (tall * count) / most;
    const range = `${figure(edges[i])} to ${figure(edges[i + 1])}: ${count.toLocaleString("en")}`;
    return box(i * step + 1, floor - height, step - 2, height, "filled", drawn("title", {}, range));
  });
  const chart = framed(floor + 22, "histogram of its activation on active samples", bars, ground(floor),
    text(0, floor + 17, figure(edges[0]), "start"),
    text(WIDTH / 2, floor + 17, "activation on active samples"),
    text(WIDTH, floor + 17, figure(edges.at(-1)), "end"));
  return element("div", {}, activeShare(active, samples), element("p", { class: "soft" }, words), chart);
}

/** Histogram of the features' frequencies. */
export function frequencies(edges, counts) {
  const [floor, tall] = [120, 96];
  const most = Math.max(...counts, 1);
  const step = WIDTH / counts.length;
  const bars = counts.map((count, i) => [
    box(i * step + 2, floor - (tall * count) / most, step - 4, (tall * count) / most),
    count > 0 && text((i + 0.5) * step, floor - 6 - (tall * count) / most, count.toLocaleString("en")),
  ]);
  const ticks = edges.slice(1, -1).map((edge, i) => text((i + 1) * step, floor + 17, `${+(100 * edge).toPrecision(2)}%`));
  return framed(floor + 30, "features by the share of samples they are active on", bars, ground(floor), ticks);
}

/** Values over a logarithmic count; `top` is the top of the scale. */
export function curve(k, values, top) {
  const [floor, tall] = [110, 92];
  const widest = Math.log(Math.max(k.at(-1), 2));
  const points = k.map((count, i) =>
    [10 + (WIDTH - 20) * (Math.log(count) / widest), floor - (tall * Math.max(0, values[i])) / (top || 1)]);
  const path = points.map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`).join("");
  return framed(floor + 26, "SEPIN, averaged over the best features",
    drawn("path", { d: path, class: "curve" }), ground(floor),
    text(points[0][0], points[0][1] - 7, figure(values[0]), "start"),
    text(WIDTH, points.at(-1)[1] - 9, figure(values.at(-1)), "end"),
    text(0, floor + 18, "best feature", "start"),
    text(WIDTH, floor + 18, `all ${k.at(-1).toLocaleString("en")}`, "end"));
}

/** A share on a scale from 0 to 100%, with the chance level marked. */
export function withChance(share, chance) {
  const anchor = chance < 0.12 ? "start" : chance > 0.88 ? "end" : "middle";
  return framed(56, `${percent(share)}, chance ${percent(chance)}`,
    box(0, 8, WIDTH, 16, "empty"), box(0, 8, WIDTH * share, 16),
    drawn("line", { x1: WIDTH * chance, x2: WIDTH * chance, y1: 3, y2: 29, class: "chance" }),
    text(WIDTH * chance, 45, `chance ${percent(chance)}`, anchor));
}
