// The tree as it is, and as it was.
import { h, fill, put, rows, link, say, debounced } from "./dom.js";
import { source } from "./data.js";
import { colour } from "./theme_switch.js";
import { ago, colourOf, count, healthMark, linkSays, time } from "./words.js";
import { layout, treeOf } from "./tree_layout.js";
import { virtualTable } from "./virtual_table.js";

const ZOOM_AT_FIRST = 2.4;
// The library shows labels by powers of two, from half the size on that it is told as the least.
const ZOOM_NEAR = 2.3; // from here on there is room for words on each edge,
const ZOOM_EDGES = 1.4; // and from here on for a number;
const ZOOM_NODES = 1; // leaves have names from here on
const SMALL = 500; // a drawing as wide as a phone
let library = null;

function cytoscapeLoaded() {
  library ??= new Promise((done, failed) => {
    const script = h("script", { src: "vendor/cytoscape.min.js" });
    script.addEventListener("load", () => done(window.cytoscape));
    script.addEventListener("error", () => failed(new Error("cytoscape.min.js could not be loaded")));
    document.head.append(script);
  });
  return library;
}

function style() {
  const text = colour("text");
  const health = (name) => ({
    selector: `node[health = "${name}"]`,
    style: { "background-color": colour(name) },
  });
  return [
    {
      selector: "node",
      style: {
        width: "data(size)",
        height: "data(size)",
        "background-color": colour("soft"),
        "border-width": 1,
        "border-color": colour("surface"),
        label: "data(id)",
        color: text,
        "font-size": 6,
        "font-family": "system-ui, sans-serif",
        "text-valign": "bottom",
        "text-margin-y": 1.5,
        "min-zoomed-font-size": 9,
        "text-outline-width": 1,
        "text-outline-color": colour("surface"),
      },
    },
    health("good"),
    health("warning"),
    health("silent"),
    { selector: 'node[health = "warning"]', style: { shape: "triangle" } },
    { selector: 'node[health = "silent"]', style: { shape: "square" } },
    { selector: "node[children > 0]", style: { "font-size": "data(font)", "font-weight": 600, "min-zoomed-font-size": "data(least)" } },
    { selector: "node[font > 20]", style: { "z-index": 8 } },
    {
      selector: "node[?isRoot]",
      style: { "border-width": 4, "border-color": colour("accent"), "border-style": "double", "text-valign": "top", "text-margin-y": -1.5 },
    },
    {
      selector: "edge",
      style: { width: 1.5, "line-color": colour("edge"), "curve-style": "straight", opacity: 0.9 },
    },
    {
      selector: "edge[?standby]",
      style: { width: 0.7, "line-style": "dashed", opacity: 0.35, "line-color": colour("soft") },
    },
    { selector: "edge[?isMany]", style: { opacity: 0.14 } },
    {
      // Shown from where it can be read: the size below which it is left out.
      selector: "edge[!standby]",
      style: {
        label: "data(rtt)",
        color: colour("soft"),
        "font-size": 5,
        "font-family": "system-ui, sans-serif",
        "min-zoomed-font-size": 9,
        "text-rotation": "autorotate",
        "text-background-color": colour("surface"),
        "text-background-opacity": 0.85,
        "text-background-padding": 1,
      },
    },
    { selector: "edge.far", style: { label: "" } },
    { selector: "node.far[font <= 6]", style: { label: "" } },
    { selector: "edge.near", style: { label: "data(says)", "font-size": 5, "min-zoomed-font-size": 9 } },
    { selector: "edge.near[?standby]", style: { color: colour("soft"), "text-rotation": "autorotate", "text-opacity": 1 } },
    {
      selector: "node.moved",
      style: { "border-width": 3, "border-color": colour("accent"), "z-index": 9 },
    },
    {
      selector: "node:selected",
      style: { "border-width": 4, "border-color": text, label: "data(id)", "z-index": 10, "min-zoomed-font-size": 0 },
    },
  ];
}

// How large a name is: where all are small, those of the root and of the heads below it are read.
function nameSize(isRoot, depth, isMany, isSmall) {
  if (isMany) return isRoot ? 30 : depth === 1 ? 24 : 10;
  if (isSmall) return isRoot ? 14 : depth === 1 ? 12 : 6;
  return isRoot ? 8 : 6;
}

function elements(told, healthOf, rttOf, wider, isSmall) {
  const parents = new Map(told.gateway.map((name, at) => [name, told.parent[at]]));
  const { children, roots, depth } = treeOf(told.gateway, parents);
  const places = layout(told.gateway, parents, wider);
  // Few have room for longer edges, on which something can be read.
  const apart = Math.min(6, Math.max(1, 60 / told.gateway.length));
  const isKnown = new Set(told.gateway);
  const isMany = told.gateway.length > 200;
  const found = [];
  for (const name of told.gateway) {
    const many = children.get(name).length;
    const isRoot = roots.includes(name);
    found.push({
      data: {
        id: name,
        health: colourOf(healthOf.get(name)),
        children: many,
        isRoot,
        size: (isRoot ? 17 : many ? Math.min(18, 10 + Math.sqrt(many)) : 8) * (isMany ? 1.6 : 1),
        least: isMany && depth.get(name) > 1 ? 16 : 9,
        font: nameSize(isRoot, depth.get(name), isMany, isSmall && told.gateway.length > 12),
      },
      position: { x: places.get(name).x * apart, y: places.get(name).y * apart },
    });
  }
  told.gateway.forEach((name, at) => {
    const parent = parents.get(name);
    if (!isKnown.has(parent)) return;
    const rtt_ms = rttOf ? rttOf.get(name) : told.rtt_ms?.[at];
    found.push({
      data: {
        id: `tree ${name}`,
        source: parent,
        target: name,
        standby: false,
        rtt: linkSays("", rtt_ms),
        says: linkSays("root", rtt_ms),
      },
    });
  });
  for (const [one, other, role, rtt_ms] of told.standby) {
    if (isKnown.has(one) && isKnown.has(other)) {
      found.push({
        data: {
          id: `spare ${one} ${other}`,
          source: one,
          target: other,
          standby: true,
          isMany,
          says: linkSays(role || "blocked", rtt_ms),
        },
      });
    }
  }
  return found;
}

function timeline(moments, moved) {
  const range = h("input", {
    type: "range",
    min: moments.first_ms,
    max: moments.last_ms,
    step: Math.max(1, Math.floor((moments.last_ms - moments.first_ms) / 2000)),
    value: moments.last_ms,
    "aria-label": "Time shown",
  });
  const bars = h("canvas", { class: "bars", "aria-hidden": "true", width: "800", height: "28" });
  const paint = bars.getContext("2d");
  // The first bar has everybody's first row; of the others the tallest fills the strip.
  const most = Math.max(1, ...moments.counts.slice(1));
  paint.fillStyle = colour("accent");
  moments.counts.forEach((many, at) => {
    if (!many) return;
    const height = 3 + 25 * Math.min(1, many / most);
    paint.fillRect((at / moments.counts.length) * 800, 28 - height, 2, height);
  });
  const step = (direction) => {
    const here = Number(range.value);
    const changes = moments.changes_ms;
    const next =
      direction > 0
        ? changes.find((at) => at > here)
        : changes.findLast((at) => at < here);
    if (next !== undefined) go(next);
  };
  const go = (time_ms) => {
    range.value = String(time_ms);
    range.setAttribute("aria-valuetext", `${time(time_ms)} UTC`);
    moved(time_ms);
  };
  range.addEventListener("input", () => go(Number(range.value)));
  return { range, bars, step, go };
}

export async function showTree(main) {
  const cytoscape = await cytoscapeLoaded();
  let moments = await source.get("moments");
  let healthOf = new Map();
  let rttOf = new Map();
  let before = null;
  let shown_ms = null;
  let playing = 0;
  const canvas = h("div", { class: "tree-canvas", role: "application", tabindex: "0", onkeydown: (event) => walk(event) });
  const told = h("p", { class: "tree-told" });
  const panel = h("aside", { class: "card tree-panel", hidden: true, "aria-label": "Gateway" });
  const choices = h("datalist", { id: "gateways" });
  const find = h("input", {
    type: "search",
    list: "gateways",
    placeholder: "Find a gateway",
    "aria-label": "Find a gateway in the tree",
  });
  const outline = virtualTable({
    label: "The tree as a list",
    columns: [
      {
        name: "gateway",
        title: "Gateway",
        cell: (row) => {
          const made = h(
            "span",
            { class: "branch" },
            healthMark(row.health, false),
            h("a", { href: link("gateway", row.gateway) }, row.gateway),
          );
          made.style.paddingInlineStart = `${Math.min(row.depth, 12) * 18}px`;
          return made;
        },
      },
      { name: "parent", title: "Parent", cell: (row) => row.parent || "root" },
      { name: "depth", title: "Hops", cell: (row) => String(row.depth) },
    ],
    rowHeight: () => 36,
    key: (row) => row.gateway,
    className: "outline",
  });
  outline.element.hidden = true;
  fill(main, h("h1", { class: "visually-hidden" }, "Tree"));
  if (moments.first_ms === null) {
    put(main, h("p", { class: "soft pad" }, "No gateway has said yet where it stands in the tree."));
    return {
      update: (tables) => {
        if (tables.has("topology")) showTree(main);
      },
    };
  }

  const stage = h("div", { class: "tree-stage card" }, canvas, outline.element, panel);
  put(main, stage);
  const graph = cytoscape({
    container: canvas,
    layout: { name: "preset" },
    style: style(),
    minZoom: 0.05,
    maxZoom: 6,
    autoungrabify: true,
    boxSelectionEnabled: false,
    pixelRatio: "auto",
    hideEdgesOnViewport: false,
    textureOnViewport: false,
  });

  let isMoved = false;
  const moved = () => {
    isMoved = true;
  };
  for (const name of ["pointerdown", "wheel", "touchstart"]) canvas.addEventListener(name, moved, { passive: true });

  function fit() {
    isMoved = false;
    graph.fit(undefined, 28);
    if (graph.zoom() > ZOOM_AT_FIRST) {
      graph.zoom(ZOOM_AT_FIRST);
      graph.center();
    }
  }

  function rttNow(name, at) {
    return shown_ms === moments.last_ms ? rttOf.get(name) : before.rtt_ms?.[at];
  }

  // Arrows go from gateway to gateway along the tree; with Shift they move the drawing.
  function walk(event) {
    const far = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
    const selected = graph.nodes(":selected");
    if (event.key === "+" || event.key === "=") zoom(1.4);
    else if (event.key === "-") zoom(1 / 1.4);
    else if (event.key === "0") fit();
    else if (event.key === "Enter" && selected.length) location.hash = link("gateway", selected[0].id());
    else if (event.key === "Escape") graph.nodes().unselect();
    else if (far && event.shiftKey) {
      moved();
      graph.panBy({ x: far[0], y: far[1] });
    } else if (far) step(event.key, selected.length ? selected[0].id() : null);
    else return;
    event.preventDefault();
  }

  function step(key, from) {
    const parents = new Map(before.gateway.map((name, at) => [name, before.parent[at]]));
    const { children, roots } = treeOf(before.gateway, parents);
    let next = roots[0];
    if (from !== null) {
      const parent = parents.get(from);
      const beside = (children.has(parent) ? children.get(parent) : roots) || [];
      const at = beside.indexOf(from);
      if (key === "ArrowUp") next = children.has(parent) ? parent : from;
      else if (key === "ArrowDown") [next = from] = children.get(from) || [];
      else next = beside[at + (key === "ArrowRight" ? 1 : -1)] || from;
    }
    if (next === undefined) return;
    choose(graph.getElementById(next));
    say(`${next}, ${healthOf.get(next) || "unknown"}`);
  }

  function choose(node) {
    graph.nodes().unselect();
    node.select();
    const at = node.renderedPosition();
    const isSeen = at.x > 0 && at.y > 0 && at.x < canvas.clientWidth && at.y < canvas.clientHeight;
    if (isSeen) return;
    moved();
    graph.center(node);
  }

  function room() {
    const level = graph.zoom();
    return { isNear: level >= ZOOM_NEAR, isFar: level < ZOOM_EDGES, isFarthest: level < ZOOM_NODES };
  }

  function showNames() {
    const { isNear, isFar, isFarthest } = room();
    graph.batch(() => {
      graph.edges().forEach((edge) => edge.toggleClass("near", isNear).toggleClass("far", isFar));
      graph.nodes().forEach((node) => node.toggleClass("far", isFarthest));
    });
  }

  function drawPanel(name) {
    const at = before ? before.gateway.indexOf(name) : -1;
    panel.hidden = at < 0;
    if (at < 0) return;
    fill(
      panel,
      h("h2", {}, h("a", { href: link("gateway", name) }, name)),
      healthMark(healthOf.get(name)),
      h(
        "dl",
        {},
        h("dt", {}, "Parent"),
        h("dd", {}, before.parent[at] || "none: it is the root"),
        h("dt", {}, "Link to it"),
        h("dd", {}, before.parent[at] ? linkSays("root port,", rttNow(name, at)) : "–"),
        h("dt", {}, "Root"),
        h("dd", {}, before.root[at] || "–"),
        h("dt", {}, "There since"),
        h("dd", {}, `${time(before.since_ms[at])} UTC`),
      ),
    );
  }

  function drawTold(tree) {
    const roots = new Set(tree.root.filter(Boolean));
    const isNow = shown_ms === moments.last_ms;
    fill(
      told,
      h("strong", {}, isNow ? "Now" : `${time(shown_ms)} UTC`),
      ` · ${count(tree.gateway.length)} gateways · `,
      roots.size === 1 ? `root ${[...roots][0]}` : `${roots.size} roots`,
      isNow ? ` · last change ${ago(moments.last_ms)}` : "",
    );
    canvas.setAttribute(
      "aria-label",
      `Drawing of the tree: ${told.textContent}. Arrows go along it, plus and minus zoom, Enter opens. The button Outline has it as a list.`,
    );
  }

  async function draw(time_ms, isFirst = false) {
    shown_ms = time_ms;
    const tree = await source.get("tree", { time_ms });
    if (shown_ms !== time_ms) return;
    const parents = new Map(tree.gateway.map((name, at) => [name, tree.parent[at]]));
    const was = before && new Map(before.gateway.map((name, at) => [name, before.parent[at]]));
    const wide = canvas.clientWidth / Math.max(1, canvas.clientHeight);
    const rtts = time_ms === moments.last_ms ? rttOf : null;
    const made = elements(tree, healthOf, rtts, Math.min(1.9, Math.max(1, wide)), canvas.clientWidth < SMALL);
    graph.batch(() => {
      const wanted = new Set(made.map((each) => each.data.id));
      graph.elements().filter((each) => !wanted.has(each.id())).remove();
      for (const each of made) {
        const there = graph.getElementById(each.data.id);
        if (!there.length) graph.add(each);
        else if (each.position) {
          there.position(each.position);
          there.data(each.data);
        } else if (there.data("source") !== each.data.source) {
          there.move({ source: each.data.source });
        }
        if (there.length && !each.position) there.data({ rtt: each.data.rtt ?? "", says: each.data.says });
      }
      graph.nodes().removeClass("moved");
      if (was) {
        for (const [name, parent] of parents) {
          if (was.has(name) && was.get(name) !== parent) graph.getElementById(name).addClass("moved");
        }
      }
    });
    before = tree;
    if (isFirst) fit();
    showNames();
    drawTold(tree);
    const selected = graph.nodes(":selected");
    if (selected.length) drawPanel(selected[0].id());
    const { order, depth } = treeOf(tree.gateway, parents);
    outline.set(
      order.map((name) => ({
        gateway: name,
        parent: parents.get(name),
        depth: depth.get(name),
        health: healthOf.get(name),
      })),
    );
  }

  async function loadHealth() {
    const fleet = await source.get("fleet");
    const all = rows(fleet.gateways);
    healthOf = new Map(all.map((row) => [row.gateway, row.health]));
    rttOf = new Map(all.map((row) => [row.gateway, row.rtt_ms]));
    fill(choices, [...healthOf.keys()].map((name) => h("option", { value: name })));
  }

  const later = debounced((time_ms) => draw(time_ms), 60);
  const line = timeline(moments, (time_ms) => {
    later(time_ms);
  });
  const play = h("button", { type: "button", onclick: () => (playing ? stop() : start()) }, "Play");
  function stop() {
    clearInterval(playing);
    playing = 0;
    fill(play, "Play");
  }
  function start() {
    const span = moments.last_ms - moments.first_ms;
    if (Number(line.range.value) >= moments.last_ms) line.go(moments.first_ms + span * 0.005);
    fill(play, "Pause");
    playing = setInterval(() => {
      const here = Number(line.range.value);
      const next = moments.changes_ms.find((at) => at > here + span / 400) ?? here + span / 100;
      if (next >= moments.last_ms) stop();
      line.go(Math.min(next, moments.last_ms));
    }, 700);
  }
  const showOutline = h(
    "button",
    {
      type: "button",
      "aria-pressed": "false",
      onclick: () => {
        const isList = outline.element.hidden;
        outline.element.hidden = !isList;
        canvas.hidden = isList;
        showOutline.setAttribute("aria-pressed", String(isList));
        if (!isList) graph.resize();
      },
    },
    "Outline",
  );
  const zoom = (factor) => {
    moved();
    graph.zoom({
      level: graph.zoom() * factor,
      renderedPosition: { x: canvas.clientWidth / 2, y: canvas.clientHeight / 2 },
    });
  };
  find.addEventListener("change", () => {
    const node = graph.getElementById(find.value);
    if (!node.length) {
      say(`there is no gateway ${find.value} in the tree`);
      return;
    }
    graph.nodes().unselect();
    node.select();
    graph.animate({ center: { eles: node }, zoom: Math.max(graph.zoom(), 1.6), duration: 250 });
  });
  let had = "";
  graph.on("zoom", () => {
    const has = JSON.stringify(room());
    if (has !== had) showNames();
    had = has;
  });
  graph.on("select", "node", (event) => drawPanel(event.target.id()));
  graph.on("unselect", "node", () => {
    panel.hidden = true;
  });

  stage.before(
    h(
      "div",
      { class: "tools" },
      find,
      choices,
      showOutline,
      h("button", { type: "button", "aria-label": "Zoom in", onclick: () => zoom(1.4) }, "+"),
      h("button", { type: "button", "aria-label": "Zoom out", onclick: () => zoom(1 / 1.4) }, "−"),
      h("button", { type: "button", onclick: fit }, "Fit"),
      told,
    ),
  );
  stage.after(
    h(
      "div",
      { class: "timeline" },
      play,
      h(
        "button",
        { type: "button", "aria-label": "The change before", onclick: () => line.step(-1) },
        "‹",
      ),
      h("div", { class: "strip" }, line.bars, line.range),
      h("button", { type: "button", "aria-label": "The next change", onclick: () => line.step(1) }, "›"),
      h("button", { type: "button", onclick: () => line.go(moments.last_ms) }, "Now"),
    ),
  );
  await loadHealth();
  graph.resize();
  await draw(moments.last_ms, true);
  const watching = new ResizeObserver(() => {
    graph.resize();
    if (!isMoved) fit();
  });
  watching.observe(canvas);
  window.hedgerowGraph = graph;
  return {
    update: async (tables) => {
      if (tables.has("gateways")) {
        await loadHealth();
        graph.nodes().forEach((node) => node.data("health", colourOf(healthOf.get(node.id()))));
      }
      if (tables.has("topology")) {
        const isNow = shown_ms === moments.last_ms;
        moments = await source.get("moments");
        line.range.max = String(moments.last_ms);
        if (isNow) {
          line.range.value = String(moments.last_ms);
          await draw(moments.last_ms);
        }
      }
    },
    close: () => {
      stop();
      watching.disconnect();
      outline.close();
      graph.destroy();
    },
  };
}
