// How a gateway was: charts of its statuses, its messages and its links.
import { source } from "./data.js";
import { broken, byteScale, chart, percentiles } from "./charts.js";
import { unit } from "./words.js";

const GAP_PARTS = 1.6;
// Where a gateway's statuses say nothing, its own sensors may.
const HOST = { temperature_cel: "host/cpu-temperature", load1: "host/load1" };

function isSaid(column) {
  return column.some((value) => value !== null);
}

function line(told, title, unitText, columns, more = {}) {
  const known = columns.filter(([, values]) => isSaid(values));
  if (!known.length) return null;
  const [times, ...values] = broken(
    told.time_ms,
    known.map(([, each]) => each),
    told.part_s,
    GAP_PARTS,
  );
  const series = known.map(([label], at) => ({ label, values: values[at] }));
  return chart({ title, unit: unitText, times, series, ...more });
}

function share(told) {
  return told.disk_total_bytes.map((total, at) =>
    total ? (100 * (total - told.disk_free_bytes[at])) / total : null,
  );
}

function ofBytes(told, title, columns) {
  const scale = byteScale(columns.map(([, values]) => values));
  return line(
    told,
    title,
    scale.unit,
    columns.map(([label, values]) => [label, values.map(scale.of)]),
    { floor: 0 },
  );
}

async function ofSensor(name, sensor, title, sensors, hours) {
  const known = sensors.find((each) => each.sensor === sensor);
  if (!known) return null;
  const end_ms = known.last_ms + 1;
  const start_ms = end_ms - hours * 3600000;
  const answer = await source.get("sensor", { gateway: name, sensor, start_ms, end_ms, points: 300 });
  const [times, mean] = broken(answer.time_ms, [answer.mean], answer.part_s);
  return chart({ title, unit: unit(known.unit), times, series: [{ label: title, values: mean }] });
}

async function ofStatuses(name, hours, sensors) {
  const told = await source.get("history", { gateway: name, hours });
  const peers = told.links.map((each) => [each.peer, each.rtt_ms]);
  const more = told.peer_count > peers.length ? `, ${peers.length} of ${told.peer_count} links` : "";
  const host = (key, title) => ofSensor(name, HOST[key], title, sensors, hours);
  return [
    line(told, "Temperature", "°C", [["processor", told.temperature_cel]]) ||
      (await host("temperature_cel", "Temperature")),
    line(told, "Load", "", [["one minute", told.load1]], { floor: 0 }) || (await host("load1", "Load")),
    ofBytes(told, "Memory", [
      ["process", told.memory_bytes],
      ["free in the machine", told.memory_available_bytes],
    ]),
    line(told, "Disk in use", "%", [["in use", share(told)]], { floor: 0, ceiling: 100 }),
    line(told, `Round trip to neighbours${more}`, "ms", peers, { floor: 0 }),
    line(
      told,
      "Clients",
      "",
      [
        ["MQTT clients", told.mqtt_clients],
        ["messages in queues", told.queue_messages],
      ],
      { floor: 0 },
    ),
    line(told, "Clock ahead of its source", "ms", [["offset", told.clock_offset_ms]]),
  ].filter(Boolean);
}

async function ofMessages(name, hours) {
  const { stages, part_s: part } = await source.get("latency", { hours, gateway: name });
  const arrived = stages["origin-collector"];
  const whole = stages["origin-table"];
  const found = [];
  if (arrived) {
    const [times, rate] = broken(arrived.time_ms, [arrived.rate_per_s], part);
    const series = [{ label: "messages/s", values: rate }];
    found.push(chart({ title: "Messages that arrived", unit: "1/s", times, series, floor: 0 }));
  }
  if (whole) found.push(percentiles("From the gateway to the table", whole, part));
  return found;
}

/** All charts of a gateway over so many hours; each is to be closed. */
export async function gatewayCharts(name, hours, sensors) {
  const statuses = await ofStatuses(name, hours, sensors);
  return [...(await ofMessages(name, hours)), ...statuses];
}
