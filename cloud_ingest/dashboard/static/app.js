// The page: its head, log-in, and which view is shown.
import { h, fill, gatewayLink, link, say } from "./dom.js";
import { source } from "./data.js";
import { themeSwitch } from "./theme_switch.js";
import { logIn } from "./log_in.js";
import { ago, count, healthMark } from "./words.js";
import { showFleet } from "./fleet.js";
import { showTree } from "./tree.js";
import { showMap } from "./map.js";
import { showGateway } from "./gateway.js";
import { showSensors } from "./sensors.js";
import { showAlerts } from "./alerts.js";
import { showLoss } from "./loss.js";

const PAGES = [
  ["fleet", "Fleet", showFleet],
  ["tree", "Tree", showTree],
  ["map", "Map", showMap],
  ["sensors", "Sensors", showSensors],
  ["alerts", "Alerts", showAlerts],
  ["loss", "Gaps & latency", showLoss],
];
const SHOW = Object.fromEntries([...PAGES.map(([name, , show]) => [name, show])]);
SHOW.gateway = showGateway;

const main = document.getElementById("main");
let view = null;
let me = null;
let problem = null;
let attention = null;
const SAY_AGAIN_MS = 30_000;

function place() {
  const [path, query] = location.hash.replace(/^#\//, "").split("?");
  const parts = path.split("/").filter(Boolean);
  const decoded = parts.map((part) => {
    try {
      return decodeURIComponent(part);
    } catch {
      return part;
    }
  });
  return { page: decoded[0] in SHOW ? decoded[0] : "fleet", names: decoded.slice(1), options: Object.fromEntries(new URLSearchParams(query)) };
}

function head() {
  const { page } = place();
  const state = h("span", { class: "state", id: "state" });
  problem = h("p", { class: "problem", role: "alert", hidden: true });
  attention = h("div", { class: "attention", hidden: true });
  fill(
    document.getElementById("top"),
    h(
      "div",
      { class: "bar" },
      h("a", { class: "brand", href: "#/fleet" }, h("img", { src: "icon.svg", alt: "" }), "Hedgerow"),
      h(
        "nav",
        { "aria-label": "Pages" },
        PAGES.map(([name, title]) =>
          h(
            "a",
            {
              href: `#/${name}`,
              "aria-current": name === page || (page === "gateway" && name === "fleet") ? "page" : null,
            },
            title,
          ),
        ),
      ),
      state,
      themeSwitch(() => open()),
      me && me.user
        ? h("button", { type: "button", class: "quiet", onclick: leave }, `Log out ${me.user}`)
        : null,
    ),
    problem,
    attention,
  );
}

// What wants attention, on every page: the worst first, each a way to where more is told.
function drawAttention(told) {
  const states = Object.entries(told?.states || {});
  attention.hidden = !told || !(told.new || states.length);
  if (attention.hidden) return;
  const said = told.first.map((one) =>
    h(
      "li",
      {},
      gatewayLink(one.gateway),
      ` ${one.sensor ? `${one.sensor}: ` : ""}${one.message || one.kind} `,
      h("span", { class: "soft" }, ago(one.opened_ms)),
    ),
  );
  const more = told.new - told.first.length;
  if (more > 0) said.push(h("li", {}, h("a", { href: link("alerts", "new") }, `and ${count(more)} more`)));
  const alike = states.map(([health, many]) =>
    h("li", { class: "alike" }, h("a", { href: link("fleet", health) }, healthMark(health), ` ${count(many)}`)),
  );
  fill(
    attention,
    told.new
      ? h("a", { class: "silent", href: link("alerts", "new") }, `${count(told.new)} new ${told.new === 1 ? "alert" : "alerts"}`)
      : h("strong", { class: "warning" }, "Not known to be well"),
    h("ul", {}, said, alike),
  );
}

// How old the tables are, and whether somebody keeps them new.
function standingText(told) {
  if (!told || told.job === "none") return "No job has written these tables yet";
  if (told.job === "late") return `No job has written for ${ago(told.written_ms).replace(" ago", "")}`;
  if (told.job === "ahead") return "The job's clock is ahead of this machine's";
  if (told.collector === "late") return `No collector was heard for ${ago(told.heard_ms).replace(" ago", "")}`;
  if (told.collector === "ahead") return "A collector's clock is ahead of this machine's";
  return `Tables as of ${ago(told.written_ms)}`;
}

async function leave() {
  await source.post("logout", {});
  location.reload();
}

async function open() {
  const { page, names, options } = place();
  if (view && view.close) view.close();
  view = null;
  head();
  tell();
  const title = PAGES.find(([name]) => name === page)?.[1] ?? names[0] ?? page;
  document.title = `${title} · Hedgerow`;
  main.className = `page-${page}`;
  try {
    view = await SHOW[page](main, names, me, options);
  } catch (error) {
    fill(main, h("div", { class: "pad" }, h("h1", {}, title), h("p", { class: "error" }, error.message)));
  }
}

function tell() {
  showState().catch(() => {});
}

async function showState() {
  const state = document.getElementById("state");
  const { problems, is_complete: isComplete, standing, attention: open } = await source.get("tables");
  drawAttention(open);
  if (source.isCopy) {
    fill(state, `Copy of ${new Date(source.now()).toISOString().slice(0, 16).replace("T", " ")} UTC`);
    return;
  }
  const lines = Object.values(problems);
  problem.hidden = !lines.length;
  fill(problem, lines.join("; "));
  if (!isComplete) fill(state, "Reading the tables …");
  else if (!state.textContent.startsWith("Not")) {
    fill(state, standingText(standing));
    state.classList.toggle("is-late", standing.job !== "runs" || standing.collector === "late");
  }
}

async function begin() {
  me = source.isCopy
    ? { user: "", is_in: true, may_acknowledge: false }
    : await source.get("me");
  if (!me.is_in) {
    fill(document.getElementById("top"));
    logIn(main, me, begin);
    return;
  }
  await open();
  source.follow((isThere) => {
    const state = document.getElementById("state");
    if (state && !isThere) fill(state, "Not connected; trying again");
    else if (state && state.textContent.startsWith("Not")) fill(state);
  });
}

window.addEventListener("hashchange", () => {
  open().then(() => {
    main.focus({ preventScroll: true });
    window.scrollTo(0, 0);
    say(document.title);
  });
});
window.addEventListener("hedgerow-log-in", () => {
  if (me && me.is_in) begin();
});
source.listen((tables) => {
  tell();
  if (view && view.update) view.update(tables);
});
setInterval(() => me && me.is_in && tell(), SAY_AGAIN_MS);
begin();
