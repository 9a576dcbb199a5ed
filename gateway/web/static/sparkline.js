// A line without axes, as large as a word: how something has gone lately.
import { s } from "./dom.js";

const [WIDTH, HEIGHT, EDGE] = [96, 24, 2];

/** `values` are equally far apart; null where there is none. */
export function sparkline(values, label) {
  const known = values.filter((value) => value !== null && Number.isFinite(value));
  const drawn = s("svg", {
    class: "sparkline",
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    width: WIDTH,
    height: HEIGHT,
    role: "img",
    "aria-label": known.length ? label : `${label}: no values`,
  });
  if (!known.length) return drawn;
  const [low, high] = [Math.min(...known), Math.max(...known)];
  const step = (WIDTH - 2 * EDGE) / Math.max(1, values.length - 1);
  const place = (value, at) => {
    const up = high > low ? (value - low) / (high - low) : 0.5;
    return [EDGE + at * step, HEIGHT - EDGE - up * (HEIGHT - 2 * EDGE)].map((each) => each.toFixed(1)).join(" ");
  };
  let path = "";
  let last = null;
  values.forEach((value, at) => {
    const isKnown = value !== null && Number.isFinite(value);
    if (isKnown) path += `${last === null ? "M" : "L"}${place(value, at)}`;
    last = isKnown ? value : null;
  });
  drawn.append(s("path", { d: path, fill: "none", "vector-effect": "non-scaling-stroke" }));
  const at = values.findLastIndex((value) => value !== null && Number.isFinite(value));
  const [x, y] = place(values[at], at).split(" ");
  drawn.append(s("circle", { cx: x, cy: y, r: 1.8 }));
  return drawn;
}
