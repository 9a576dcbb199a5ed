// Sensors over any span of time, one or several in one chart; the address has what is shown.
import { h, fill, rows, link, gatewayLink, debounced, say } from "./dom.js";
import { source } from "./data.js";
import { bridged, broken, chart, joined, swatch } from "./charts.js";
import { qualityMark } from "./gateway.js";
import { sparkline } from "./sparkline.js";
import { plainTable } from "./virtual_table.js";
import { count, measured, number, time, timeElement, unit } from "./words.js";

const DAY_MS = 86400000;
const SPANS = [
  ["6 h", DAY_MS / 4],
  ["Day", DAY_MS],
  ["Week", 7 * DAY_MS],
  ["Month", 30 * DAY_MS],
  ["Year", 365 * DAY_MS],
  ["All", null],
];
const LISTED = 400;
const TOGETHER = 50;
const POINTS_MAX = 2000;
// Of several as many points as there are in a chart that is as wide as a desk, so that all who look share them.
const POINTS_OF_SEVERAL = 1000;
const QUERY_MAX = 6000;

const isSame = (one, other) => one.gateway === other.gateway && one.sensor === other.sensor;

const long = (seconds) =>
  seconds < 90 ? `${number(seconds, 2)} s` : seconds < 5400 ? `${number(seconds / 60, 3)} min` : `${number(seconds / 3600, 3)} h`;

function extremes({ low: lows, high: highs, mean }) {
  let [low, high, sum] = [Infinity, -Infinity, 0];
  for (let at = 0; at < mean.length; at += 1) {
    low = Math.min(low, lows[at]);
    high = Math.max(high, highs[at]);
    sum += mean[at];
  }
  return mean.length ? { low, high, average: sum / mean.length } : { low: null, high: null, average: null };
}

// Pairs of gateway and sensor, in as many questions as addresses of one have room for.
function questions(sensors) {
  const found = [[]];
  let long = 0;
  for (const { gateway, sensor } of sensors) {
    const more = [["gateway", gateway], ["sensor", sensor]];
    const length = new URLSearchParams(more).toString().length + 1;
    if (long + length > QUERY_MAX && long) {
      found.push([]);
      long = 0;
    }
    found.at(-1).push(...more);
    long += length;
  }
  return found;
}

// One sensor with least and greatest, several with their means alone.
async function readingsOf(sensors, asked) {
  if (sensors.length === 1) {
    const [{ gateway, sensor }] = sensors;
    const told = await source.get("sensor", { gateway, sensor, ...asked });
    return { ...told, ofEach: [extremes(told)] };
  }
  const told = await Promise.all(
    questions(sensors).map((each) => source.get("together", [...each, ...Object.entries(asked)])),
  );
  return {
    kind: "parts",
    part_s: told[0].part_s,
    tables: told.map(({ time_ms, mean }) => [time_ms, ...mean]),
    ofEach: told.flatMap(({ low, high, average }) =>
      low.map((_, at) => ({ low: low[at], high: high[at], average: average[at] })),
    ),
  };
}

function drawOne(sensor, answer, common) {
  const [times, mean, high, low] = broken(
    answer.time_ms,
    [answer.mean, answer.high, answer.low],
    answer.part_s,
  );
  const isBand = answer.kind === "parts";
  return chart({
    ...common,
    unit: unit(sensor.unit),
    times,
    series: [{ label: isBand ? "mean" : "value", values: mean }],
    band: isBand ? { high, low } : null,
  });
}

function drawSeveral(sensors, { tables, part_s: part }, common) {
  const [times_ms, ...means] = tables.length > 1 ? joined(tables) : tables[0];
  const columns = bridged(times_ms, means, part);
  const areOfOne = sensors.every((each) => each.gateway === sensors[0].gateway);
  const series = sensors.map((each, at) => ({
    label: areOfOne ? each.sensor : `${each.gateway} ${each.sensor}`,
    values: columns[at],
    unit: unit(each.unit),
  }));
  const units = [...new Set(series.map((each) => each.unit))];
  const times = times_ms.map((each) => each / 1000);
  return chart({ ...common, unit: units.filter(Boolean).join(", "), times, series, units });
}

export async function showSensors(main, names, _me, options = {}) {
  let all = rows(await source.get("sensors"));
  let shown = [];
  let span = null;
  let drawn = null;
  let asked = 0;
  let answered = null;
  const title = h("h1", {}, "Sensors");
  const where = h("p", { class: "soft" });
  const box = h("div", { class: "chart-box" });
  // The line of the row that is pointed at stands out.
  const point = (event) => {
    const row = event.target.closest?.("tbody tr");
    if (drawn && shown.length > 1) drawn.point(row ? row.sectionRowIndex : null);
  };
  const compared = h("div", { class: "compared", onmouseover: point, onfocusin: point, onmouseleave: () => drawn?.point(null) });
  const give = h("div", { class: "tools give", hidden: true });
  const filter = h("input", {
    type: "search",
    placeholder: "Search by gateway or sensor",
    "aria-label": "Search sensors",
  });
  const told = h("p", { class: "soft" });
  const list = h("ul", { class: "sensor-list" });
  let listed = [];
  const compareAll = h(
    "button",
    {
      type: "button",
      class: "compare-all",
      hidden: true,
      onclick: () => {
        location.hash = together(listed);
      },
    },
  );

  // What was chosen and the span, as the address has them: who is given it sees the same.
  function address() {
    const path = link("sensors", ...shown.flatMap((each) => [each.gateway, each.sensor]));
    return span ? `${path}?from=${span[0]}&to=${span[1]}` : path;
  }

  function together(changed) {
    return link("sensors", ...changed.flatMap((each) => [each.gateway, each.sensor])) +
      (span ? `?from=${span[0]}&to=${span[1]}` : "");
  }

  function compareButton(each) {
    const isIn = shown.some((one) => isSame(one, each));
    if (!shown.length || (isIn && shown.length === 1)) return null;
    const changed = isIn ? shown.filter((one) => !isSame(one, each)) : [...shown, each];
    return h(
      "button",
      {
        type: "button",
        class: "compare",
        "aria-pressed": String(isIn),
        "aria-label": `Compare ${each.sensor} of ${each.gateway}`,
        title: isIn ? "Leave it out" : "Show it in the same chart",
        disabled: !isIn && shown.length >= TOGETHER,
        onclick: () => {
          location.hash = together(changed);
        },
      },
      isIn ? "−" : "+",
    );
  }

  function drawList() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = all.filter((each) => {
      const said = `${each.gateway} ${each.sensor}`.toLowerCase();
      return words.every((word) => said.includes(word));
    });
    const more = found.length > LISTED ? `; the first ${LISTED} are listed` : "";
    fill(told, `${count(found.length)} sensors${more}. + shows one in the same chart.`);
    const areSame = found.length === shown.length && found.every((each) => shown.some((one) => isSame(one, each)));
    compareAll.hidden = found.length < 2 || found.length > TOGETHER || areSame;
    fill(compareAll, `Show these ${found.length} in one chart`);
    listed = found;
    fill(
      list,
      found.slice(0, LISTED).map((each) =>
        h(
          "li",
          {},
          h(
            "a",
            {
              href: link("sensors", each.gateway, each.sensor),
              "aria-current": shown.some((one) => isSame(one, each)) ? "true" : null,
            },
            h("span", {}, each.sensor),
            h("small", {}, each.gateway),
          ),
          compareButton(each),
        ),
      ),
    );
  }

  const first = () => Math.min(...shown.map((each) => each.first_ms));
  const last = () => Math.max(...shown.map((each) => each.last_ms));

  function within(from, to) {
    const most = last() - first() + 2;
    const width = Math.min(Math.max(to - from, 10000), Math.max(most, DAY_MS));
    const end = Math.min(Math.max(to, first() + width), Math.max(last() + 1, first() + width));
    return [Math.round(end - width), Math.round(end)];
  }

  const currentOf = (sensors) => Promise.all(questions(sensors).map((each) => source.get("current", each)));

  async function drawCompared(answers, mine, current) {
    const told = await current;
    if (mine !== asked) return;
    const now = told.flatMap(({ count: _, ...columns }) => rows(columns));
    const table = shown.map((each, at) => ({ ...each, ...now[at], ...answers.ofEach[at], at }));
    fill(
      compared,
      plainTable({
        label: "What is shown",
        none: "",
        rows: table,
        columns: [
          {
            title: "Sensor",
            cell: (row) => [
              shown.length > 1 ? swatch(row.at) : null,
              h("a", { href: link("sensors", row.gateway, row.sensor) }, row.sensor),
              " of ",
              gatewayLink(row.gateway),
            ],
          },
          { title: "Now", right: true, cell: (row) => h("strong", {}, measured(row.value, row.unit, 4)) },
          { title: "Quality", cell: (row) => qualityMark(row.quality) },
          { title: "Read", cell: (row) => timeElement(row.time_ms ?? row.last_ms) },
          { title: "Least", right: true, cell: (row) => measured(row.low, row.unit, 4) },
          { title: "Mean", right: true, cell: (row) => measured(row.average, row.unit, 4) },
          { title: "Greatest", right: true, cell: (row) => measured(row.high, row.unit, 4) },
          { title: "Last day", cell: (row) => sparkline(row.hours || [], `${row.sensor} in the last day`) },
          { title: "", cell: (row) => (shown.length > 1 ? compareButton(row) : null) },
        ],
      }),
    );
  }

  function drawGive() {
    const query = new URLSearchParams();
    for (const each of shown) {
      query.append("gateway", each.gateway);
      query.append("sensor", each.sensor);
    }
    query.append("start_ms", span[0]);
    query.append("end_ms", span[1]);
    const file = (form, text) =>
      source.isCopy
        ? null
        : h("a", { class: "button", href: `api/readings?${query}&form=${form}`, download: `readings.${form}` }, text);
    const share = h(
      "button",
      {
        type: "button",
        onclick: async () => {
          try {
            await navigator.clipboard.writeText(location.href);
            fill(share, "Copied");
            say("the link is copied");
          } catch {
            fill(share, "Copy it from the address bar");
          }
        },
      },
      "Copy link",
    );
    fill(give, file("csv", "CSV"), file("parquet", "Parquet"), share);
    give.hidden = false;
  }

  async function draw() {
    const wide = Math.min(POINTS_MAX, Math.max(100, Math.round(box.clientWidth || 600)));
    const points = shown.length > 1 ? POINTS_OF_SEVERAL : wide;
    asked += 1;
    const mine = asked;
    history.replaceState(null, "", address());
    const current = currentOf(shown);
    current.catch(() => {}); // whoever waits for it below is told
    const answers = await readingsOf(shown, { start_ms: span[0], end_ms: span[1], points });
    if (mine !== asked) return;
    answered = answers;
    const common = {
      title: `${time(span[0])} to ${time(span[1])} UTC`,
      width: box.clientWidth || undefined,
      height: window.innerWidth < 760 ? 260 : 380,
      range: [span[0] / 1000, span[1] / 1000],
      zoomed: (from, to) => go(from * 1000, to * 1000),
    };
    if (drawn) drawn.close();
    drawn = shown.length === 1 ? drawOne(shown[0], answers, common) : drawSeveral(shown, answers, common);
    fill(box, drawn.element);
    const which = shown.length === 1 ? "least, mean and greatest" : "mean";
    const how = answers.kind === "parts" ? `${which} of each ${long(answers.part_s)}` : "each reading as it is";
    const readings = shown.reduce((sum, each) => sum + each.readings, 0);
    const gateways = [...new Set(shown.map((each) => each.gateway))];
    const of = gateways.length > 2 ? `${gateways.length} gateways` : gateways.join(", ");
    fill(where, `${of} · ${count(readings)} readings · ${how}`);
    say(where.textContent);
    drawGive();
    await drawCompared(answers, mine, current);
  }

  function go(from, to) {
    span = within(from, to);
    return draw();
  }

  const around = (factor) => {
    const middle = (span[0] + span[1]) / 2;
    const half = ((span[1] - span[0]) * factor) / 2;
    go(middle - half, middle + half);
  };
  const along = (part) => {
    const by = (span[1] - span[0]) * part;
    go(span[0] + by, span[1] + by);
  };
  const button = (text, label, work) =>
    h("button", { type: "button", "aria-label": label, onclick: work }, text);
  const tools = h(
    "div",
    { class: "tools", role: "group", "aria-label": "Span of time" },
    SPANS.map(([name, width]) =>
      button(name, `Last: ${name}`, () => go(width === null ? first() : last() - width, last() + 1)),
    ),
    button("‹", "Earlier", () => along(-0.5)),
    button("›", "Later", () => along(0.5)),
    button("+", "Zoom in", () => around(0.5)),
    button("−", "Zoom out", () => around(2)),
  );
  filter.addEventListener("input", debounced(drawList, 120));

  function choose() {
    shown = [];
    for (let at = 0; at + 1 < names.length && shown.length < TOGETHER; at += 2) {
      const wanted = { gateway: names[at], sensor: names[at + 1] };
      const found = all.find((each) => isSame(each, wanted));
      if (found && !shown.includes(found)) shown.push(found);
    }
    if (!shown.length && names.length < 2) shown = all.slice(0, 1);
    tools.hidden = !shown.length;
    if (!shown.length) fill(where, all.length ? "There is no such sensor." : "No sensor has been read yet.");
  }

  async function drawFirst() {
    fill(title, shown.length === 1 ? shown[0].sensor : `${shown.length} sensors`);
    // The list alone is moved: on a phone it stands below the chart, and the page stays where it is.
    const row = list.querySelector('[aria-current="true"]')?.closest("li");
    if (row) list.scrollTop += row.getBoundingClientRect().top - list.getBoundingClientRect().top - list.clientHeight / 3;
    const [from, to] = [Number(options.from), Number(options.to)];
    const isAsked = options.from && options.to && from < to;
    await (isAsked ? go(from, to) : go(Math.max(first(), last() - 365 * DAY_MS), last() + 1));
  }

  choose();
  fill(
    main,
    h(
      "div",
      { class: "explorer" },
      h("aside", { class: "card", "aria-label": "Choose a sensor" }, filter, told, compareAll, list),
      h("section", { class: "card" }, title, where, tools, box, compared, give),
    ),
  );
  drawList();
  if (shown.length) await drawFirst();
  const resized = debounced(() => shown.length && draw(), 300);
  window.addEventListener("resize", resized);
  return {
    update: async (tables) => {
      if (!tables.has("telemetry")) return;
      all = rows(await source.get("sensors"));
      if (!shown.length) {
        choose();
        drawList();
        if (shown.length) await drawFirst();
        return;
      }
      const before = last();
      shown = shown.map((each) => all.find((one) => isSame(one, each)) || each);
      const by = last() - before;
      if (span[1] >= before && by) await go(span[0] + by, span[1] + by);
      else await drawCompared(answered, asked, currentOf(shown));
      drawList();
    },
    close: () => {
      asked += 1;
      window.removeEventListener("resize", resized);
      if (drawn) drawn.close();
    },
  };
}
