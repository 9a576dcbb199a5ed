// The page: its head, log-in, and which view is shown.
import { h, fill, say } from "./dom.js";
import { source } from "./data.js";
import { T } from "./texts.js";
import { themeSwitch } from "./theme_switch.js";
import { logIn } from "./log_in.js";
import { showOverview } from "./overview.js";
import { showTree } from "./tree.js";
import { showClients } from "./clients.js";
import { showTopics } from "./topics.js";
import { showSensors } from "./sensors.js";
import { showDirectory } from "./directory.js";
import { showAlerts } from "./alerts.js";
import { showLog } from "./log.js";
import { showPolicy } from "./policy.js";
import { showConfiguration } from "./configuration.js";
import { showKeys } from "./keys.js";

const PAGES = {
  overview: [T.overview.title, showOverview],
  tree: [T.tree.title, showTree],
  clients: [T.clients.title, showClients, "clients"],
  topics: [T.topics.title, showTopics],
  sensors: [T.sensors.title, showSensors],
  directory: [T.directory.title, showDirectory],
  alerts: [T.alerts.title, showAlerts],
  log: [T.log.title, showLog, "log"],
  policy: [T.policy.title, showPolicy],
  configuration: [T.configuration.title, showConfiguration, "configuration"],
  keys: [T.keys.title, showKeys, "keys"],
};

const main = document.getElementById("main");
let view = null;
let me = null;
let turn = 0;

// What somebody may not see at all is no entry: a page without rows would be a dead end.
function shownPages() {
  return Object.entries(PAGES).filter(([, [, , needs]]) => !needs || me.may[needs]);
}

function place() {
  const [page, ...names] = location.hash.replace(/^#\//, "").split("/").filter(Boolean);
  const decoded = names.map((name) => {
    try {
      return decodeURIComponent(name);
    } catch {
      return name;
    }
  });
  return { page: Object.hasOwn(PAGES, page || "") ? page : "overview", names: decoded };
}

function head() {
  const { page } = place();
  fill(
    document.getElementById("top"),
    h(
      "div",
      { class: "bar" },
      h("a", { class: "brand", href: "#/overview" }, h("img", { src: "icon.svg", alt: "" }), me.gateway),
      h(
        "nav",
        { "aria-label": T.pages },
        shownPages().map(([name, [title]]) =>
          h("a", { href: `#/${name}`, "aria-current": name === page ? "page" : null }, title),
        ),
      ),
      h("span", { class: "state", id: "state" }),
      themeSwitch(() => open()),
      me.user ? h("button", { type: "button", class: "quiet", onclick: leave }, T.logOut(me.user)) : null,
    ),
  );
  const here = document.querySelector("nav [aria-current]");
  if (here) here.scrollIntoView({ block: "nearest", inline: "nearest" });
}

async function leave() {
  await source.post("logout", {});
  location.reload();
}

async function open() {
  const { page, names } = place();
  const [title, show] = PAGES[page];
  turn += 1;
  const own = turn;
  if (view && view.close) view.close();
  view = null;
  head();
  document.title = T.title(title, me.gateway);
  main.className = `page-${page}`;
  let made = null;
  try {
    made = await show(main, names, me);
  } catch (error) {
    if (own === turn) fill(main, h("h1", {}, title), h("p", { class: "error", role: "alert" }, error.message));
    return;
  }
  if (own === turn) view = made;
  else if (made && made.close) made.close();
}

async function begin() {
  me = await source.get("me");
  source.known(me.csrf);
  if (!me.is_in) {
    if (view && view.close) view.close();
    view = null;
    fill(document.getElementById("top"));
    logIn(main, me, begin);
    return;
  }
  await open();
}

window.addEventListener("hashchange", () => {
  if (!me || !me.is_in) return;
  open().then(() => {
    main.focus({ preventScroll: true });
    window.scrollTo(0, 0);
    say(document.title);
  });
});
window.addEventListener("hedgerow-log-in", () => {
  if (me && me.is_in) begin();
});
window.addEventListener("hedgerow-connected", (event) => {
  const state = document.getElementById("state");
  if (state) fill(state, event.detail ? "" : T.notConnected);
});
document.documentElement.lang = T.language;
fill(document.querySelector(".skip"), T.skip);
begin();
