// Alerts of this gateway: what is wrong, who has it in hand, what is silenced, and the ways out.
import { h, fill, say } from "./dom.js";
import { source } from "./data.js";
import { T } from "./texts.js";
import { repeated } from "./live.js";
import { sureButton, tabs } from "./parts.js";
import { plainTable } from "./virtual_table.js";
import { count, span, timeElement } from "./words.js";

const EVERY_MS = 5_000;
const t = T.alerts;
const state = { tab: "open" };
const SPANS = [
  [1800, t.minutes(30)],
  [3600, t.hours(1)],
  [8 * 3600, t.hours(8)],
  [24 * 3600, t.hours(24)],
];

function order(label, fields, send, done) {
  const error = h("p", { class: "error", role: "alert" });
  const form = h(
    "form",
    {
      class: "acknowledge",
      hidden: true,
      onsubmit: async (event) => {
        event.preventDefault();
        fill(error);
        try {
          say(await send());
          await done();
        } catch (refused) {
          fill(error, refused.message);
        }
      },
    },
    fields,
    h("button", { type: "submit", class: "primary" }, label.replace(" …", "")),
    error,
  );
  const opener = h(
    "button",
    {
      type: "button",
      class: "opener",
      "aria-expanded": "false",
      onclick: () => {
        form.hidden = !form.hidden;
        opener.setAttribute("aria-expanded", String(!form.hidden));
        if (!form.hidden) form.querySelector("textarea, select")?.focus();
      },
    },
    label,
  );
  return [opener, form];
}

function acknowledging(one, done) {
  const note = h("textarea", { rows: "2", maxlength: "500", "aria-label": t.note });
  return order(
    t.acknowledge,
    note,
    async () => {
      await source.post("alerts", { do: "ack", alert: one.alert, note: note.value });
      return t.isAcknowledged;
    },
    done,
  );
}

function silencing(one, done) {
  const lasts = h("select", { "aria-label": t.silenceFor }, SPANS.map(([seconds, said]) => h("option", { value: seconds }, said)));
  return order(
    t.silence,
    lasts,
    async () => {
      const match = { rule: one.rule, gateway: one.gateway, ...(one.part ? { part: one.part } : {}) };
      await source.post("alerts", { do: "silence", for_s: Number(lasts.value), match });
      return t.isSilenced;
    },
    done,
  );
}

function item(one, me, done, isOpen) {
  const who = (one.taken_on?.who || "").replace(/^[a-z]+:/, "");
  return h(
    "li",
    { class: `card alert ${isOpen ? (who ? "is-known" : "is-open") : "is-over"}` },
    h(
      "div",
      { class: "alert-head" },
      h("span", { class: "kind" }, one.rule),
      h("span", { class: one.severity === "critical" ? "silent" : "soft" }, one.severity),
      h("span", {}, one.gateway),
      one.part ? h("span", { class: "soft" }, one.part) : null,
      h("span", { class: "when soft" }, `${t.since} `, timeElement(one.since_us / 1000)),
    ),
    h("p", { class: "message" }, one.message),
    isOpen && one.what_to_do ? h("p", { class: "soft" }, `${t.toDo}: ${one.what_to_do}`) : null,
    who ? h("p", { class: "said" }, t.acknowledged(who), one.taken_on.note ? `: ${one.taken_on.note}` : "") : null,
    one.silence ? h("p", { class: "soft" }, t.silenced) : null,
    isOpen && me.may.alerts ? [...acknowledging(one, done), ...silencing(one, done)] : null,
  );
}

function silences(told, me, load) {
  return plainTable({
    label: t.silences,
    none: T.none,
    rows: told.silences,
    columns: [
      { title: t.silences, cell: (row) => Object.entries(row.matcher).map(([name, value]) => `${name}=${value}`).join(" ") || "*" },
      { title: t.left, right: true, cell: (row) => span(row.left_s) },
      { title: t.note, cell: (row) => row.note || "" },
      {
        title: "",
        cell: (row) =>
          me.may.alerts
            ? h(
                "button",
                {
                  type: "button",
                  onclick: async () => {
                    await source.post("alerts", { do: "unsilence", number: row.number });
                    say(t.ended);
                    await load();
                  },
                },
                t.end,
              )
            : "",
      },
    ],
  });
}

function ways(told, me, load) {
  const rows = Object.entries(told.ways).map(([way, one]) => ({ way, ...one }));
  return [
    plainTable({
      label: t.ways,
      none: T.none,
      rows,
      columns: [
        { title: t.way, cell: (row) => row.way },
        { title: t.waiting, right: true, cell: (row) => count(row.waiting) },
        { title: t.delivered, right: true, cell: (row) => count(row.delivered) },
        { title: t.trouble, cell: (row) => row.trouble || "–" },
      ],
    }),
    rows.length && me.may.alerts
      ? sureButton({
          label: t.test,
          question: `${t.test}?`,
          work: async () => {
            await source.post("alerts", { do: "test" });
            return t.tested;
          },
          done: load,
        })
      : null,
  ];
}

export async function showAlerts(main, names, me) {
  const chosen = h("div", { class: "tools" });
  const body = h("div", {});

  // What somebody is writing is not drawn over, but by what he has sent himself.
  async function load(isOwn = false) {
    let told;
    try {
      told = await source.get("alerts");
    } catch (refused) {
      if (refused.status !== 404) throw refused;
      fill(body, h("p", { class: "soft" }, t.off));
      return;
    }
    if (!isOwn && body.contains(document.activeElement) && ["TEXTAREA", "SELECT"].includes(document.activeElement.tagName)) return;
    fill(
      chosen,
      tabs(
        t.title,
        [
          ["open", `${t.open} ${count(told.alerts.length)}`],
          ["cleared", `${t.cleared} ${count(told.cleared.length)}`],
          ["silences", `${t.silences} ${count(told.silences.length)}`],
          ["ways", `${t.ways} ${count(Object.keys(told.ways).length)}`],
        ],
        state.tab,
        (name) => {
          state.tab = name;
          load().then(() => chosen.querySelector(`[data-tab="${name}"]`)?.focus());
        },
      ),
    );
    const shown = {
      open: () => list(told.alerts, true),
      cleared: () => list(told.cleared, false),
      silences: () => h("section", { class: "card" }, silences(told, me, load)),
      ways: () => h("section", { class: "card" }, ways(told, me, load)),
    };
    fill(body, shown[state.tab]());
  }
  function list(found, isOpen) {
    if (!found.length) return h("p", { class: "soft" }, isOpen ? t.noneOpen : T.none);
    return h("ul", { class: "alerts" }, found.map((one) => item(one, me, () => load(true), isOpen)));
  }

  fill(main, h("h1", {}, t.title), chosen, body);
  await load();
  return { close: repeated(() => load(), EVERY_MS) };
}
