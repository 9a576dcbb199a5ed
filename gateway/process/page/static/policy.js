// Who may do what, and why.
import { h, fill } from "./dom.js";
import { source } from "./data.js";
import { T } from "./texts.js";
import { ownPassword } from "./own_password.js";
import { usersPart } from "./users.js";
import { plainTable } from "./virtual_table.js";

const t = T.policy;
const state = { who: "", action: "" };

const ruleColumns = [
  { title: t.effect, cell: (row) => row.effect },
  { title: t.who, cell: (row) => row.who },
  { title: t.verb, cell: (row) => row.verb },
  { title: t.target, cell: (row) => row.target || "–" },
  { title: t.place, cell: (row) => row.place },
];

function question(me) {
  const answer = h("div", { role: "status" });
  const who = h("input", { id: "who", value: state.who, placeholder: t.whoHint, maxlength: "300", autocomplete: "off", disabled: !me.may.policy });
  const action = h("input", { id: "action", value: state.action, placeholder: t.actionHint, required: true, maxlength: "1024", autocomplete: "off" });
  return h(
    "form",
    {
      class: "card wide question",
      onsubmit: async (event) => {
        event.preventDefault();
        state.who = who.value.trim();
        state.action = action.value.trim();
        try {
          const told = await source.get("policy/explain", { who: state.who, action: state.action });
          fill(
            answer,
            h(
              "p",
              {},
              h("strong", { class: told.allowed ? "good" : "silent" }, told.allowed ? t.allowed : t.denied),
              `: ${told.principal}, ${told.action}`,
            ),
            h("p", { class: "soft" }, told.why),
            h("p", { class: "soft" }, `${t.roles}: ${told.roles.join(", ") || "–"} (${told.why_roles})`),
          );
        } catch (refused) {
          fill(answer, h("p", { class: "error" }, refused.message));
        }
      },
    },
    h("h2", {}, t.question),
    h("p", { class: "soft" }, t.you(me.who, (me.roles || []).join(", ") || "–")),
    h("div", { class: "tools" }, h("label", { for: "who" }, t.who), who, h("label", { for: "action" }, t.action), action, h("button", { type: "submit", class: "primary" }, t.ask)),
    answer,
  );
}

function assigned(told) {
  const rows = [
    ...Object.entries(told.assigned).map(([who, roles]) => ({ who, roles })),
    { who: t.defaults, roles: told.default_roles },
  ];
  return plainTable({
    label: t.assigned,
    none: T.none,
    rows,
    columns: [
      { title: t.principal, cell: (row) => row.who },
      { title: t.roles, cell: (row) => row.roles.join(", ") || "–" },
    ],
  });
}

function roles(told) {
  return told.roles.map((role) =>
    h(
      "details",
      { class: "role" },
      h("summary", {}, role.name, role.includes.length ? h("span", { class: "soft" }, ` ${t.includes} ${role.includes.join(", ")}`) : null),
      plainTable({ label: role.name, none: T.none, rows: role.rules, columns: ruleColumns.filter((one) => one.title !== t.who) }),
    ),
  );
}

export async function showPolicy(main, _names, me) {
  const users = me.may.users ? await usersPart(me) : null;
  const own = me.user ? await ownPassword(me) : null;
  if (!me.may.policy) {
    fill(main, h("h1", {}, t.title), question(me), users, own, h("p", { class: "soft" }, t.mayNot));
    return null;
  }
  const told = await source.get("policy");
  fill(
    main,
    h("h1", {}, t.title),
    question(me),
    users,
    h(
      "div",
      { class: "columns" },
      own,
      h("section", { class: "card" }, h("h2", {}, t.assigned), assigned(told)),
      h("section", { class: "card" }, h("h2", {}, t.roles), roles(told)),
      h("section", { class: "card" }, h("h2", {}, t.rules), plainTable({ label: t.rules, none: T.none, rows: told.rules, columns: ruleColumns })),
    ),
  );
  return null;
}
