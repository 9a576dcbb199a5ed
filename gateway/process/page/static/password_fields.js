// Fields for passwords: one that is known, and a new one that is typed twice.
import { h, fill } from "./dom.js";
import { T } from "./texts.js";

const t = T.passwordFields;
const LEAST = 10;
const MOST = 256;

export function secret(id, autocomplete) {
  return h("input", { id, type: "password", autocomplete, maxlength: String(MOST), required: true });
}

export function labelled(text, input, hint) {
  const hintId = `${input.id}-hint`;
  if (hint) input.setAttribute("aria-describedby", hintId);
  return h("div", { class: "field" }, h("label", { for: input.id }, text), hint ? h("span", { class: "soft small", id: hintId }, hint) : null, input);
}

/** Two fields; `agree` says whether both have the same, and tells in `error` if they do not. */
export function newPassword(id) {
  const first = secret(`${id}-new`, "new-password");
  const second = secret(`${id}-again`, "new-password");
  first.minLength = LEAST;
  return {
    fields: [labelled(t.new, first, t.hint), labelled(t.again, second)],
    inputs: [first, second],
    value: () => first.value,
    agree: (error) => {
      const is_same = first.value === second.value;
      if (!is_same) {
        fill(error, t.differ);
        second.focus();
      }
      return is_same;
    },
  };
}
