// How the gateway is, in words and figures, and what to do next.
import { h, fill } from "./dom.js";
import { source } from "./data.js";
import { T } from "./texts.js";
import { repeated } from "./live.js";
import { facts, figures } from "./parts.js";
import { sparkline } from "./sparkline.js";
import { bytes, count, number, span } from "./words.js";

const EVERY_MS = 3_000;
const KEPT = 60;
const t = T.overview;
// Kept while the page is open, so that who comes back to it sees the last minutes.
const kept = { before: null, received: [], sent: [] };

function rate(now, before, name) {
  const passed_s = (now.now_ms - before.now_ms) / 1000;
  const more = now.status.broker.messages[name] - before.status.broker.messages[name];
  return passed_s > 0 && more >= 0 ? more / passed_s : null;
}

function took(told) {
  const { before } = kept;
  kept.before = told;
  if (!before || before.status.boot_epoch !== told.status.boot_epoch) return [null, null];
  const found = [rate(told, before, "received"), rate(told, before, "sent")];
  kept.received = [...kept.received, found[0]].slice(-KEPT);
  kept.sent = [...kept.sent, found[1]].slice(-KEPT);
  return found;
}

function words(told) {
  const isWrong = told.findings.some((one) => one.weight === "wrong") || (told.status.alerts?.critical ?? 0) > 0;
  const isOdd = told.findings.length > 0 || (told.status.alerts?.standing ?? 0) > 0;
  const [kind, mark, said] = isWrong ? ["silent", "■", t.wrong] : isOdd ? ["warning", "▲", t.look] : ["good", "●", t.well];
  return h("p", { class: `verdict ${kind}` }, h("span", { "aria-hidden": "true" }, `${mark} `), said);
}

function next(told) {
  const found = told.findings.map((one) =>
    h(
      "li",
      { class: "card finding" },
      h("strong", { class: one.weight === "wrong" ? "silent" : "warning" }, one.about),
      h("span", {}, one.what),
      h("span", { class: "soft" }, one.advice),
    ),
  );
  const standing = told.status.alerts?.standing ?? 0;
  if (standing) found.unshift(h("li", { class: "card finding" }, h("a", { href: "#/alerts" }, `${T.alerts.title}: ${count(standing)}`)));
  return found.length ? h("ul", { class: "findings" }, found) : h("p", { class: "soft" }, t.nothing);
}

function machine(told) {
  const m = told.machine;
  return facts([
    [t.disk, m.disk_free_bytes === null ? null : `${bytes(m.disk_free_bytes)} / ${bytes(m.disk_total_bytes)}`],
    [t.temperature, m.temperature_cel === null ? t.unknown : `${number(m.temperature_cel)} °C`],
    [t.load, number(m.load1)],
    [t.memory, bytes(m.memory_bytes)],
    [t.clock, m.clock_is_set === null ? t.unknown : m.clock_is_set ? t.clockKept : t.clockFree],
  ]);
}

function gateway(told) {
  const s = told.status;
  const m = told.machine;
  return facts([
    [t.place, `${s.domain || "–"} / ${s.group || "–"}`],
    [t.version, s.version],
    [t.build, s.build],
    [t.up, span(s.up_s)],
    [t.release, m.release ? [m.release, m.trial && m.trial !== "confirmed" ? ` (${t.trial(m.trial)})` : ""] : null],
    [t.root, s.root],
    [t.gateways, count(s.members?.length)],
  ]);
}

export async function showOverview(main) {
  const verdict = h("div", {});
  const numbers = h("div", {});
  const todo = h("div", {});
  const traffic = h("div", { class: "traffic" });
  const own = h("div", {});
  const of = h("div", {});
  const refused = h("div", {});

  async function load() {
    const told = await source.get("overview");
    const [received, sent] = took(told);
    const broker = told.status.broker;
    fill(verdict, words(told));
    fill(
      numbers,
      figures([
        [t.clients, count(told.status.mqtt_clients)],
        [t.received, received === null ? "–" : t.perSecond(number(received))],
        [t.sent, sent === null ? "–" : t.perSecond(number(sent))],
        [t.queued, count(broker.messages.queued)],
        [t.dropped, count(broker.messages.dropped), broker.messages.dropped ? "warning" : null],
        [t.retained, count(broker.messages.retained)],
      ]),
    );
    fill(todo, next(told));
    fill(
      traffic,
      h("div", {}, h("span", { class: "soft" }, t.received), sparkline(kept.received, t.received)),
      h("div", {}, h("span", { class: "soft" }, t.sent), sparkline(kept.sent, t.sent)),
    );
    fill(own, gateway(told));
    fill(of, machine(told));
    const kinds = Object.entries(broker.refusals || {});
    fill(refused, kinds.length ? facts(kinds.map(([kind, many]) => [kind, count(many)])) : h("p", { class: "soft" }, T.none));
  }

  fill(
    main,
    h("h1", {}, t.title),
    verdict,
    numbers,
    h(
      "div",
      { class: "columns" },
      h("section", { class: "card" }, h("h2", {}, t.next), todo),
      h("section", { class: "card" }, h("h2", {}, t.gateway), own),
      h("section", { class: "card" }, h("h2", {}, t.machine), of),
      h("section", { class: "card" }, h("h2", {}, t.traffic), h("p", { class: "soft" }, t.trafficNow), traffic),
      h("section", { class: "card" }, h("h2", {}, t.refusals), refused),
    ),
  );
  await load();
  return { close: repeated(load, EVERY_MS) };
}
