// Gateways where they stand, on a plane with a grid, for which nothing is fetched from anywhere, or on
// the tiles of a server that the operator has named.
import { h, fill, put, rows, link, gatewayLink, s, say } from "./dom.js";
import { source } from "./data.js";
import { HEALTH, colourOf, count, healthMark } from "./words.js";
import { barMetres, clusters, fitted, placed, tilesIn } from "./map_plane.js";

const CELL = 30;
const MARGIN = 60;
const SCALE_MAX = 20;
const SCALE_MIN = 2e-6;
const NAMES_MAX = 60;
const LISTED_MAX = 12;
const WEIGHT = Object.fromEntries(Object.keys(HEALTH).map((name, at) => [name, at]));

function weight(row) {
  return WEIGHT[row.health] ?? WEIGHT.unknown;
}

function length(metres) {
  return metres < 1000 ? `${count(metres)} m` : `${count(metres / 1000)} km`;
}

// A ring of which each colour has its part, and of the worst enough to be seen.
function ring(found, size) {
  const counts = new Map();
  for (const { row } of found.points) counts.set(colourOf(row.health), (counts.get(colourOf(row.health)) || 0) + 1);
  const made = s("g", {}, s("circle", { class: "map-inside", r: size }));
  let from = 0;
  for (const kind of ["silent", "warning", "unknown", "good"].filter((each) => counts.has(each))) {
    const part = kind === "good" ? 100 - from : Math.max(7, (100 * counts.get(kind)) / found.points.length);
    made.append(
      s("circle", {
        class: `map-part ${kind}`,
        r: size,
        pathLength: 100,
        "stroke-dasharray": `${Math.min(part, 100 - from).toFixed(1)} 100`,
        "stroke-dashoffset": (-from).toFixed(1),
        transform: "rotate(-90)",
      }),
    );
    from += part;
    if (from >= 100) break;
  }
  return made;
}

// One gateway as its state's mark, several as a circle with their number.
function mark(found, isNamed, opened) {
  const many = found.points.length;
  const kind = colourOf(found.worst.health);
  const { gateway } = found.worst;
  const size = many > 1 ? Math.min(20, 9 + 2.2 * Math.log2(many)) : 8;
  const shape =
    many > 1
      ? ring(found, size)
      : kind === "silent"
      ? s("rect", { x: -7, y: -7, width: 14, height: 14 })
      : kind === "warning"
        ? s("path", { d: "M0 -9 L9 7 L-9 7 Z" })
        : s("circle", { r: size });
  const made = s(
    many === 1 ? "a" : "g",
    {
      class: `map-mark ${kind}`,
      transform: `translate(${found.x.toFixed(1)} ${found.y.toFixed(1)})`,
      ...(many === 1 ? { href: link("gateway", gateway) } : { role: "button", tabindex: 0 }),
      "aria-label": many === 1 ? `${gateway}, ${found.worst.health}` : `${many} gateways, the worst ${found.worst.health}`,
    },
    s("title", {}, many === 1 ? `${gateway}: ${found.worst.health}` : `${many} gateways`),
    shape,
  );
  if (many > 1) {
    made.append(s("text", { class: "map-count", dy: "0.35em" }, count(many)));
    made.addEventListener("click", opened);
    made.addEventListener("keydown", (event) => event.key === "Enter" && opened());
  } else if (isNamed) {
    made.append(s("text", { class: "map-name", y: 22 }, gateway));
  }
  return made;
}

// Pictures of tiles; those that stay in sight are not fetched, nor drawn, anew.
function tileLayer(url) {
  const layer = s("g", { class: "map-tiles" });
  let kept = new Map();
  const draw = (plane, view, wide, high) => {
    const shown = new Map();
    for (const { z, x, y, column, left, top, size } of tilesIn(plane, view, wide, high)) {
      const key = `${z} ${column} ${y}`;
      const href = url.replace("{z}", z).replace("{x}", x).replace("{y}", y);
      const image = kept.get(key) || s("image", { href, preserveAspectRatio: "none" });
      // A hair larger, so that no line is seen between two.
      for (const [name, value] of Object.entries({ x: left, y: top, width: size + 0.5, height: size + 0.5 })) {
        image.setAttribute(name, value.toFixed(1));
      }
      shown.set(key, image);
    }
    for (const [key, image] of kept) if (!shown.has(key)) image.remove();
    for (const [key, image] of shown) if (!kept.has(key)) layer.append(image);
    kept = shown;
  };
  return { layer, draw };
}

export async function showMap(main) {
  const { tiles } = await source.get("tiles");
  const ground = tiles && tileLayer(tiles.url);
  let plane = placed([]);
  let view = null;
  let drag = null;
  let isMoved = false;
  const drawing = s("svg", { class: "map-drawing", role: "group", "aria-label": "Map of the gateways" });
  const stage = h("div", { class: "map-stage card", tabindex: "0", "aria-label": "Map: arrows move it, plus and minus zoom, 0 shows all" });
  const panel = h("aside", { class: "card tree-panel", hidden: true, "aria-label": "Gateways here" });
  const told = h("p", { class: "soft told" });
  put(stage, drawing, panel, tiles?.credit ? h("p", { class: "map-credit" }, tiles.credit) : null);

  const width = () => stage.clientWidth || 300;
  const height = () => stage.clientHeight || 300;

  function fit() {
    isMoved = false;
    view = fitted(plane.points, width(), height(), MARGIN);
    view.scale = Math.min(view.scale, SCALE_MAX / 4);
    draw();
  }

  function zoom(factor, x = width() / 2, y = height() / 2) {
    const scale = Math.min(SCALE_MAX, Math.max(SCALE_MIN, view.scale * factor));
    view.x += (x - width() / 2) * (1 / view.scale - 1 / scale);
    view.y += (y - height() / 2) * (1 / view.scale - 1 / scale);
    view.scale = scale;
    isMoved = true;
    draw();
  }

  function move(x, y) {
    view.x -= x / view.scale;
    view.y -= y / view.scale;
    isMoved = true;
    draw();
  }

  // Those that stand at one place are told as a list, others are zoomed into.
  function open(found) {
    const { points } = found;
    const isOnePlace = points.every((each) => Math.hypot(each.x - points[0].x, each.y - points[0].y) * SCALE_MAX < CELL);
    if (!isOnePlace) {
      const wanted = fitted(points, width(), height(), MARGIN);
      view = { ...wanted, scale: Math.min(wanted.scale, SCALE_MAX) };
      isMoved = true;
      draw();
      return;
    }
    const here = points.map((each) => each.row).sort((one, other) => weight(one) - weight(other));
    panel.hidden = false;
    fill(
      panel,
      h("h2", {}, `${count(here.length)} gateways here`),
      h(
        "ul",
        { class: "map-list" },
        here.slice(0, LISTED_MAX).map((row) => h("li", {}, healthMark(row.health, false), gatewayLink(row.gateway))),
        here.length > LISTED_MAX ? h("li", { class: "soft" }, `and ${count(here.length - LISTED_MAX)} more`) : null,
      ),
    );
    say(`${here.length} gateways here`);
  }

  function draw() {
    const [wide, high] = [width(), height()];
    drawing.setAttribute("viewBox", `0 0 ${wide} ${high}`);
    const metres = barMetres(view.scale, 140);
    const step = metres * view.scale;
    const lines = ground ? ground.layer : s("g", { class: "map-lines" });
    if (ground) ground.draw(plane, view, wide, high);
    const first = (at, size) => (((-at * view.scale + size / 2) % step) + step) % step;
    for (let x = first(view.x, wide); x < wide && !ground; x += step) lines.append(s("line", { x1: x, x2: x, y1: 0, y2: high }));
    for (let y = first(view.y, high); y < high && !ground; y += step) lines.append(s("line", { x1: 0, x2: wide, y1: y, y2: y }));
    const seen = clusters(plane.points, view, wide, high, CELL, weight).sort((one, other) => weight(other.worst) - weight(one.worst));
    const isNamed = seen.length <= NAMES_MAX;
    panel.hidden = true;
    fill(
      drawing,
      lines,
      seen.map((found) => mark(found, isNamed, () => open(found))),
      s("g", { class: "map-bar", transform: `translate(14 ${high - 16})` }, s("path", { d: `M0 -6 V0 H${step.toFixed(1)} V-6` }), s("text", { x: step / 2, y: -6 }, length(metres))),
    );
  }

  async function load() {
    const all = rows((await source.get("fleet")).gateways);
    const known = all.filter((row) => row.latitude !== null && row.longitude !== null);
    plane = placed(known);
    fill(
      told,
      `${count(known.length)} gateways`,
      known.length < all.length ? ` · ${count(all.length - known.length)} have not said where they stand` : "",
    );
    stage.hidden = !known.length;
    none.hidden = Boolean(known.length);
    if (!known.length) return;
    if (isMoved) draw();
    else fit();
  }

  const none = h(
    "p",
    { class: "soft pad", hidden: true },
    "No gateway has said where it stands: latitude and longitude of its configuration's section [gateway].",
  );
  stage.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = stage.getBoundingClientRect();
    zoom(event.deltaY < 0 ? 1.25 : 0.8, event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
  stage.addEventListener("pointerdown", (event) => {
    if (event.target.closest("a, [role=button], aside")) return;
    drag = [event.clientX, event.clientY];
    stage.setPointerCapture(event.pointerId);
  });
  stage.addEventListener("pointermove", (event) => {
    if (!drag) return;
    move(event.clientX - drag[0], event.clientY - drag[1]);
    drag = [event.clientX, event.clientY];
  });
  for (const name of ["pointerup", "pointercancel"]) stage.addEventListener(name, () => { drag = null; });
  stage.addEventListener("keydown", (event) => {
    const far = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] }[event.key];
    if (far) move(...far);
    else if (event.key === "+" || event.key === "=") zoom(1.4);
    else if (event.key === "-") zoom(1 / 1.4);
    else if (event.key === "0") fit();
    else return;
    event.preventDefault();
  });
  fill(
    main,
    h("h1", { class: "visually-hidden" }, "Map"),
    h(
      "div",
      { class: "tools" },
      h("button", { type: "button", "aria-label": "Zoom in", onclick: () => view && zoom(1.4) }, "+"),
      h("button", { type: "button", "aria-label": "Zoom out", onclick: () => view && zoom(1 / 1.4) }, "−"),
      h("button", { type: "button", onclick: () => view && fit() }, "Fit"),
      told,
    ),
    stage,
    none,
  );
  await load();
  const watching = new ResizeObserver(() => view && (isMoved ? draw() : fit()));
  watching.observe(stage);
  return {
    update: (tables) => {
      if (tables.has("gateways")) load();
    },
    close: () => watching.disconnect(),
  };
}
