// Before the first paint: the theme that was chosen here, else the system's.
"use strict";
(() => {
  let chosen = null;
  try {
    chosen = localStorage.getItem("hedgerow-theme");
  } catch {
    // a browser that keeps nothing has the system's
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
