// A sensor's form, made of its driver's own keys: it is tried here before it is saved.
import { h, fill, say, link } from "./dom.js";
import { path, source } from "./data.js";
import { T } from "./texts.js";
import { sureButton } from "./parts.js";
import { measured } from "./words.js";

const t = T.sensorForm;
const SELDOM = ["attributes", "resource_type", "resolution", "format", "retain", "home_assistant", "alerts"];

function written(value) {
  if (value === null || value === undefined) return "";
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

function isEmpty(value) {
  return written(value) === "" || written(value) === "{}";
}

function hint(one) {
  const range = one.range ? t.range(...one.range) : "";
  const usual = isEmpty(one.default) ? "" : t.usual(written(one.default));
  const unit = one.unit ? t.unit(one.unit) : "";
  return [one.text, unit, range, usual].filter(Boolean).join("; ");
}

function control(one, id, value) {
  const common = { id, name: one.name, "aria-describedby": `${id}-hint`, required: one.is_needed };
  const choices = one.kind === "flag" ? ["true", "false"] : one.choices;
  if (choices) {
    const options = one.is_needed ? choices : ["", ...choices];
    return h("select", common, options.map((each) => h("option", { value: each, selected: each === written(value) }, each || t.notSet)));
  }
  const rest = { ...common, value: written(value), maxlength: "4096", autocomplete: "off", spellcheck: "false" };
  if (one.kind === "table" || one.kind === "any") return h("textarea", { ...rest, rows: "2", placeholder: one.kind === "table" ? "{}" : null });
  const isNumber = one.kind === "whole" || one.kind === "number";
  return h("input", { ...rest, type: "text", inputmode: isNumber ? "decimal" : null });
}

/** What a field says, of the driver's kind; undefined if it says nothing. */
function said(one, text) {
  if (text === "") return undefined;
  if (one.kind === "flag") return text === "true";
  if (one.kind === "whole" || one.kind === "number") {
    const number = Number(text);
    if (!Number.isFinite(number) || (one.kind === "whole" && !Number.isSafeInteger(number))) throw new Error(t.noNumber(one.name));
    return number;
  }
  if (one.kind !== "table" && one.kind !== "any") return text;
  try {
    return JSON.parse(text);
  } catch {
    if (one.kind === "any") return text;
    throw new Error(t.noTable(one.name));
  }
}

function field(one, value) {
  const id = `key-${one.name}`;
  const entry = control(one, id, value);
  const made = h(
    "div",
    { class: "field" },
    h("label", { for: id }, one.name, one.is_needed ? h("span", { class: "soft" }, ` ${t.needed}`) : null),
    entry,
    h("span", { class: "soft small", id: `${id}-hint` }, hint(one)),
  );
  return { one, entry, made };
}

function reading(one) {
  if (one.value === null) return h("span", { class: "silent" }, one.why || t.nothing);
  const value = typeof one.value === "number" ? measured(one.value, one.unit) : `${one.value} ${one.unit}`;
  return [h("span", { class: "reading-value" }, value), " ", h("span", { class: "soft" }, one.quality)];
}

function trial(told) {
  return h(
    "dl",
    { class: "tried" },
    told.values.map((one) => h("div", {}, h("dt", {}, one.name), h("dd", {}, reading(one)))),
    told.left_out ? h("p", { class: "soft" }, t.leftOut(told.left_out)) : null,
  );
}

function form(driver, name, table) {
  const fields = driver.parameters.filter((one) => !one.only_in_file).map((one) => field(one, table ? table[one.name] : undefined));
  const answer = h("div", { role: "status" });
  const error = h("p", { class: "error", role: "alert" });
  function body() {
    const told = { type: driver.type, options: {} };
    for (const { one, entry } of fields) {
      const value = said(one, entry.value.trim());
      if (value === undefined) continue;
      if (one.name === "name") told.name = value;
      else told.options[one.name] = value;
    }
    return told;
  }
  async function done(button, work) {
    fill(error);
    fill(answer);
    button.disabled = true;
    try {
      await work(body());
    } catch (refused) {
      fill(error, T.failed(refused.message));
    }
    button.disabled = false;
  }
  const attempt = h("button", { type: "button", onclick: () => done(attempt, tried) }, t.attempt);
  const save = h("button", { type: "submit", class: "primary" }, name ? t.save : t.add);
  async function tried(told) {
    fill(answer, h("p", { class: "soft" }, t.trying));
    try {
      fill(answer, trial(await source.post("sensor-trials", told)));
    } catch (refused) {
      fill(answer);
      throw refused;
    }
  }
  async function saved(told) {
    const made = name ? await source.put(path("sensors", name, "table"), told) : await source.post("sensors", told);
    location.hash = link("sensors");
    say(t.saved(made.names.join(", ")));
  }
  const often = fields.filter(({ one }) => !SELDOM.includes(one.name));
  const seldom = fields.filter(({ one }) => SELDOM.includes(one.name));
  return h(
    "form",
    {
      class: "sensor-form",
      onsubmit: (event) => {
        event.preventDefault();
        done(save, saved);
      },
    },
    often.map(({ made }) => made),
    h("details", { open: seldom.some(({ entry }) => entry.value !== "") }, h("summary", {}, t.more), seldom.map(({ made }) => made)),
    answer,
    error,
    h("div", { class: "tools" }, attempt, save, h("a", { class: "button", href: link("sensors") }, T.cancel)),
  );
}

function removal(name) {
  return sureButton({
    label: t.remove,
    question: t.sure(name),
    work: async () => {
      const told = await source.remove(path("sensors", name));
      return t.removed(told.names.join(", "));
    },
    done: () => {
      location.hash = link("sensors");
    },
  });
}

/** With a name it is of a sensor that was added, else of one that is to be. */
export async function showSensorForm(main, name) {
  const place = h("div", {});
  const error = h("p", { class: "error", role: "alert" });
  const table = name ? (await source.get(path("sensors", name, "table"))).table : null;
  const told = await source.get("drivers");
  let turn = 0;
  async function draw(type) {
    turn += 1;
    const own = turn;
    fill(error);
    fill(place);
    if (!type) return;
    try {
      const driver = await source.get(path("drivers", type));
      if (own === turn) fill(place, form(driver, name, table && table.type === type ? table : null));
    } catch (refused) {
      if (own === turn) fill(error, T.failed(refused.message));
    }
  }
  const driver = h(
    "select",
    { id: "driver", onchange: () => draw(driver.value) },
    h("option", { value: "" }, t.choose),
    told.drivers.map((one) => h("option", { value: one.type, selected: table !== null && table.type === one.type }, one.text ? `${one.type}: ${one.text}` : one.type)),
  );
  fill(
    main,
    h("h1", {}, name ? t.changing(name) : t.title),
    h("p", { class: "soft" }, t.about),
    h("section", { class: "card wide" }, h("div", { class: "field" }, h("label", { for: "driver" }, t.driver), driver), error, place),
    name ? removal(name) : null,
  );
  await draw(driver.value);
  return null;
}
