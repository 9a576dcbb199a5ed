// The clients of the broker: a list that is searched, one in detail, and its end.
import { h, fill, link, debounced } from "./dom.js";
import { path, source } from "./data.js";
import { T } from "./texts.js";
import { repeated } from "./live.js";
import { facts, sureButton } from "./parts.js";
import { plainTable, virtualTable } from "./virtual_table.js";
import { bytes, count, timeElement } from "./words.js";

const EVERY_MS = 5_000;
const PAGES = 10;
const t = T.clients;
const state = { search: "" };

async function everyone() {
  const found = [];
  let after = "";
  let told = null;
  for (let page = 0; page < PAGES; page += 1) {
    told = await source.get("clients", { after });
    found.push(...told.clients);
    if (!told.has_more) break;
    after = found.at(-1).id;
  }
  return { clients: found, count: told.count };
}

function stateMark(row) {
  const [kind, mark, word] = row.is_connected ? ["good", "●", t.connected] : ["unknown", "○", t.away];
  return h("span", { class: `health ${kind}` }, h("span", { "aria-hidden": "true", class: "mark" }, mark), h("span", { class: "word" }, word));
}

async function showList(main) {
  let all = [];
  let total = 0;
  const told = h("p", { class: "soft told", role: "status" });
  const table = virtualTable({
    label: t.list,
    className: "clients-list",
    rowHeight: () => (matchMedia("(max-width: 760px)").matches ? 62 : 44),
    key: (row) => row.id,
    columns: [
      { name: "state", title: t.state, cell: stateMark },
      { name: "id", title: t.id, cell: (row) => h("a", { href: link("clients", row.id) }, row.id) },
      { name: "user", title: t.user, cell: (row) => row.user || "–" },
      { name: "address", title: t.address, cell: (row) => row.address || "–" },
      { name: "protocol", title: t.protocol, cell: (row) => row.protocol },
      { name: "filters", title: t.subscriptions, cell: (row) => count(row.subscriptions) },
      { name: "queued", title: t.queued, cell: (row) => count(row.queued) },
      { name: "since", title: t.since, cell: (row) => timeElement(row.since_s * 1000) },
    ],
  });
  function draw() {
    const wanted = state.search.toLowerCase();
    const found = all.filter((row) => [row.id, row.user || "", row.address].some((text) => text.toLowerCase().includes(wanted)));
    table.set(found);
    fill(told, T.shownOf(count(found.length), count(total)));
  }
  const search = h("input", {
    type: "search",
    value: state.search,
    placeholder: t.find,
    "aria-label": t.find,
    oninput: debounced(() => {
      state.search = search.value;
      draw();
    }, 120),
  });
  async function load() {
    const found = await everyone();
    all = found.clients;
    total = found.count;
    draw();
  }
  fill(main, h("h1", {}, t.title), h("div", { class: "tools" }, search, told), table.element);
  await load();
  const end = repeated(load, EVERY_MS);
  return {
    close: () => {
      end();
      table.close();
    },
  };
}

async function showOne(main, id, me) {
  const body = h("div", {});
  const tools = h("div", { class: "tools" });
  const forget = h("input", { type: "checkbox", id: "forget" });
  async function load() {
    const one = await source.get(path("clients", id));
    fill(
      body,
      h(
        "section",
        { class: "card wide" },
        facts([
          [t.state, stateMark(one)],
          [t.since, timeElement(one.since_s * 1000)],
          [t.user, one.user],
          [t.address, one.address],
          [t.protocol, one.protocol],
          [t.roles, (one.roles || []).join(", ")],
          [t.queued, `${count(one.queued)} (${bytes(one.queued_bytes)})`],
          [t.inflight, `${count(one.inflight)} (${bytes(one.inflight_bytes)})`],
          [t.dropped, count(one.dropped)],
          [t.expiry, one.expiry_s === null ? t.never : t.afterIt(count(one.expiry_s))],
          [t.will, one.will],
        ]),
      ),
      h(
        "section",
        { class: "card" },
        h("h2", {}, t.filters),
        plainTable({
          label: t.filters,
          none: T.none,
          rows: one.filters,
          columns: [
            { title: t.filter, cell: (row) => row.filter },
            { title: t.qos, right: true, cell: (row) => row.qos },
          ],
        }),
      ),
    );
  }
  await load();
  if (me.may.disconnect) fill(tools, disconnecting(forget, id));
  fill(main, h("p", { class: "crumbs" }, h("a", { href: "#/clients" }, t.back)), h("h1", {}, id), tools, body);
  return { close: repeated(load, EVERY_MS) };
}

function disconnecting(forget, id) {
  return sureButton({
    label: t.disconnect,
    question: t.sure(id),
    extra: h("label", { class: "check" }, forget, t.forget),
    work: async () => {
      await source.post(`${path("clients", id)}/disconnect`, { forget: forget.checked });
      return t.disconnected(id);
    },
    done: () => {
      location.hash = "#/clients"; // where its session lasts it stands there as away
    },
  });
}

export async function showClients(main, names, me) {
  if (!me.may.clients) {
    fill(main, h("h1", {}, t.title), h("p", { class: "soft" }, t.mayNot));
    return null;
  }
  return names.length ? showOne(main, names.join("/"), me) : showList(main);
}
