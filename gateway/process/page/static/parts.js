// Pieces that several pages have: what asks before it does something, and what says how it went.
import { h, fill, say } from "./dom.js";
import { T } from "./texts.js";

/** A button that asks first, in its place; `work` does it, and may say what to announce. */
export function sureButton({ label, question, extra, work, done }) {
  const place = h("span", { class: "sure" });
  const error = h("span", { class: "error", role: "alert" });
  const opener = h("button", { type: "button", class: "opener", onclick: ask }, label);
  function close() {
    fill(place, opener);
    opener.focus();
  }
  function ask() {
    const go = h("button", { type: "button", class: "primary", onclick: run }, label);
    fill(error);
    fill(place, h("span", {}, question), extra || null, go, h("button", { type: "button", onclick: close }, T.cancel), error);
    go.focus();
  }
  async function run() {
    try {
      const said = await work();
      say(said);
      if (done) await done();
      else close();
    } catch (refused) {
      fill(error, T.failed(refused.message));
    }
  }
  fill(place, opener);
  return place;
}

export function facts(pairs) {
  return h(
    "dl",
    { class: "facts" },
    pairs
      .filter(Boolean)
      .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value === null || value === undefined || value === "" ? "–" : value))),
  );
}

export function figures(pairs) {
  return h(
    "dl",
    { class: "figures" },
    pairs.map(([name, value, kind]) => h("div", { class: kind || null }, h("dt", {}, name), h("dd", {}, value))),
  );
}

export function tabs(label, names, now, chosen) {
  return h(
    "div",
    { class: "chips", role: "group", "aria-label": label },
    names.map(([name, title]) =>
      h(
        "button",
        { type: "button", class: "chip", "data-tab": name, "aria-pressed": String(name === now), onclick: () => chosen(name) },
        title,
      ),
    ),
  );
}
