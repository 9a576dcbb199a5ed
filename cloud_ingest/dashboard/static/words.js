// Numbers, times and words as people read them.
import { h } from "./dom.js";
import { source } from "./data.js";

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
const UNITS = { Cel: "°C", "/": "", count: "", "W/m2": "W/m²" };

export function count(value) {
  return value === null || value === undefined ? "–" : Math.round(value).toLocaleString("en");
}

export function number(value, digits = 3) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  if (Math.abs(value) >= 1e5) return value.toLocaleString("en", { maximumFractionDigits: 0 });
  return String(Number(value.toPrecision(digits)));
}

export function unit(name) {
  return name === null || name === undefined ? "" : UNITS[name] ?? name;
}

export function bytes(value) {
  if (value === null || value === undefined) return "–";
  const steps = ["B", "kB", "MB", "GB", "TB"];
  let at = 0;
  let left = value;
  while (left >= 1000 && at < steps.length - 1) {
    left /= 1000;
    at += 1;
  }
  return `${number(left)} ${steps[at]}`;
}

export function span(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const left = Math.max(0, seconds);
  if (left < 90) return `${Math.round(left)} s`;
  if (left < 5400) return `${Math.round(left / 60)} min`;
  if (left < 129600) return `${Math.round(left / 3600)} h`;
  return `${Math.round(left / 86400)} d`;
}

export function ago(time_ms) {
  if (time_ms === null || time_ms === undefined) return "never";
  return `${span((source.now() - time_ms) / 1000)} ago`;
}

export function time(time_ms) {
  if (time_ms === null || time_ms === undefined) return "–";
  return new Date(time_ms).toISOString().slice(0, 19).replace("T", " ");
}

export function timeElement(time_ms) {
  if (time_ms === null || time_ms === undefined) return h("span", { class: "soft" }, "–");
  const iso = new Date(time_ms).toISOString();
  return h("time", { datetime: iso, title: `${time(time_ms)} UTC` }, ago(time_ms));
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
