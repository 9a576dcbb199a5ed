// One gateway: how it is and was, its place in the tree, sensors, links, alerts and gaps.
import { h, fill, rows, link, gatewayLink } from "./dom.js";
import { source } from "./data.js";
import { gatewayCharts } from "./gateway_charts.js";
import { sparkline } from "./sparkline.js";
import { backupIsWrong, bytes, count, healthMark, measured, number, span, timeElement, trialMark, unit } from "./words.js";
import { plainTable } from "./virtual_table.js";

const SPANS = [
  ["6 h", 6],
  ["Day", 24],
  ["Week", 168],
];
// A status of each quarter of an hour is shown, so charts need not be drawn with every new reading.
const CHARTS_AGAIN_MS = 60_000;
const CHILDREN_SHOWN = 40;
const ALERTS_SHOWN = 50;

/** What a reading is good for, where its device says so. */
export function qualityMark(quality) {
  if (quality === "bad") return h("strong", { class: "silent" }, "bad");
  if (quality === "uncertain") return h("span", { class: "warning" }, "uncertain");
  return h("span", { class: "soft" }, quality || "–");
}

function facts(is) {
  const fact = (title, value) => h("div", {}, h("dt", {}, title), h("dd", {}, value));
  return h(
    "dl",
    { class: "facts card" },
    fact("Last seen", timeElement(is.last_seen_ms)),
    fact("Up for", span(is.up_s)),
    fact("Version", [is.version || "–", is.build ? ` (${is.build})` : ""]),
    ...upgradeFacts(is, fact),
    ...backupFact(is, fact),
    ...ratingFact(is, fact),
    fact("Roles", (is.roles || []).join(", ") || "–"),
    fact("Messages", `${count(is.messages)}, ${measured(is.rate_per_s, "1/s")}`),
    fact("Clients over MQTT", count(is.mqtt_clients)),
    fact("In queues", count(is.queue_messages)),
    fact("Clock ahead by", measured(is.clock_offset_ms, "ms")),
    fact("Temperature", [
      measured(is.temperature_cel, "Cel"),
      is.under_voltage ? h("strong", { class: "silent" }, " under-voltage") : "",
    ]),
    fact("Load", number(is.load1)),
    fact("Memory", bytes(is.memory_bytes)),
    fact("Disk", `${bytes(is.disk_free_bytes)} free of ${bytes(is.disk_total_bytes)}`),
    fact("Written to disk", bytes(is.disk_written_bytes)),
    fact("Messages missing", is.gaps ? h("strong", { class: "warning" }, count(is.gaps)) : "0"),
    fact("Copies dropped", count(is.duplicates)),
    fact("Not decodable", count(is.undecodable)),
    fact("Boot epoch", h("code", {}, is.boot_epoch ?? "–")),
  );
}

/** How much its machine should be given, where somebody has measured that. */
function ratingFact(is, fact) {
  if (is.rated_messages_per_s === null) return [];
  const rated = `${count(is.rated_messages_per_s)} messages/s of ${count(is.rated_clients)} clients`;
  return [fact("Rated for", rated)];
}

/** What it says of its backups: how old the last good one is, or why there is none. */
function backupFact(is, fact) {
  if (!is.backup || is.backup === "off") return [];
  const age = is.backup_age_s === null ? "" : `, ${span(is.backup_age_s)} old`;
  const why = is.backup_why ? `: ${is.backup_why}` : "";
  const kind = backupIsWrong(is.backup) ? "warning" : "";
  return [fact("Backup", h("span", { class: kind }, `${is.backup}${age}${why}`))];
}

/** What it says of its release: the ring, the trial and why it went back; whether a reboot is due. */
function upgradeFacts(is, fact) {
  const told = [];
  if (is.release) told.push(fact("Release", h("code", {}, is.release)));
  if (is.ring) told.push(fact("Ring", count(is.ring)));
  if (is.trial) {
    const why = is.trial_why ? `: ${is.trial_why}` : "";
    const said = `${trialMark(is.trial).said} (${is.trial_release || "–"})${why}`;
    told.push(fact("Trial", h("span", { class: trialMark(is.trial).kind }, said)));
  }
  if (is.reboot_due) told.push(fact("Reboot", h("strong", { class: "warning" }, "due")));
  return told;
}

function placeInTree(is, children) {
  const shown = children.slice(0, CHILDREN_SHOWN).map((name) => h("li", {}, gatewayLink(name)));
  const more = children.length - shown.length;
  if (more > 0) shown.push(h("li", { class: "soft" }, `and ${count(more)} more`));
  return [
    h(
      "dl",
      { class: "place" },
      h("dt", {}, "Parent"),
      h("dd", {}, is.parent ? gatewayLink(is.parent) : "none: it is a root"),
      h("dt", {}, "Root"),
      h("dd", {}, is.root ? gatewayLink(is.root) : "–"),
      h("dt", {}, `Children (${count(children.length)})`),
      h("dd", {}, shown.length ? h("ul", { class: "inline" }, shown) : "none"),
    ),
    h("h3", {}, "Links"),
    plainTable({
      label: "Links",
      none: "It told of no links.",
      rows: is.links || [],
      columns: [
        { title: "Neighbour", cell: (row) => gatewayLink(row.peer) },
        { title: "Role", cell: (row) => row.role || "–" },
        { title: "State", cell: (row) => row.state || "–" },
        { title: "RTT", right: true, cell: (row) => measured(row.rtt_ms, "ms") },
      ],
    }),
  ];
}

function sensorsTable(name, found, total) {
  const table = plainTable({
    label: "Sensors",
    none: "None has been read.",
    rows: found,
    columns: [
      { title: "Sensor", cell: (row) => h("a", { href: link("sensors", name, row.sensor) }, row.sensor) },
      { title: "Now", right: true, cell: (row) => measured(row.value, row.unit, 4) },
      { title: "Quality", cell: (row) => qualityMark(row.quality) },
      { title: "Read", cell: (row) => timeElement(row.time_ms ?? row.last_ms) },
      {
        title: "A day",
        cell: (row) => sparkline(row.hours, `${row.sensor} in the last day, ${unit(row.unit)}`),
      },
    ],
  });
  const more = total - found.length;
  return [table, more > 0 ? h("p", { class: "soft" }, `and ${count(more)} more, on the page of sensors`) : null];
}

function alertsTable(alerts) {
  const more = alerts.length - ALERTS_SHOWN;
  return [
    plainTable({
      label: "Alerts",
      none: "There was none.",
      rows: alerts.slice(0, ALERTS_SHOWN),
      columns: [
        { title: "Kind", cell: (row) => h("span", { class: "kind" }, row.kind) },
        { title: "What", cell: (row) => row.message || "–" },
        { title: "Opened", cell: (row) => timeElement(row.opened_ms) },
        {
          title: "Cleared",
          cell: (row) =>
            row.cleared_ms === null ? h("strong", { class: "silent" }, "open") : timeElement(row.cleared_ms),
        },
      ],
    }),
    more > 0 ? h("p", { class: "soft" }, `and ${count(more)} older ones`) : null,
  ];
}

function gapsTable(gaps) {
  return plainTable({
    label: "Gaps",
    none: "Nothing is missing.",
    rows: gaps.slice(0, 50),
    columns: [
      { title: "Numbers", cell: (row) => `${row.first} to ${row.last}` },
      { title: "Found", cell: (row) => timeElement(row.found_time_ms) },
      { title: "Closed", cell: (row) => timeElement(row.closed_time_ms) },
    ],
  });
}

// The server tells only of addresses that are such; nothing else may become a link.
function ownPage(address) {
  if (!address || !/^https?:\/\//.test(address)) return null;
  return h("a", { class: "own-page", href: address, target: "_blank", rel: "noopener noreferrer" }, "Its own page ↗");
}

export async function showGateway(main, names) {
  const name = names[0] || "";
  const asked = Number(names[1]);
  const hours = SPANS.some(([, each]) => each === asked) && !source.isCopy ? asked : 24;
  const state = h("div", { class: "state-of" });
  const chartBox = h("div", { class: "charts" });
  const rest = h("div", { class: "columns" });
  const wide = h("section", { class: "card wide" });
  const spans = h(
    "div",
    { class: "chips spans", role: "navigation", "aria-label": "Span of the charts" },
    source.isCopy
      ? null
      : SPANS.map(([title, each]) =>
          h(
            "a",
            { class: "chip", href: link("gateway", name, each), "aria-current": each === hours ? "true" : null },
            title,
          ),
        ),
  );
  let charts = [];
  let isClosed = false;
  let drawn_ms = 0;
  fill(
    main,
    h("p", { class: "crumbs" }, h("a", { href: "#/fleet" }, "Fleet"), " / ", name),
    state,
    h("div", { class: "tools" }, h("h2", {}, "History"), spans),
    chartBox,
    wide,
    rest,
  );

  async function load() {
    const is = await source.get("gateway", { name });
    fill(
      state,
      h(
        "div",
        { class: "title-line" },
        h("h1", {}, is.gateway),
        healthMark(is.health, true, is.health_why),
        is.health_why ? h("span", { class: "soft" }, is.health_why) : null,
        h("span", { class: "soft" }, `${is.domain || "–"} / ${is.group || "–"}`),
        ownPage(is.page),
      ),
      is.member_error ? h("p", { class: "error" }, is.member_error) : null,
      facts(is),
    );
    return is;
  }

  async function loadCharts() {
    const sensors = rows(await source.get("sensors")).filter((each) => each.gateway === name);
    const made = await gatewayCharts(name, hours, sensors);
    drawn_ms = Date.now();
    for (const each of charts) each.close();
    charts = made;
    if (isClosed) {
      for (const each of charts) each.close();
      return;
    }
    const none = h("p", { class: "soft" }, "Nothing has been told of this span.");
    fill(chartBox, charts.length ? charts.map((each) => h("div", { class: "card" }, each.element)) : none);
  }

  async function loadSensors() {
    const { count: total, ...told } = await source.get("current", { gateway: name });
    // Who walks through the table by keyboard stays where it is.
    if (wide.contains(document.activeElement)) return;
    const scrolled = wide.querySelector(".scroll")?.scrollTop || 0;
    fill(wide, h("h2", {}, "Sensors"), sensorsTable(name, rows(told), total));
    const table = wide.querySelector(".scroll");
    if (table) table.scrollTop = scrolled;
  }

  async function loadRest(is) {
    const [alerts, { gaps }, { gateways }] = await Promise.all(
      ["alerts", "gaps", "fleet"].map((each) => source.get(each)),
    );
    const own = (all) => rows(all).filter((each) => each.gateway === name);
    const children = rows({ gateway: gateways.gateway || [], parent: gateways.parent || [] })
      .filter((each) => each.parent === name && each.gateway !== name)
      .map((each) => each.gateway);
    const section = (title, inside) => h("section", { class: "card" }, h("h2", {}, title), inside);
    fill(
      rest,
      section("In the tree", placeInTree(is, children)),
      section("Alerts", alertsTable(own(alerts))),
      section("Gaps", gapsTable(own(gaps))),
    );
  }

  const is = await load();
  await Promise.all([loadCharts(), loadSensors(), loadRest(is)]);
  return {
    update: async (tables) => {
      if (isClosed) return;
      if (["gateways", "alerts", "acknowledgements", "gaps"].some((each) => tables.has(each))) {
        await loadRest(await load());
      }
      const isDue = Date.now() - drawn_ms >= CHARTS_AGAIN_MS;
      if (isDue && (tables.has("latency") || tables.has("telemetry"))) await loadCharts();
      if (tables.has("telemetry")) await loadSensors();
    },
    close: () => {
      isClosed = true;
      for (const each of charts) each.close();
    },
  };
}
