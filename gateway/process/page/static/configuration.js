// The configuration: each key, and changes of it on trial.
import { h, fill, say } from "./dom.js";
import { source } from "./data.js";
import { T } from "./texts.js";
import { repeated } from "./live.js";

const t = T.configuration;
const EVERY_MS = 2_000;
const WITHIN_S = 60;
// What this browser has begun, over the log-in that a restart takes.
const BEGUN = "hedgerow-trial";
const state = { search: "", all: false };
let wanted = new Map();

function toml(value) {
  if (value === null || value === undefined) return t.nothing;
  if (Array.isArray(value)) return `[${value.map(toml).join(", ")}]`;
  if (typeof value === "object") return `{${Object.entries(value).map(([name, one]) => `${name} = ${toml(one)}`).join(", ")}}`;
  return JSON.stringify(value);
}

function from(row) {
  if (row.source === "file") return row.line ? t.line(row.line) : t.file;
  return row.source === "default" ? t.byDefault : t.environment;
}

function span(row) {
  const parts = [row.kind];
  if (row.range) parts.push(t.range(row.range[0], row.range[1]));
  if (!row.is_needed) parts.push(`${t.byDefault}: ${toml(row.default)}`);
  parts.push(row.applied_by === "reload" ? t.reload : t.restart);
  return parts.join(" · ");
}

function field(row) {
  const shown = wanted.has(row.key) ? wanted.get(row.key).shown : row.value;
  const named = { "aria-label": t.valueOf(row.key), class: "config-value" };
  if (row.choices) {
    return h("select", named, row.choices.map((one) => h("option", { value: one, selected: one === shown }, one)));
  }
  if (row.kind === "true or false") {
    return h("select", named, ["true", "false"].map((one) => h("option", { value: one, selected: one === String(shown) }, one)));
  }
  const isText = row.kind === "text";
  return h("input", { ...named, value: isText ? shown || "" : shown === null ? "" : toml(shown), autocomplete: "off", spellcheck: "false", maxlength: "900" });
}

// What is typed is a value of TOML; a text needs no quotes around it.
function written(row, text) {
  const isText = row.kind === "text" || (row.kind === "port" && !/^\d+$/.test(text.trim()));
  return isText ? JSON.stringify(text) : text.trim();
}

function editor(row, done) {
  const input = field(row);
  const form = h(
    "form",
    {
      class: "config-form",
      onsubmit: (event) => {
        event.preventDefault();
        wanted.set(row.key, { set: `${row.key}=${written(row, input.value)}`, shown: input.value });
        done();
      },
    },
    input,
    h("button", { type: "submit" }, t.note),
    row.source === "file" && !row.is_needed
      ? h(
          "button",
          {
            type: "button",
            onclick: () => {
              wanted.set(row.key, { unset: row.key, shown: row.default });
              done();
            },
          },
          t.takeOut,
        )
      : null,
  );
  return form;
}

function keyRow(row, done) {
  const asked = wanted.get(row.key);
  const inside = h("div", {});
  // Made when it is looked at: there are two hundred keys.
  function opened(event) {
    if (event.target.open && !inside.firstChild) {
      fill(inside, h("p", { class: "soft small" }, span(row)), row.may_change ? editor(row, done) : h("p", { class: "soft small" }, row.why_not));
    }
  }
  return h(
    "li",
    { class: "config-key", "data-key": row.key },
    h("div", { class: "config-head" }, h("code", {}, row.key), h("span", { class: "soft small" }, from(row))),
    row.text ? h("p", { class: "small" }, row.text) : null,
    h(
      "details",
      { ontoggle: opened },
      h("summary", {}, h("code", {}, toml(row.value)), asked ? h("strong", {}, ` → ${asked.unset ? t.byDefault : asked.shown}`) : null),
      inside,
    ),
  );
}

function body() {
  const asked = [...wanted.values()];
  return { set: asked.filter((one) => one.set).map((one) => one.set), unset: asked.filter((one) => one.unset).map((one) => one.unset) };
}

function difference(told) {
  return h(
    "pre",
    { class: "config-diff", tabindex: "0", "aria-label": t.difference },
    told.changes.flatMap((one) => [
      h("span", { class: "silent" }, `- ${one.key} = ${toml(one.before)}${one.was_from === "default" ? `  (${t.byDefault})` : ""}\n`),
      h("span", { class: "good" }, `+ ${one.key} = ${toml(one.after)}${one.is_from === "default" ? `  (${t.byDefault})` : ""}\n`),
    ]),
  );
}

function changes(told, checked, reload) {
  const error = h("p", { class: "error", role: "alert" });
  async function apply() {
    try {
      const came = await source.post("configuration", { ...body(), if_unchanged: checked.digest, within_s: WITHIN_S });
      if (came.trial) sessionStorage.setItem(BEGUN, came.trial.id);
      wanted = new Map();
      say(came.outcome === "on trial" ? t.begun(WITHIN_S) : t.saved);
      await reload();
    } catch (refused) {
      fill(error, T.failed(refused.message));
    }
  }
  const restarts = checked.changes.filter((one) => one.applied_by === "restart").map((one) => one.key);
  const isGood = !checked.faults.length && checked.changes.length > 0;
  return h(
    "section",
    { class: "card wide config-changes", "aria-label": t.changes },
    h("h2", {}, t.changes),
    checked.changes.length ? difference(checked) : h("p", { class: "soft" }, t.unchanged),
    checked.faults.map((one) => h("p", { class: "error" }, one)),
    isGood ? h("p", {}, restarts.length ? t.restarts(restarts.join(", ")) : t.reloads) : null,
    isGood && !told.may_write ? h("p", {}, t.byCommand(told.why_not)) : null,
    isGood && !told.may_write ? h("pre", { class: "config-diff", tabindex: "0", "aria-label": t.command }, checked.command) : null,
    h(
      "div",
      { class: "tools" },
      isGood && told.may_write ? h("button", { type: "button", class: "primary", "data-do": "apply", onclick: apply }, t.apply) : null,
      h(
        "button",
        {
          type: "button",
          onclick: () => {
            wanted = new Map();
            reload();
          },
        },
        t.forget,
      ),
    ),
    error,
  );
}

function verdict(trial) {
  if (!trial) return null;
  const isOwn = sessionStorage.getItem(BEGUN) === trial.id;
  const texts = { waiting: t.waiting, trying: t.trying, confirmed: t.confirmed, returned: t.returned };
  const looks = { confirmed: "good", returned: "silent" };
  const isOver = trial.state in looks;
  if (isOver && !isOwn && trial.state === "confirmed") return null;
  return h(
    "section",
    { class: "card wide", "data-trial": trial.state, role: "status" },
    h("strong", { class: looks[trial.state] || "warning" }, texts[trial.state]),
    trial.why ? h("p", {}, trial.why) : null,
  );
}

function list(told, place, done) {
  const words = state.search.toLowerCase().split(/\s+/).filter(Boolean);
  const rows = told.keys.filter(
    (row) =>
      (state.all || words.length || row.source !== "default" || wanted.has(row.key)) &&
      words.every((word) => `${row.key} ${row.text}`.toLowerCase().includes(word)),
  );
  fill(place, h("p", { class: "soft" }, T.shownOf(rows.length, told.keys.length)), h("ul", { class: "config-keys" }, rows.map((row) => keyRow(row, done))));
}

export async function showConfiguration(main) {
  let told = null;
  const trialPlace = h("div", {});
  const changesPlace = h("div", {});
  const keysPlace = h("div", {});
  const find = h("input", {
    type: "search",
    value: state.search,
    placeholder: t.find,
    "aria-label": t.find,
    oninput: () => {
      state.search = find.value;
      list(told, keysPlace, noted);
    },
  });
  const all = h("input", {
    type: "checkbox",
    checked: state.all,
    onchange: () => {
      state.all = all.checked;
      list(told, keysPlace, noted);
    },
  });
  async function noted() {
    list(told, keysPlace, noted);
    if (!wanted.size) {
      fill(changesPlace);
      return;
    }
    try {
      fill(changesPlace, changes(told, await source.post("configuration/checks", body()), load));
    } catch (refused) {
      const forget = h("button", { type: "button", onclick: () => { wanted = new Map(); noted(); } }, t.forget);
      fill(changesPlace, h("section", { class: "card wide config-changes" }, h("p", { class: "error", role: "alert" }, refused.message), forget));
    }
    changesPlace.scrollIntoView({ block: "nearest" });
  }
  async function load() {
    told = await source.get("configuration");
    fill(trialPlace, verdict(told.trial));
    await noted();
  }
  let last = "";
  async function look() {
    const { trial } = await source.get("configuration/trial");
    const now = JSON.stringify(trial);
    if (now === last) return;
    last = now;
    await load();
  }
  await load();
  last = JSON.stringify(told.trial);
  fill(
    main,
    h("h1", {}, t.title),
    h("p", { class: "soft" }, h("code", {}, told.file), told.may_write ? "" : ` – ${t.readOnly(told.why_not)}`),
    trialPlace,
    changesPlace,
    h("div", { class: "tools" }, find, h("label", { class: "check" }, all, t.all)),
    keysPlace,
  );
  return { close: repeated(look, EVERY_MS) };
}
