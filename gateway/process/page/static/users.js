// Users and their passwords: who has one; added, set, removed.
import { h, fill } from "./dom.js";
import { path, source } from "./data.js";
import { T } from "./texts.js";
import { sureButton } from "./parts.js";
import { labelled, newPassword } from "./password_fields.js";
import { plainTable } from "./virtual_table.js";

const t = T.users;

/** A form for the password of somebody: typed twice, or made by the gateway. */
function passwordForm({ id, title, name, action, send }) {
  const given = newPassword(id);
  const typed = h("div", { class: "typed", hidden: true }, given.fields);
  const drawn = h("input", { type: "checkbox", id: `${id}-drawn`, checked: true });
  const error = h("p", { class: "error", role: "alert" });
  function switched() {
    typed.hidden = drawn.checked;
    for (const input of given.inputs) input.disabled = drawn.checked; // else they would be needed
  }
  drawn.addEventListener("change", switched);
  switched();
  const form = h(
    "form",
    {
      class: "user-form",
      "data-form": id,
      onsubmit: async (event) => {
        event.preventDefault();
        fill(error);
        if (!drawn.checked && !given.agree(error)) return;
        try {
          await send(drawn.checked ? {} : { password: given.value() });
          form.reset();
          switched();
        } catch (refused) {
          fill(error, T.failed(refused.message));
        }
      },
    },
    h("h3", { tabindex: "-1" }, title),
    name || null,
    h("label", { class: "check" }, drawn, t.drawn),
    typed,
    h("button", { type: "submit", class: "primary" }, action),
    error,
  );
  return form;
}

function shownOnce(told, hide) {
  return h(
    "div",
    { class: "card new-key", "data-once": told.user },
    h("h3", { tabindex: "-1" }, t.once(told.user)),
    h("p", { class: "warning" }, t.notAgain),
    h("p", {}, h("code", {}, told.password)),
    h("button", { type: "button", class: "primary", onclick: hide }, t.hide),
  );
}

function since(row) {
  return row.changed_s === null ? "–" : new Date(row.changed_s * 1000).toLocaleString([], { dateStyle: "medium", timeStyle: "short" });
}

/** All users, for those who may change them. */
export async function usersPart(me) {
  const list = h("div", {});
  const once = h("div", {});
  const other = h("div", {});
  const adding = h("div", {});
  const news = h("p", { class: "good", role: "status", tabindex: "-1" });

  function told(answer, text) {
    fill(news, text);
    fill(other);
    fill(once);
    if (!answer.password) {
      news.focus();
      return;
    }
    fill(
      once,
      shownOnce(answer, () => fill(once)),
    );
    once.querySelector("h3").focus();
  }

  function another(row) {
    fill(news);
    fill(once);
    fill(
      other,
      passwordForm({
        id: "another",
        title: t.anotherFor(row.name),
        action: t.set,
        send: async (body) => {
          told(await source.put(path("users", row.name, "password"), body), t.isChanged(row.name));
          await load();
        },
      }),
    );
    other.querySelector("h3").focus();
  }

  function actions(row) {
    if (!row.may_change || !row.has_password) return null;
    return h(
      "span",
      { class: "tools" },
      // One's own is changed beside: the session ends by it, and what was drawn would be gone.
      row.name === me.user ? null : h("button", { type: "button", "data-another": row.name, onclick: () => another(row) }, t.another),
      row.why_not
        ? null
        : sureButton({
            label: t.remove,
            question: t.sure(row.name),
            work: async () => {
              await source.remove(path("users", row.name));
              told({}, t.removed(row.name));
              return t.removed(row.name);
            },
            done: load,
          }),
    );
  }

  async function load() {
    const found = await source.get("users");
    const columns = [
      { title: t.name, cell: (row) => row.name },
      { title: t.password, cell: (row) => (row.has_password ? t.isSet : t.isNone) },
      { title: t.since, cell: since },
      { title: t.roles, cell: (row) => row.roles.join(", ") || "–" },
      { title: t.mqttRoles, cell: (row) => row.mqtt_roles.join(", ") || "–" },
    ];
    if (!found.why_not) columns.push({ title: "", cell: actions });
    fill(list, plainTable({ label: t.title, none: t.none, rows: found.users, columns }));
    if (found.why_not) {
      fill(adding, h("p", {}, t.otherwise(found.why_not)), found.command ? [h("p", { class: "soft" }, t.command), h("code", {}, found.command)] : null);
    } else if (!adding.firstChild) fill(adding, addForm());
  }

  function addForm() {
    const name = h("input", { id: "new-user", required: true, maxlength: "256", autocomplete: "off", spellcheck: "false" });
    return passwordForm({
      id: "add",
      title: t.add,
      name: labelled(t.name, name),
      action: t.addIt,
      send: async (body) => {
        const user = name.value.trim();
        told(await source.post("users", { user, ...body }), t.isAdded(user));
        await load();
      },
    });
  }

  await load();
  return h("section", { class: "card wide users" }, h("h2", {}, t.title), h("p", { class: "soft" }, t.about), news, list, other, once, adding);
}
