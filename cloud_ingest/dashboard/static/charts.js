// Charts over time, by uPlot.
import { h, fill } from "./dom.js";
import { colour } from "./theme_switch.js";
import { measured, number, ticks, time } from "./words.js";

const INKS = ["ink-1", "ink-2", "ink-3", "ink-4", "ink-5", "ink-6", "ink-7", "ink-8"];
const DASHES = [undefined, [8, 4], [2, 3], [12, 4, 2, 4], [5, 2], [2, 6], [9, 2, 2, 2, 2, 2]];
const BYTES = ["B", "kB", "MB", "GB", "TB"];

// A value missing for a while is a gap in the line, not a line across it.
export function broken(times_ms, columns, part_s, parts = 3.5) {
  const times = [];
  const found = columns.map(() => []);
  let last = null;
  for (let at = 0; at < times_ms.length; at += 1) {
    const now = times_ms[at] / 1000;
    if (last !== null && part_s && now - last > part_s * parts) {
      times.push((now + last) / 2);
      for (const column of found) column.push(null);
    }
    times.push(now);
    columns.forEach((column, which) => found[which].push(column[at]));
    last = now;
  }
  return [times, ...found];
}

/** Several tables of times and values as one. */
export function joined(tables) {
  return window.uPlot.join(tables);
}

/** Columns on one grid of times: a value that is missing breaks no line, unless it is for a while. */
export function bridged(times_ms, columns, part_s, parts = 3.5) {
  return columns.map((column) => {
    const known = [];
    for (let at = 0; at < column.length; at += 1) if ((column[at] ?? null) !== null) known.push(at);
    const far = (one) => (times_ms[known[one]] - times_ms[known[one - 1]]) / 1000;
    // Who says something more seldom than the grid has parts is not silent between two readings.
    const apart = known.map((_, one) => (one ? far(one) : 0)).sort((one, other) => one - other);
    const most = parts * Math.max(part_s, apart[Math.floor(apart.length / 2)] || 0);
    const found = column.map((value) => value ?? null);
    for (let one = 1; one < known.length; one += 1) {
      if (far(one) > most) continue;
      for (let at = known[one - 1] + 1; at < known[one]; at += 1) found[at] = undefined;
    }
    return found;
  });
}

// ISO dates and 24 hours, whatever the browser's country; the date stands where it changes.
const TICKS = [
  [86400 * 28, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
  [86400, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
  [60, "{HH}:{mm}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", "\n{YYYY}-{MM}-{DD}", null, "\n{MM}-{DD}", null, null, null, 1],
];

/** One unit for all bytes of a chart: its name, and what turns bytes into it. */
export function byteScale(columns) {
  let most = 0;
  for (const column of columns) for (const value of column) most = Math.max(most, value || 0);
  const at = Math.min(BYTES.length - 1, Math.max(0, Math.floor(Math.log10(most || 1) / 3)));
  return { unit: BYTES[at], of: (value) => (value === null ? null : value / 1000 ** at) };
}

/** The line that the chart draws of its series at a place, as a word of a text. */
export function swatch(at) {
  const drawn = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
  const dash = dashOf(at);
  drawn.setAttribute("class", `swatch ${INKS[at % INKS.length]}`);
  drawn.setAttribute("viewBox", "0 0 26 8");
  drawn.setAttribute("aria-hidden", "true");
  line.setAttribute("d", "M0 4 H26");
  if (dash) line.setAttribute("stroke-dasharray", dash.join(" "));
  drawn.append(line);
  return drawn;
}

const dashOf = (at) => DASHES[Math.floor(at / INKS.length) % DASHES.length];

function axis(unit) {
  return {
    stroke: colour("soft"),
    font: "11px system-ui, sans-serif",
    grid: { stroke: colour("line"), width: 1 },
    ticks: { stroke: colour("line"), width: 1, size: 4 },
    size: unit === null ? 34 : 58,
    gap: 4,
  };
}

// series: [{label, values, ink?, unit?}]; band: {low, high} belongs to the first series. Of several
// units each has a scale of its own, the first two an axis each.
// Beyond as many lines as there are inks the same ones come again, dashed; their list is no legend then.
export function chart({ title, unit, times, series, band, width = 300, height = 200, zoomed, range, floor, ceiling, units = [unit] }) {
  const box = h("div", { class: "plot" });
  const summary = series
    .map((each) => {
      const known = each.values.filter((value) => value !== null && value !== undefined);
      if (!known.length) return `${each.label}: no values`;
      let [low, high] = [Infinity, -Infinity];
      for (const value of known) {
        low = Math.min(low, value);
        high = Math.max(high, value);
      }
      return `${each.label}: from ${number(low)} to ${number(high)}, last ${number(known.at(-1))}`;
    })
    .join("; ");
  const figure = h(
    "figure",
    { class: "chart" },
    h("figcaption", {}, h("h3", {}, title), unit ? h("span", { class: "soft" }, unit) : null),
    box,
    h("p", { class: "visually-hidden" }, `${title}. ${summary} ${unit || ""}`),
  );
  box.setAttribute("aria-hidden", "true");
  if (!times.length) {
    fill(box, h("p", { class: "soft" }, "nothing yet"));
    return { element: figure, point: () => {}, close: () => {} };
  }
  const scaleOf = (each) => `y${Math.max(0, units.indexOf(each.unit))}`;
  const limits = floor === undefined ? {} : { range: (_plot, low, high) => [Math.min(floor, low), ceiling ?? (high > floor ? high * 1.08 : floor + 1)] };
  const isMany = series.length > INKS.length;
  const inks = series.map((each, at) => colour(each.ink || INKS[at % INKS.length]));
  const lines = series.map((each, at) => ({
    label: each.label,
    scale: scaleOf(each),
    stroke: inks[at],
    // A line as wide as a pixel of the screen is drawn in a sixth of the time.
    width: isMany ? 1 / (window.devicePixelRatio || 1) : 1.6,
    dash: dashOf(at),
    points: { show: times.length < 60, size: 4 },
    value: (_plot, value) => (value === null || value === undefined ? "–" : measured(value, each.unit, 4)),
  }));
  const data = [times, ...series.map((each) => each.values)];
  const bands = [];
  if (band) {
    const edge = (label) => ({ ...lines[0], label, width: 0, points: { show: false } });
    lines.push(edge("greatest"), edge("least"));
    data.push(band.high, band.low);
    const at = data.length - 2;
    bands.push({ series: [at, at + 1], fill: `${inks[0]}38` });
  }
  const options = {
    width,
    height,
    bands,
    cursor: { drag: { x: Boolean(zoomed), y: false, setScale: false }, y: false },
    legend: { live: true, show: !isMany },
    ...(series.length > 1 ? { focus: { alpha: 0.25 } } : {}),
    scales: {
      x: { time: true, ...(range ? { range: () => range } : {}) },
      ...Object.fromEntries(units.map((_, at) => [`y${at}`, limits])),
    },
    series: [{ label: "UTC", value: (_plot, at) => (at === null ? "–" : time(at * 1000)) }, ...lines],
    axes: [
      { ...axis(null), values: TICKS, size: 40 },
      ...units.slice(0, 2).map((name, at) => ({
        ...axis(unit),
        scale: `y${at}`,
        side: at ? 1 : 3,
        grid: { ...axis(unit).grid, show: !at },
        label: units.length > 1 ? name || "no unit" : undefined,
        labelSize: 18,
        labelFont: "11px system-ui, sans-serif",
        size: (_plot, said) => 20 + 7 * Math.max(3, ...(said || []).map((each) => each.length)),
        values: (_plot, values, _axis, _space, step) => ticks(values, step),
      })),
    ],
    tzDate: (at) => window.uPlot.tzDate(new Date(at * 1000), "Etc/UTC"),
    hooks: {
      setSelect: [
        (plot) => {
          if (!zoomed || plot.select.width < 6) return;
          const from = plot.posToVal(plot.select.left, "x");
          const to = plot.posToVal(plot.select.left + plot.select.width, "x");
          plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
          zoomed(from, to);
        },
      ],
    },
  };
  const plot = new window.uPlot(options, data, box);
  const watching = new ResizeObserver(() => {
    if (box.clientWidth && box.clientWidth !== plot.width) plot.setSize({ width: box.clientWidth, height });
  });
  watching.observe(box);
  return {
    element: figure,
    /** Has one of the lines stand out; null for all alike. */
    point: (at) => plot.setSeries(at === null ? null : at + 1, { focus: true }),
    close: () => {
      watching.disconnect();
      plot.destroy();
    },
  };
}

/** Percentiles of a delay through time; `told` is columns as the server gives them. */
export function percentiles(title, told, part_s, worst = "p99") {
  const [times, p50, p95, p99] = broken(told.time_ms, [told.p50_ms, told.p95_ms, told.p99_ms], part_s);
  return chart({
    title,
    unit: "ms",
    times,
    series: [
      { label: "p50", values: p50 },
      { label: "p95", values: p95 },
      { label: worst, values: p99 },
    ],
    floor: 0,
  });
}
