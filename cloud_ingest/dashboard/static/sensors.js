// Any sensor over any span of time; what is zoomed into is fetched finer.
import { h, fill, rows, link, debounced, say } from "./dom.js";
import { source } from "./data.js";
import { broken, chart } from "./charts.js";
import { count, number, time, unit } from "./words.js";

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

export async function showSensors(main, names) {
  let all = rows(await source.get("sensors"));
  let shown = null;
  let span = null;
  let drawn = null;
  let asked = 0;
  const title = h("h1", {}, "Sensors");
  const where = h("p", { class: "soft" });
  const box = h("div", { class: "chart-box" });
  const filter = h("input", {
    type: "search",
    placeholder: "Search by gateway or sensor",
    "aria-label": "Search sensors",
  });
  const told = h("p", { class: "soft" });
  const list = h("ul", { class: "sensor-list" });

  function drawList() {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = all.filter((each) => {
      const said = `${each.gateway} ${each.sensor}`.toLowerCase();
      return words.every((word) => said.includes(word));
    });
    const more = found.length > LISTED ? `; the first ${LISTED} are listed` : "";
    fill(told, `${count(found.length)} sensors${more}`);
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
              "aria-current": each === shown ? "true" : null,
            },
            h("span", {}, each.sensor),
            h("small", {}, each.gateway),
          ),
        ),
      ),
    );
  }

  function within(from, to) {
    const most = shown.last_ms - shown.first_ms + 2;
    const width = Math.min(Math.max(to - from, 10000), Math.max(most, DAY_MS));
    const end = Math.min(Math.max(to, shown.first_ms + width), Math.max(shown.last_ms + 1, shown.first_ms + width));
    return [Math.round(end - width), Math.round(end)];
  }

  async function draw() {
    const points = Math.min(2000, Math.max(100, Math.round(box.clientWidth || 600)));
    asked += 1;
    const mine = asked;
    const answer = await source.get("sensor", {
      gateway: shown.gateway,
      sensor: shown.sensor,
      start_ms: span[0],
      end_ms: span[1],
      points,
    });
    if (mine !== asked) return;
    const [times, mean, high, low] = broken(
      answer.time_ms,
      [answer.mean, answer.high, answer.low],
      answer.part_s,
    );
    const isBand = answer.kind === "parts";
    if (drawn) drawn.close();
    drawn = chart({
      title: `${time(span[0])} to ${time(span[1])} UTC`,
      unit: unit(shown.unit),
      times,
      series: [{ label: isBand ? "mean" : "value", values: mean }],
      band: isBand ? { high, low } : null,
      height: window.innerWidth < 760 ? 260 : 380,
      range: [span[0] / 1000, span[1] / 1000],
      zoomed: (from, to) => go(from * 1000, to * 1000),
    });
    fill(box, drawn.element);
    const how = isBand
      ? `least, mean and greatest of each ${number(answer.part_s / 60, 3)} min`
      : "each reading as it is";
    fill(where, `${shown.gateway} · ${count(shown.readings)} readings · ${how}`);
    say(where.textContent);
  }

  function go(from, to) {
    span = within(from, to);
    draw();
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
      button(name, `Last: ${name}`, () =>
        go(width === null ? shown.first_ms : shown.last_ms - width, shown.last_ms + 1),
      ),
    ),
    button("‹", "Earlier", () => along(-0.5)),
    button("›", "Later", () => along(0.5)),
    button("+", "Zoom in", () => around(0.5)),
    button("−", "Zoom out", () => around(2)),
  );
  filter.addEventListener("input", debounced(drawList, 120));

  function choose() {
    shown = all.find((each) => each.gateway === names[0] && each.sensor === names[1]) || null;
    if (!shown && names.length < 2) shown = all[0] || null;
    tools.hidden = !shown;
    if (!shown) fill(where, all.length ? "There is no such sensor." : "No sensor has been read yet.");
  }

  async function drawFirst() {
    fill(title, shown.sensor);
    list.querySelector('[aria-current="true"]')?.scrollIntoView({ block: "nearest" });
    span = within(Math.max(shown.first_ms, shown.last_ms - 365 * DAY_MS), shown.last_ms + 1);
    await draw();
  }

  choose();
  fill(
    main,
    h(
      "div",
      { class: "explorer" },
      h("aside", { class: "card", "aria-label": "Choose a sensor" }, filter, told, list),
      h("section", { class: "card" }, title, where, tools, box),
    ),
  );
  drawList();
  if (shown) await drawFirst();
  const resized = debounced(() => shown && draw(), 300);
  window.addEventListener("resize", resized);
  return {
    update: async (tables) => {
      if (!tables.has("telemetry")) return;
      all = rows(await source.get("sensors"));
      if (!shown) {
        choose();
        drawList();
        if (shown) await drawFirst();
        return;
      }
      const now = shown && all.find((e) => e.gateway === shown.gateway && e.sensor === shown.sensor);
      if (now) {
        const isAtEnd = span[1] >= shown.last_ms;
        const by = now.last_ms - shown.last_ms;
        shown = now;
        if (isAtEnd && by) go(span[0] + by, span[1] + by);
      }
      drawList();
    },
    close: () => {
      window.removeEventListener("resize", resized);
      if (drawn) drawn.close();
    },
  };
}
