// All gateways: search, filter by health, sort.
import { h, fill, rows, gatewayLink, debounced, say } from "./dom.js";
import { source } from "./data.js";
import { HEALTH, ago, backupIsWrong, count, healthMark, number, trialMark } from "./words.js";
import { virtualTable } from "./virtual_table.js";

const ORDER = Object.fromEntries(Object.keys(HEALTH).map((name, at) => [name, at]));
const state = { text: "", health: "", by: "health", down: false };

function diskFree(row) {
  return row.disk_total_bytes ? row.disk_free_bytes / row.disk_total_bytes : null;
}

const VALUE = {
  health: (row) => ORDER[row.health] ?? ORDER.unknown,
  gateway: (row) => row.gateway,
  place: (row) => `${row.domain || ""}/${row.group || ""}`,
  rate: (row) => row.rate_per_s,
  temperature: (row) => row.temperature_cel,
  disk: diskFree,
  clients: (row) => row.mqtt_clients,
  gaps: (row) => row.gaps,
  alerts: (row) => row.alerts,
  version: (row) => row.version,
  seen: (row) => row.last_seen_ms,
};

const COLUMNS = [
  { name: "health", title: "Health", cell: (row) => healthMark(row.health, true, row.health_why) },
  { name: "gateway", title: "Gateway", cell: (row) => gatewayLink(row.gateway) },
  {
    name: "place",
    title: "Domain / group",
    cell: (row) => [row.domain, row.group].map((each) => each || "–").join(" / "),
  },
  { name: "rate", title: "Messages/s", cell: (row) => number(row.rate_per_s, 2) },
  {
    name: "temperature",
    title: "Temp.",
    cell: (row) => (row.temperature_cel === null ? "–" : `${Math.round(row.temperature_cel)} °C`),
  },
  {
    name: "disk",
    title: "Disk free",
    cell: (row) => (diskFree(row) === null ? "–" : `${Math.round(diskFree(row) * 100)} %`),
  },
  { name: "clients", title: "Clients", cell: (row) => count(row.mqtt_clients) },
  { name: "gaps", title: "Missing", cell: (row) => marked(row.gaps, "warning") },
  { name: "alerts", title: "Alerts", cell: (row) => marked(row.alerts, "silent") },
  { name: "version", title: "Version", cell: versionCell },
  { name: "seen", title: "Last seen", cell: (row) => ago(row.last_seen_ms) },
].map((column) => ({ ...column, sorted: true }));

function versionCell(row) {
  const told = [row.version || "–"];
  if (row.ring) told.push(h("span", { class: "soft" }, ` ring ${row.ring}`));
  if (row.trial && row.trial !== "confirmed") {
    told.push(h("span", { class: trialMark(row.trial).kind }, ` ${trialMark(row.trial).said}`));
  }
  if (row.reboot_due) told.push(h("span", { class: "warning" }, " reboot due"));
  if (backupIsWrong(row.backup)) told.push(h("span", { class: "warning" }, ` backup ${row.backup}`));
  return told;
}

function marked(value, kind) {
  return value ? h("strong", { class: kind }, count(value)) : h("span", { class: "soft" }, "0");
}

function compare(one, other) {
  const [a, b] = [VALUE[state.by](one), VALUE[state.by](other)];
  if (a === b) return one.gateway < other.gateway ? -1 : 1;
  if (a === null || a === undefined) return 1;
  if (b === null || b === undefined) return -1;
  return (a < b ? -1 : 1) * (state.down ? -1 : 1);
}

function isShown(row) {
  if (state.health && row.health !== state.health) return false;
  const said = `${row.gateway} ${row.domain || ""}/${row.group || ""} ${row.version || ""}`;
  return state.text
    .toLowerCase()
    .split(/\s+/)
    .every((word) => said.toLowerCase().includes(word));
}

export async function showFleet(main, names) {
  let all = [];
  if (names[0] in HEALTH) [state.health] = names;
  const figures = h("dl", { class: "figures" });
  const told = h("p", { class: "soft told" });
  const chips = h("div", { class: "chips", role: "group", "aria-label": "Health" });
  const search = h("input", {
    type: "search",
    placeholder: "Search by name, domain, group, version",
    "aria-label": "Search gateways",
    value: state.text,
  });
  const table = virtualTable({
    label: "Gateways",
    columns: COLUMNS,
    rowHeight: () => (window.matchMedia("(max-width: 760px)").matches ? 68 : 40),
    key: (row) => row.gateway,
    className: "fleet",
  });
  const sortBy = (name) => {
    state.down = state.by === name ? !state.down : false;
    state.by = name;
    table.sortBy(state, sortBy);
    draw();
  };
  const order = h(
    "select",
    { "aria-label": "Sort by", class: "narrow-only", onchange: (event) => sortBy(event.target.value) },
    COLUMNS.map((column) => h("option", { value: column.name }, `Sort: ${column.title}`)),
  );
  search.addEventListener(
    "input",
    debounced(() => {
      state.text = search.value.trim();
      draw();
      say(told.textContent);
    }, 120),
  );

  function draw() {
    const found = all.filter(isShown).sort(compare);
    table.set(found);
    fill(
      told,
      found.length === all.length
        ? `${count(all.length)} gateways`
        : `${count(found.length)} of ${count(all.length)} gateways`,
    );
  }

  function drawHead(answer) {
    const sum = (name) => all.reduce((total, row) => total + (row[name] || 0), 0);
    const figure = (title, value, kind) => [
      h("div", { class: kind || null }, h("dt", {}, title), h("dd", {}, value)),
    ];
    fill(
      figures,
      figure("Gateways", count(answer.count)),
      figure("Messages/s", number(sum("rate_per_s"))),
      figure("MQTT clients", count(sum("mqtt_clients"))),
      figure("Open alerts", count(sum("alerts")), sum("alerts") ? "silent" : ""),
      figure("Messages missing", count(sum("gaps")), sum("gaps") ? "warning" : ""),
    );
    const chip = (health, content) =>
      h(
        "button",
        {
          type: "button",
          class: "chip",
          "aria-pressed": String(state.health === health),
          onclick: () => {
            state.health = state.health === health ? "" : health;
            drawHead(answer);
            draw();
            chips.querySelector(`[data-health="${health}"]`)?.focus();
          },
          "data-health": health,
        },
        content,
      );
    fill(
      chips,
      chip("", `All ${count(answer.count)}`),
      Object.entries(answer.health)
        .filter(([health, many]) => many || health === "good" || health === state.health)
        .map(([health, many]) => chip(health, [healthMark(health), ` ${count(many)}`])),
    );
  }

  async function load() {
    const answer = await source.get("fleet");
    all = rows(answer.gateways);
    drawHead(answer);
    draw();
  }

  fill(
    main,
    h("h1", { class: "visually-hidden" }, "Fleet"),
    figures,
    h("div", { class: "tools" }, search, chips, order, told),
    table.element,
  );
  table.sortBy(state, sortBy);
  order.value = state.by;
  await load();
  const again = setInterval(draw, 15000);
  return {
    update: (tables) => {
      if (["gateways", "alerts"].some((name) => tables.has(name))) load();
    },
    close: () => {
      clearInterval(again);
      table.close();
    },
  };
}
