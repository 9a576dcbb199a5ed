// Numbers, times and words as people read them.
import { h } from "./dom.js";
import { source } from "./data.js";
import { C } from "./component_texts.js";

// The states of a gateway, the worst first: a mark, a word, and the colour that it has.
export const HEALTH = {
  silent: ["■", "silent", "silent"],
  warning: ["▲", "warning", "warning"],
  unreadable: ["▲", "unreadable", "warning"],
  stale: ["◆", "stale", "warning"],
  unknown: ["?", "unknown", "unknown"],
  "no-status": ["○", "no status", "unknown"],
  left: ["–", "left", "unknown"],
  good: ["●", "good", "good"],
};
const BYTES = ["B", "kB", "MB", "GB", "TB"];
const UNITS = {
  Cel: "°C",
  "/": "",
  "1/s": "/s",
  count: "",
  m2: "m²",
  m3: "m³",
  "m3/s": "m³/s",
  "m/s2": "m/s²",
  "W/m2": "W/m²",
  Ohm: "Ω",
  lat: "°",
  lon: "°",
};

// Between groups of thousands, and between a number and its unit: a narrow space that breaks no line.
const THIN = "\u202f";
const LARGE = 1e15;

// Digits as people read them, of a text that `toFixed` made: thousands apart, and a minus that is one.
function grouped(fixed) {
  const [whole, part] = fixed.replace("-", "").split(".");
  const apart = whole.length < 5 ? whole : whole.replace(/\B(?=(\d{3})+$)/g, THIN);
  const isNegative = fixed.startsWith("-") && /[1-9]/.test(fixed);
  return `${isNegative ? "−" : ""}${apart}${part ? `.${part}` : ""}`;
}

export function count(value) {
  return value === null || value === undefined ? "–" : grouped(Math.round(value).toFixed(0));
}

export function number(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size >= LARGE || size < 1e-6)) {
    const [mantissa, exponent] = value.toExponential(digits - 1).split("e");
    return `${grouped(String(Number(mantissa)))}${THIN}×${THIN}10^${Number(exponent)}`;
  }
  const places = size === 0 ? 0 : Math.max(0, digits - 1 - Math.floor(Math.log10(size)));
  const fixed = value.toFixed(Math.min(places, 12));
  return grouped(fixed.includes(".") ? fixed.replace(/\.?0+$/, "") : fixed);
}

/** A number with its unit, as SenML names it. */
export function measured(value, name, digits = 3) {
  const said = unit(name);
  return said && value !== null && value !== undefined ? `${number(value, digits)}${THIN}${said}` : number(value, digits);
}

/** The role of a link's end that is farther from the root (IEEE 802.1D), and how long a round trip takes. */
export function linkSays(role, rtt_ms) {
  return rtt_ms === null || rtt_ms === undefined ? role : `${role} ${measured(rtt_ms, "ms", 2)}`.trim();
}

/** The marks of an axis: all with as many decimals as the step between them needs. */
export function ticks(values, step) {
  const places = Math.min(12, Math.max(0, -Math.floor(Math.log10(step || 1) + 1e-9)));
  const needed = Number.isInteger(Number((step * 10 ** places).toFixed(6))) ? places : Math.min(12, places + 1);
  const isLarge = values.some((value) => Math.abs(value) >= LARGE);
  return values.map((value) => (isLarge || (step && step < 1e-6) ? number(value, 4) : grouped(value.toFixed(needed))));
}

export function unit(name) {
  return name === null || name === undefined ? "" : Object.hasOwn(UNITS, name) ? UNITS[name] : name;
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const steps = BYTES;
  let at = 0;
  let left = value;
  while (left >= 1000 && at < steps.length - 1) {
    left /= 1000;
    at += 1;
  }
  return `${number(left)}${THIN}${steps[at]}`;
}

export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const left = Math.max(0, seconds);
  if (left < 90) return `${Math.round(left)}${THIN}s`;
  if (left < 5400) return `${Math.round(left / 60)}${THIN}min`;
  if (left < 129600) return `${Math.round(left / 3600)}${THIN}h`;
  return `${count(left / 86400)}${THIN}d`;
}

export function ago(time_ms) {
  if (time_ms === null || time_ms === undefined) return C.never;
  return C.ago(span((source.now() - time_ms) / 1000));
}

export function time(time_ms) {
  if (time_ms === null || time_ms === undefined) return "–";
  return new Date(time_ms).toISOString().slice(0, 19).replace("T", " ");
}

export function timeElement(time_ms) {
  if (time_ms === null || time_ms === undefined) return h("span", { class: "soft" }, "–");
  const iso = new Date(time_ms).toISOString();
  return h("time", { datetime: iso, title: C.utc(time(time_ms)) }, ago(time_ms));
}

// A state of a later version is not taken for good.
export function colourOf(health) {
  return (HEALTH[health] || HEALTH.unknown)[2];
}

export function healthMark(health, inWords = true, why = null) {
  const [mark, word] = HEALTH[health] || HEALTH.unknown;
  return h(
    "span",
    { class: `health ${colourOf(health)}`, title: why },
    h("span", { "aria-hidden": "true", class: "mark" }, mark),
    h("span", { class: inWords ? "" : "visually-hidden" }, word),
  );
}

/** Whether somebody has to look after a gateway's backups. */
export function backupIsWrong(backup) {
  return backup === "overdue" || backup === "trial failed";
}

/** How a release's trial is said, and the class that it is shown in. */
export function trialMark(trial) {
  if (trial === "returned") return { said: "went back", kind: "silent" };
  return { said: trial, kind: trial === "confirmed" ? "soft" : "warning" };
}
