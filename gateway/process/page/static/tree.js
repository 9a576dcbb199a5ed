// The links of this gateway, and the fleet as a tree.
import { h, fill } from "./dom.js";
import { path, source } from "./data.js";
import { T } from "./texts.js";
import { repeated } from "./live.js";
import { sureButton } from "./parts.js";
import { plainTable } from "./virtual_table.js";
import { bytes, linkSays, number } from "./words.js";
import { treeDrawing } from "./tree_drawing.js";

const EVERY_MS = 6_000;
const DEEPEST = 64;
const LISTED_OPEN = 12; // with more, the list is opened by who wants it
const t = T.tree;

function rtt(value) {
  return value === null || value === undefined ? "–" : `${number(value)} ms`;
}

function links(own) {
  return plainTable({
    label: t.links,
    none: t.noLinks,
    rows: own.neighbours,
    columns: [
      { title: t.neighbour, cell: (row) => row.id },
      { title: t.role, cell: (row) => row.role },
      { title: t.forwards, cell: (row) => (row.forwarding ? t.yes : t.no) },
      { title: t.rtt, right: true, cell: (row) => rtt(row.rtt_ms) },
      { title: t.waits, right: true, cell: (row) => bytes(row.queued_bytes + (row.backlog_bytes || 0)) },
    ],
  });
}

function node(told, id, depth, seen) {
  const own = told.gateways[id];
  seen.add(id);
  const below = Object.keys(told.gateways)
    .filter((other) => told.gateways[other].parent === id && !seen.has(other))
    .sort();
  const above = own.neighbours.find((one) => one.id === own.parent);
  return h(
    "li",
    {},
    h(
      "div",
      { class: "node" },
      h("span", { class: "health good" }, h("span", { "aria-hidden": "true", class: "mark" }, "●"), h("strong", {}, id)),
      h("span", { class: "soft" }, `${own.domain || "–"} / ${own.group || "–"}`),
      h("span", { class: "soft" }, above ? `${t.rtt} ${rtt(above.rtt_ms)}` : t.root),
      h("span", { class: "soft" }, t.clients(own.mqtt_clients)),
      own.drain ? h("span", { class: "warning" }, t.draining) : null,
    ),
    below.length && depth < DEEPEST ? h("ul", {}, below.map((other) => node(told, other, depth + 1, seen))) : null,
  );
}

function fleet(told) {
  const seen = new Set();
  const roots = told.roots.filter((id) => told.gateways[id]);
  const silent = Object.entries(told.silent).map(([id, why]) =>
    h(
      "li",
      {},
      h("div", { class: "node" }, h("span", { class: "health silent" }, h("span", { "aria-hidden": "true", class: "mark" }, "■"), h("strong", {}, id)), h("span", { class: "soft" }, `${t.silent}: ${why}`)),
    ),
  );
  return h("ul", { class: "outline-tree" }, roots.map((id) => node(told, id, 0, seen)), silent);
}

// What the drawing shows: each gateway once, each link once, as its end farther from the root has it.
function drawn(told, here) {
  const all = Object.entries(told.gateways);
  const gateways = all.map(([id, own]) => ({
    id,
    parent: own.parent === id ? null : own.parent,
    health: own.drain ? "warning" : "good",
    isHere: id === here,
    title: `${id} · ${own.domain || "–"} / ${own.group || "–"} · ${t.clients(own.mqtt_clients)}`,
  }));
  for (const [id, why] of Object.entries(told.silent)) {
    gateways.push({ id, parent: null, health: "silent", isHere: false, title: `${id} · ${t.silent}: ${why}` });
  }
  const links = new Map();
  for (const [id, own] of all) {
    for (const one of own.neighbours) {
      const pair = [id, one.id].sort().join(" ");
      if (one.role === "designated" && links.has(pair)) continue;
      const isTree = own.parent === one.id || told.gateways[one.id]?.parent === id;
      if (one.role === "designated" && isTree) continue;
      const title = `${id} – ${one.id}: ${linkSays(one.role, one.rtt_ms)}`;
      links.set(pair, { from: one.id, to: id, role: one.role, rtt_ms: one.rtt_ms, isStandby: !isTree, title });
    }
  }
  return { label: t.drawing(all.length, told.roots.join(", "), here), gateways, links: [...links.values()] };
}

export async function showTree(main, _names, me) {
  const own = h("div", {});
  const all = h("div", {});
  const drawing = treeDrawing();
  const list = h("details", {}, h("summary", {}, t.list), all);
  let before = "";
  const members = h("div", {});

  async function load() {
    const [told, known] = await Promise.all([source.get("tree"), source.get("members")]);
    fill(own, links(told.gateways[me.gateway] || { neighbours: [] }));
    fill(all, fleet(told));
    const tree = drawn(told, me.gateway);
    const now = JSON.stringify(tree);
    if (!before) list.open = tree.gateways.length <= LISTED_OPEN;
    if (now !== before) drawing.draw(tree);
    before = now;
    if (members.contains(document.activeElement)) return;
    fill(
      members,
      plainTable({
        label: t.members,
        none: T.none,
        rows: known.members,
        columns: [
          { title: t.gateway, cell: (row) => row.id },
          { title: t.place, cell: (row) => `${row.domain} / ${row.group}` },
          { title: t.state, cell: (row) => (row.is_draining ? t.draining : row.is_present ? t.answers : t.absent) },
          {
            title: "",
            cell: (row) =>
              me.may.members && !row.is_present
                ? sureButton({
                    label: t.takeOut,
                    question: t.takeOutSure(row.id),
                    work: async () => {
                      await source.remove(path("members", row.id));
                      return t.takenOut(row.id);
                    },
                    done: load,
                  })
                : "",
          },
        ],
      }),
    );
  }

  fill(
    main,
    h("h1", {}, t.title),
    h("section", { class: "card wide" }, h("h2", {}, t.fleet), drawing.element, list),
    h(
      "div",
      { class: "columns" },
      h("section", { class: "card" }, h("h2", {}, t.links), own),
      h("section", { class: "card" }, h("h2", {}, t.members), members),
    ),
  );
  await load();
  const stop = repeated(load, EVERY_MS);
  return {
    close: () => {
      stop();
      drawing.close();
    },
  };
}
