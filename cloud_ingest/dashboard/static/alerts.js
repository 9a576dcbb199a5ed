// Alerts, open and cleared, and what was said to them.
import { h, fill, rows, gatewayLink, say } from "./dom.js";
import { source } from "./data.js";
import { count, timeElement } from "./words.js";

const SHOWN = 300;
const state = { tab: "open" };
const TABS = [
  ["open", "Open", (row) => row.cleared_ms === null],
  ["new", "Not acknowledged", (row) => row.cleared_ms === null && row.acknowledged_by === null],
  ["cleared", "Cleared", (row) => row.cleared_ms !== null],
];

function said(row) {
  if (row.acknowledged_by === null) return null;
  const who = row.acknowledged_by.replace(/^[a-z]+:/, "");
  return h(
    "p",
    { class: "said" },
    h("strong", {}, who),
    " acknowledged it ",
    timeElement(row.acknowledged_time_ms),
    row.acknowledged_note ? [": ", h("q", {}, row.acknowledged_note)] : ".",
  );
}

function form(row, done) {
  const note = h("textarea", { rows: "2", maxlength: "500", "aria-label": `Note to ${row.kind} of ${row.gateway}` });
  const error = h("p", { class: "error", role: "alert" });
  const made = h(
    "form",
    {
      class: "acknowledge",
      hidden: true,
      onsubmit: async (event) => {
        event.preventDefault();
        fill(error);
        try {
          await source.post("acknowledge", { alert: row.alert, note: note.value });
          say("acknowledged");
          done();
        } catch (refused) {
          fill(error, refused.message);
        }
      },
    },
    note,
    h("button", { type: "submit", class: "primary" }, "Acknowledge"),
    error,
  );
  const opener = h(
    "button",
    {
      type: "button",
      class: "opener",
      "aria-expanded": "false",
      onclick: () => {
        made.hidden = !made.hidden;
        opener.setAttribute("aria-expanded", String(!made.hidden));
        if (!made.hidden) note.focus();
      },
    },
    row.acknowledged_by === null ? "Acknowledge …" : "Say more …",
  );
  return [opener, made];
}

function item(row, mayAcknowledge, done) {
  const isOpen = row.cleared_ms === null;
  return h(
    "li",
    { class: `card alert ${isOpen ? (row.acknowledged_by === null ? "is-open" : "is-known") : "is-over"}` },
    h(
      "div",
      { class: "alert-head" },
      h("span", { class: "kind" }, row.kind),
      row.severity === "critical" ? h("span", { class: "silent" }, "critical") : null,
      gatewayLink(row.gateway),
      row.sensor ? h("span", { class: "soft" }, row.sensor) : null,
      h("span", { class: "when soft" }, "opened ", timeElement(row.opened_ms), isOpen ? "" : [", cleared ", timeElement(row.cleared_ms)]),
    ),
    h("p", { class: "message" }, row.message || ""),
    row.what_to_do && isOpen ? h("p", { class: "soft" }, `To do: ${row.what_to_do}`) : null,
    said(row),
    mayAcknowledge && isOpen ? form(row, done) : null,
  );
}

export async function showAlerts(main, names, me) {
  let all = [];
  if (TABS.some(([name]) => name === names[0])) [state.tab] = names;
  const tabs = h("div", { class: "chips", role: "group", "aria-label": "Which alerts" });
  const list = h("ul", { class: "alerts" });
  const told = h("p", { class: "soft" });
  function draw() {
    fill(
      tabs,
      TABS.map(([name, title, is]) =>
        h(
          "button",
          {
            type: "button",
            class: "chip",
            "data-tab": name,
            "aria-pressed": String(state.tab === name),
            onclick: () => {
              state.tab = name;
              draw();
              tabs.querySelector(`[data-tab="${name}"]`).focus();
            },
          },
          `${title} ${count(all.filter(is).length)}`,
        ),
      ),
    );
    const found = all.filter(TABS.find(([name]) => name === state.tab)[2]);
    fill(told, found.length > SHOWN ? `The newest ${SHOWN} are shown.` : "");
    fill(
      list,
      found.length
        ? found.slice(0, SHOWN).map((row) => item(row, me && me.may_acknowledge, load))
        : h("li", { class: "soft" }, "None."),
    );
  }

  async function load() {
    all = rows(await source.get("alerts"));
    draw();
  }

  fill(main, h("h1", {}, "Alerts"), h("div", { class: "tools" }, tabs, told), list);
  await load();
  return {
    update: (tables) => {
      const isWriting = list.contains(document.activeElement) && document.activeElement.tagName === "TEXTAREA";
      const isNew = tables.has("alerts") || tables.has("acknowledgements");
      if (isNew && !isWriting) load();
    },
  };
}
