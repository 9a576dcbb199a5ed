// What is missing, and how long messages took.
import { h, fill, rows, gatewayLink } from "./dom.js";
import { source } from "./data.js";
import { percentiles } from "./charts.js";
import { count, number, timeElement } from "./words.js";
import { plainTable } from "./virtual_table.js";

const STAGES = [
  ["device-origin", "From the device to its gateway"],
  ["origin-collector", "From the gateway to the collector"],
  ["collector-table", "From the collector to the table"],
  ["origin-table", "From the gateway to the table"],
];
const HOURS = [6, 24, 168];
const state = { hours: 24 };

export async function showLoss(main) {
  const figures = h("dl", { class: "figures" });
  const chartBox = h("div", { class: "charts" });
  const slow = h("section", { class: "card" });
  const gapsBox = h("section", { class: "card" });
  const hours = h("div", { class: "chips", role: "group", "aria-label": "Span of time" });
  let charts = [];

  async function loadLatency() {
    const [{ stages, part_s: part }, slowest] = await Promise.all([
      source.get("latency", { hours: state.hours }),
      source.get("slowest", { hours: state.hours }),
    ]);
    for (const each of charts) each.close();
    charts = STAGES.filter(([stage]) => stage in stages).map(([stage, title]) =>
      percentiles(title, stages[stage], part, "p99, slowest"),
    );
    fill(
      chartBox,
      charts.length
        ? charts.map((each) => h("div", { class: "card" }, each.element))
        : h("p", { class: "soft" }, "No latency has been measured yet."),
    );
    fill(
      slow,
      h("h2", {}, "Slowest gateways, from the gateway to the table"),
      plainTable({
        label: "Slowest gateways",
        none: "No latency has been measured yet.",
        rows: rows(slowest),
        columns: [
          { title: "Gateway", cell: (row) => gatewayLink(row.gateway) },
          { title: "Messages", right: true, cell: (row) => count(row.messages) },
          { title: "p95, ms", right: true, cell: (row) => number(row.p95_ms) },
          { title: "p99, ms", right: true, cell: (row) => number(row.p99_ms) },
          { title: "Longest, ms", right: true, cell: (row) => number(row.max_ms) },
        ],
      }),
    );
  }

  async function loadGaps() {
    const told = await source.get("gaps");
    const found = rows(told.gaps);
    const figure = (title, value, kind) => h("div", { class: kind || null }, h("dt", {}, title), h("dd", {}, value));
    fill(
      figures,
      figure("Open gaps", count(told.open), told.open ? "warning" : ""),
      figure("Messages missing", count(told.missing), told.missing ? "warning" : ""),
      figure("Closed again", count(found.filter((row) => row.closed_time_ms !== null).length)),
    );
    fill(
      gapsBox,
      h("h2", {}, "Gaps"),
      h("p", { class: "soft" }, "Each gateway numbers its messages; a gap is numbers that have not arrived."),
      plainTable({
        label: "Gaps",
        none: "Nothing is missing.",
        rows: found.slice(0, 200),
        columns: [
          { title: "Gateway", cell: (row) => gatewayLink(row.gateway) },
          { title: "Numbers", cell: (row) => `${row.first} to ${row.last}` },
          { title: "Messages", right: true, cell: (row) => count(row.last - row.first + 1) },
          { title: "Kept in its log", cell: (row) => (row.logged ? "yes" : "no") },
          { title: "Found", cell: (row) => timeElement(row.found_time_ms) },
          {
            title: "Closed",
            cell: (row) =>
              row.closed_time_ms === null
                ? h("strong", { class: "warning" }, row.state === "given up" ? "given up" : "open")
                : timeElement(row.closed_time_ms),
          },
        ],
      }),
    );
  }

  function drawHours() {
    fill(
      hours,
      HOURS.map((many) =>
        h(
          "button",
          {
            type: "button",
            class: "chip",
            "aria-pressed": String(state.hours === many),
            onclick: () => {
              state.hours = many;
              drawHours();
              loadLatency();
            },
          },
          many < 48 ? `${many} h` : `${many / 24} days`,
        ),
      ),
    );
  }

  fill(
    main,
    h("h1", { class: "visually-hidden" }, "Gaps and latency"),
    figures,
    h("div", { class: "tools" }, h("h2", {}, "Latency"), source.isCopy ? null : hours),
    chartBox,
    slow,
    gapsBox,
  );
  drawHours();
  await Promise.all([loadLatency(), loadGaps()]);
  return {
    update: (tables) => {
      if (tables.has("latency")) loadLatency();
      if (tables.has("gaps")) loadGaps();
    },
    close: () => {
      for (const each of charts) each.close();
    },
  };
}
