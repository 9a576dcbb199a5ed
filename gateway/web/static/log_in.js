// The log-in.
import { h, fill } from "./dom.js";
import { source } from "./data.js";
import { C } from "./component_texts.js";

export function logIn(main, me, done) {
  const user = h("input", { id: "user", autocomplete: "username", required: true, maxlength: "256" });
  const password = h("input", {
    id: "password",
    type: "password",
    autocomplete: "current-password",
    required: true,
  });
  const error = h("p", { class: "error", role: "alert" });
  const send = h("button", { class: "primary", type: "submit" }, C.logIn);
  const form = h(
    "form",
    {
      class: "card login",
      onsubmit: async (event) => {
        event.preventDefault();
        send.disabled = true;
        fill(error);
        try {
          await source.post("login", { user: user.value, password: password.value });
          await done();
        } catch (refused) {
          fill(error, refused.message);
          password.value = "";
          password.focus();
        }
        send.disabled = false;
      },
    },
    h("img", { src: "icon.svg", alt: "", width: "48", height: "48" }),
    h("h1", {}, "Hedgerow"),
    me.asks
      ? [
          h("label", { for: "user" }, C.user),
          user,
          h("label", { for: "password" }, C.password),
          password,
          error,
          send,
        ]
      : h("p", {}, C.mayNotLook),
  );
  main.className = "page-login";
  fill(main, form);
  if (me.asks) user.focus();
}
