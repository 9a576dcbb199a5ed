// The log as it is written, the audit trail, and a bundle for whoever helps.
import { h, fill, debounced } from "./dom.js";
import { source } from "./data.js";
import { T } from "./texts.js";
import { followed } from "./live.js";
import { tabs } from "./parts.js";
import { plainTable } from "./virtual_table.js";
import { time } from "./words.js";

const SHOWN = 500;
const LEVELS = ["DEBUG", "INFO", "WARNING", "ERROR"];
const t = T.log;
const state = { tab: "tail", level: "INFO", text: "" };

function lineOf(one) {
  return h(
    "div",
    { class: `line ${one.level.toLowerCase()}` },
    h("span", { class: "soft" }, time(one.time_ms).slice(11)),
    h("span", { class: "level" }, one.level),
    h("span", { class: "soft from" }, one.from),
    h("span", {}, one.text),
  );
}

function tail(body, error) {
  let end = () => {};
  let isPaused = false;
  const list = h("div", { class: "lines", tabindex: "0", role: "log", "aria-label": t.lines, "aria-live": "off" });
  function follow() {
    end();
    fill(list);
    fill(error);
    end = followed(
      "log",
      { level: state.level, text: state.text },
      (told) => {
        if (isPaused || !told.lines.length) return;
        const isAtEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
        list.append(...told.lines.map(lineOf));
        while (list.children.length > SHOWN) list.firstChild.remove();
        if (isAtEnd) list.scrollTop = list.scrollHeight;
      },
      (refused) => fill(error, refused.message),
    );
  }
  const level = h(
    "select",
    {
      id: "level",
      onchange: () => {
        state.level = level.value;
        follow();
      },
    },
    LEVELS.map((name) => h("option", { value: name, selected: name === state.level }, name)),
  );
  const text = h("input", {
    type: "search",
    value: state.text,
    placeholder: t.find,
    "aria-label": t.find,
    maxlength: "200",
    oninput: debounced(() => {
      state.text = text.value;
      follow();
    }, 300),
  });
  const pause = h(
    "button",
    {
      type: "button",
      "aria-pressed": "false",
      onclick: () => {
        isPaused = !isPaused;
        pause.setAttribute("aria-pressed", String(isPaused));
        fill(pause, isPaused ? t.follow : t.pause);
        if (!isPaused) follow();
      },
    },
    t.pause,
  );
  fill(body, h("div", { class: "tools" }, h("label", { for: "level" }, t.level), level, text, pause), list);
  follow();
  return () => end();
}

async function audit(body) {
  const told = await source.get("audit");
  fill(
    body,
    h(
      "section",
      { class: "card" },
      plainTable({
        label: t.audit,
        none: T.none,
        rows: told.changes,
        columns: [
          { title: t.when, cell: (row) => time(row.time_s * 1000) },
          { title: t.who, cell: (row) => row.who },
          { title: t.what, cell: (row) => row.what },
          {
            title: t.of,
            cell: (row) =>
              Object.entries(row.of)
                .filter(([, value]) => value !== null)
                .map(([name, value]) => `${name}=${Array.isArray(value) ? value.join(",") : value}`)
                .join("  "),
          },
        ],
      }),
    ),
  );
}

export async function showLog(main, names, me) {
  if (!me.may.log) {
    fill(main, h("h1", {}, t.title), h("p", { class: "soft" }, t.mayNot));
    return null;
  }
  let end = () => {};
  const chosen = h("div", {});
  const body = h("div", {});
  const error = h("p", { class: "error", role: "alert" });
  async function draw() {
    end();
    end = () => {};
    fill(
      chosen,
      tabs(t.title, [["tail", t.tail], ...(me.may.audit ? [["audit", t.audit]] : [])], state.tab, (name) => {
        state.tab = name;
        draw().then(() => chosen.querySelector(`[data-tab="${name}"]`)?.focus());
      }),
    );
    if (state.tab === "audit") await audit(body);
    else end = tail(body, error);
  }
  fill(
    main,
    h("h1", {}, t.title),
    h(
      "div",
      { class: "tools" },
      chosen,
      me.may.support ? h("a", { class: "button", href: source.file("support"), download: "", title: t.bundleSays }, t.bundle) : null,
    ),
    error,
    body,
  );
  await draw();
  return { close: () => end() };
}
