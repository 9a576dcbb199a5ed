// One gateway: how it is, its charts, links, alerts and gaps.
import { h, fill, rows, link, gatewayLink } from "./dom.js";
import { source } from "./data.js";
import { broken, chart, percentiles } from "./charts.js";
import { bytes, count, healthMark, number, span, time, timeElement, unit } from "./words.js";
import { plainTable } from "./virtual_table.js";

const DAY_MS = 86400000;
const HOST = [
  ["host/cpu-temperature", "Temperature"],
  ["host/disk", "Disk in use"],
  ["host/memory", "Memory in use"],
  ["host/load1", "Load"],
];

function facts(is) {
  const fact = (title, value) => h("div", {}, h("dt", {}, title), h("dd", {}, value));
  const temperature = is.temperature_cel === null ? "–" : `${number(is.temperature_cel)} °C`;
  return h(
    "dl",
    { class: "facts card" },
    fact("Last seen", timeElement(is.last_seen_ms)),
    fact("Up for", span(is.up_s)),
    fact("Version", [is.version || "–", is.build ? ` (${is.build})` : ""]),
    fact("Parent", is.parent ? gatewayLink(is.parent) : "none: it is the root"),
    fact("Root", is.root ? gatewayLink(is.root) : "–"),
    fact("Roles", (is.roles || []).join(", ") || "–"),
    fact("Messages", `${count(is.messages)}, ${number(is.rate_per_s)}/s`),
    fact("MQTT clients", count(is.mqtt_clients)),
    fact("In queues", count(is.queue_messages)),
    fact("Clock off by", is.clock_offset_ms === null ? "–" : `${number(is.clock_offset_ms)} ms`),
    fact("Temperature", [temperature, is.under_voltage ? h("strong", { class: "silent" }, " under-voltage") : ""]),
    fact("Load", number(is.load1)),
    fact("Memory", bytes(is.memory_bytes)),
    fact("Disk", `${bytes(is.disk_free_bytes)} free of ${bytes(is.disk_total_bytes)}`),
    fact("Written to disk", bytes(is.disk_written_bytes)),
    fact("Gaps", is.gaps ? h("strong", { class: "warning" }, count(is.gaps)) : "0"),
    fact("Copies dropped", count(is.duplicates)),
    fact("Not decodable", count(is.undecodable)),
    fact("Boot epoch", h("code", {}, is.boot_epoch ?? "–")),
  );
}

function linksTable(is) {
  return plainTable({
    label: "Links",
    none: "It told of no links.",
    rows: is.links || [],
    columns: [
      { title: "Neighbour", cell: (row) => gatewayLink(row.peer) },
      { title: "Role", cell: (row) => row.role || "–" },
      { title: "State", cell: (row) => row.state || "–" },
      { title: "RTT, ms", right: true, cell: (row) => number(row.rtt_ms) },
    ],
  });
}

async function hostCharts(name, sensors) {
  const found = [];
  for (const [sensor, title] of HOST) {
    const known = sensors.find((each) => each.sensor === sensor);
    if (!known) continue;
    const end_ms = known.last_ms + 1;
    const answer = await source.get("sensor", {
      gateway: name,
      sensor,
      start_ms: end_ms - DAY_MS,
      end_ms,
      points: 300,
    });
    const [times, mean] = broken(answer.time_ms, [answer.mean], answer.part_s);
    found.push(chart({ title, unit: unit(known.unit), times, series: [{ label: title, values: mean }] }));
  }
  return found;
}

async function messageCharts(name) {
  const { stages, part_s: part } = await source.get("latency", { hours: 24, gateway: name });
  const arrived = stages["origin-collector"];
  const whole = stages["origin-table"];
  const found = [];
  if (arrived) {
    const [times, rate] = broken(arrived.time_ms, [arrived.rate_per_s], part);
    found.push(
      chart({
        title: "Messages that arrived",
        unit: "a second",
        times,
        series: [{ label: "messages/s", values: rate }],
        floor: 0,
      }),
    );
  }
  if (whole) {
    found.push(percentiles("From the gateway to the table", whole, part));
  }
  return found;
}

export async function showGateway(main, names) {
  const name = names[0] || "";
  const state = h("div", { class: "state-of" });
  const chartBox = h("div", { class: "charts" });
  const rest = h("div", { class: "columns" });
  let charts = [];
  fill(
    main,
    h("p", { class: "crumbs" }, h("a", { href: "#/fleet" }, "Fleet"), " / ", name),
    state,
    chartBox,
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
      ),
      is.member_error ? h("p", { class: "error" }, is.member_error) : null,
      facts(is),
    );
    return is;
  }

  async function loadCharts() {
    const sensors = rows(await source.get("sensors")).filter((each) => each.gateway === name);
    const made = [...(await messageCharts(name)), ...(await hostCharts(name, sensors))];
    for (const each of charts) each.close();
    charts = made;
    fill(chartBox, charts.map((each) => h("div", { class: "card" }, each.element)));
    return sensors;
  }

  async function loadRest(is, sensors) {
    const alerts = rows(await source.get("alerts")).filter((each) => each.gateway === name);
    const { gaps } = await source.get("gaps");
    const own = rows(gaps).filter((each) => each.gateway === name);
    fill(
      rest,
      h("section", { class: "card" }, h("h2", {}, "Links"), linksTable(is)),
      h(
        "section",
        { class: "card" },
        h("h2", {}, "Alerts"),
        plainTable({
          label: "Alerts",
          none: "There was none.",
          rows: alerts.slice(0, 50),
          columns: [
            { title: "Kind", cell: (row) => row.kind },
            { title: "", cell: (row) => row.message },
            { title: "Opened", cell: (row) => timeElement(row.opened_ms) },
            {
              title: "Cleared",
              cell: (row) =>
                row.cleared_ms === null ? h("strong", { class: "silent" }, "open") : timeElement(row.cleared_ms),
            },
          ],
        }),
      ),
      h(
        "section",
        { class: "card" },
        h("h2", {}, "Gaps"),
        plainTable({
          label: "Gaps",
          none: "Nothing is missing.",
          rows: own.slice(0, 50),
          columns: [
            { title: "Numbers", cell: (row) => `${row.first} to ${row.last}` },
            { title: "Found", cell: (row) => timeElement(row.found_time_ms) },
            { title: "Closed", cell: (row) => timeElement(row.closed_time_ms) },
          ],
        }),
      ),
      h(
        "section",
        { class: "card" },
        h("h2", {}, "Sensors"),
        plainTable({
          label: "Sensors",
          none: "None has been read.",
          rows: sensors.slice(0, 200),
          columns: [
            { title: "Sensor", cell: (row) => h("a", { href: link("sensors", name, row.sensor) }, row.sensor) },
            { title: "Unit", cell: (row) => unit(row.unit) },
            { title: "Readings", right: true, cell: (row) => count(row.readings) },
            { title: "Last", cell: (row) => h("span", { title: time(row.last_ms) }, timeElement(row.last_ms)) },
          ],
        }),
      ),
    );
  }

  const is = await load();
  await loadRest(is, await loadCharts());
  return {
    update: async (tables) => {
      if (tables.has("gateways")) await load();
      if (tables.has("latency")) await loadCharts();
    },
    close: () => {
      for (const each of charts) each.close();
    },
  };
}
