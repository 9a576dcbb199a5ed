// One's own password, for everybody who has one.
import { h, fill, say } from "./dom.js";
import { source } from "./data.js";
import { T } from "./texts.js";
import { labelled, newPassword, secret } from "./password_fields.js";

const t = T.ownPassword;

/** For password stores: they keep a new one by the name that stands beside it. */
function nameOf(user) {
  return h("input", { type: "text", autocomplete: "username", value: user, readonly: true, hidden: true });
}

export async function ownPassword(me) {
  const found = await source.get("me/password");
  const about = found.why_not ? t.otherwise(found.why_not) : t.about;
  const card = h("section", { class: "card own-password" }, h("h2", {}, t.title), h("p", { class: "soft" }, about));
  if (found.why_not) return card;
  const old = secret("own-old", "current-password");
  const given = newPassword("own");
  const error = h("p", { class: "error", role: "alert" });
  card.append(
    h(
      "form",
      {
        class: "user-form",
        onsubmit: async (event) => {
          event.preventDefault();
          fill(error);
          if (!given.agree(error)) return;
          try {
            await source.post("me/password", { old: old.value, new: given.value() });
            say(t.changed);
            window.dispatchEvent(new Event("hedgerow-log-in"));
          } catch (refused) {
            fill(error, T.failed(refused.message));
          }
        },
      },
      nameOf(me.user),
      labelled(t.old, old),
      given.fields,
      h("button", { type: "submit", class: "primary" }, t.change),
      error,
    ),
  );
  return card;
}
