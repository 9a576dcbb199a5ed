// Dark, light, or as the system has it.
import { h, fill } from "./dom.js";
import { C } from "./component_texts.js";

const NEXT = { system: "light", light: "dark", dark: "system" };
const MARK = { system: "◐", light: "☀", dark: "☾" };

function now() {
  return document.documentElement.dataset.theme || "system";
}

export function themeSwitch(changed) {
  const button = h("button", { type: "button", class: "quiet theme" });
  const draw = () => {
    const is = now();
    button.setAttribute("aria-label", C.changeTheme(C.themes[is], C.themes[NEXT[is]]));
    button.title = C.theme(C.themes[is]);
    fill(button, h("span", { "aria-hidden": "true" }, MARK[is]));
  };
  button.addEventListener("click", () => {
    const next = NEXT[now()];
    if (next === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = next;
    try {
      localStorage.setItem("hedgerow-theme", next);
    } catch {
      // it holds until the page is left
    }
    draw();
    changed();
    document.querySelector(".theme").focus();
  });
  draw();
  return button;
}

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
