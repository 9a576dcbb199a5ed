// Sensors: what they say, how the last hour went, and a switch or a field for each actuator.
import { h, fill, say, link } from "./dom.js";
import { path, source } from "./data.js";
import { T } from "./texts.js";
import { repeated } from "./live.js";
import { showSensorForm } from "./sensor_form.js";
import { sparkline } from "./sparkline.js";
import { bytes, measured, timeElement } from "./words.js";

const EVERY_MS = 3_000;
const CHARTS_MS = 60_000;
const t = T.sensors;
const STATES = { good: ["good", "●", t.good], bad: ["silent", "■", t.bad] };

function stateMark(state) {
  const [kind, mark, word] = STATES[state] || ["unknown", "○", t.unread];
  return h("span", { class: `health ${kind}` }, h("span", { "aria-hidden": "true", class: "mark" }, mark), word);
}

function shownValue(value, unit) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "number") return unit === "B" ? bytes(value) : measured(value, unit);
  if (typeof value === "boolean") return value ? t.on : t.off;
  return String(value);
}

function control(sensor, changed) {
  const value = sensor.values[0]?.value;
  const error = h("span", { class: "error", role: "alert" });
  async function set(text) {
    fill(error);
    try {
      await source.put(path("sensors", sensor.name), { value: text });
      say(t.isSet(sensor.name, text));
      await changed();
    } catch (refused) {
      fill(error, refused.message);
    }
  }
  const isSwitch = sensor.type === "switch" || sensor.kind === "boolean" || typeof value === "boolean";
  if (isSwitch) {
    const isOn = Boolean(value);
    const off = typeof value === "boolean" ? "false" : "0";
    const on = typeof value === "boolean" ? "true" : "1";
    return h(
      "div",
      { class: "control" },
      h("button", { type: "button", role: "switch", class: "switch", "aria-checked": String(isOn), "aria-label": t.switchOf(sensor.name), onclick: () => set(isOn ? off : on) }, isOn ? t.on : t.off),
      error,
    );
  }
  const field = h("input", { value: value ?? "", "aria-label": t.valueOf(sensor.name), maxlength: "1024", size: "8" });
  return h(
    "form",
    {
      class: "control",
      onsubmit: (event) => {
        event.preventDefault();
        set(field.value);
      },
    },
    field,
    h("button", { type: "submit" }, t.set),
    error,
  );
}

function item(sensor, changed, me) {
  return h(
    "li",
    { class: "card sensor", "data-name": sensor.name },
    h("div", { class: "sensor-head" }, h("h2", {}, sensor.name), stateMark(sensor.state)),
    sensor.values.map((one) =>
      h(
        "div",
        { class: "reading" },
        h("span", { class: "reading-value" }, shownValue(one.value, one.unit)),
        one.name === sensor.name ? null : h("span", { class: "soft" }, one.name.slice(sensor.name.length + 1)),
        sparkline(one.hour, `${one.name}: ${t.hour}`),
      ),
    ),
    h("p", { class: "soft small" }, sensor.type, sensor.values.length ? [", ", timeElement(sensor.values[0].time_ms)] : null),
    sensor.may_set ? control(sensor, changed) : null,
    sensor.is_added && me.may.sensors ? h("a", { href: link("sensors", "change", sensor.name), "aria-label": t.changeOf(sensor.name) }, t.change) : null,
  );
}

export async function showSensors(main, names, me) {
  if (names[0] === "new" || (names[0] === "change" && names[1])) return showSensorForm(main, names[1]);
  const list = h("ul", { class: "sensors" });
  const none = h("p", { class: "soft" });
  const hours = new Map();
  let drawn_ms = 0;
  async function load() {
    const isHour = Date.now() - drawn_ms >= CHARTS_MS;
    const told = await source.get("sensors", { hour: isHour ? 1 : 0 });
    if (isHour) drawn_ms = Date.now();
    for (const one of told.sensors.flatMap((sensor) => sensor.values)) {
      if (one.hour) hours.set(one.name, one.hour);
      else one.hour = hours.get(one.name) || [];
    }
    const isBusy = list.contains(document.activeElement);
    const name = isBusy ? document.activeElement.closest("[data-name]")?.dataset.name : null;
    const tag = document.activeElement.tagName;
    if (isBusy && tag === "INPUT") return;
    fill(list, told.sensors.map((one) => item(one, load, me)));
    if (name) list.querySelector(`[data-name="${CSS.escape(name)}"] ${tag}`)?.focus({ preventScroll: true });
    fill(none, told.sensors.length ? "" : t.none);
  }
  const adding = me.may.sensors ? h("a", { class: "button", href: link("sensors", "new") }, t.add) : null;
  fill(main, h("div", { class: "title-line" }, h("h1", {}, t.title), adding), none, list);
  await load();
  return { close: repeated(load, EVERY_MS) };
}
