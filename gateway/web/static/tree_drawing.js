// The tree as a drawing that fits where it stands: a few gateways with all that is known of each
// link, or hundreds, of which those are named that there is room for.
import { s } from "./dom.js";
import { layout, treeOf } from "./tree_layout.js";
import { linkSays } from "./words.js";

const MARGIN = 34;
const NAMED_ALWAYS = 2; // the root, this gateway and what is wrong: over others if need be
const SCALE_MAX = 7;
const WIDER_MAX = 3;
const RADIUS = [3.5, 12];
const FONT = 12;
const CHARACTER = FONT * 0.62;
const MARK = { good: "circle", silent: "rect", warning: "path" };

// Rectangles of which no two may cover each other.
class Room {
  constructor() {
    this.taken = [];
  }

  has(box) {
    return !this.taken.some(
      (one) => box.x < one.x + one.width && one.x < box.x + box.width && box.y < one.y + one.height && one.y < box.y + box.height,
    );
  }

  take(box) {
    this.taken.push(box);
  }
}

function around(x, y, text, size = FONT) {
  const width = text.length * CHARACTER * (size / FONT) + 4;
  return { x: x - width / 2, y: y - size, width, height: size + 4 };
}

// From places of a layout to those on the screen: as large as there is room, and in its middle.
function fitted(places, width, height) {
  const all = [...places.values()];
  const [left, right] = [Math.min(...all.map((one) => one.x)), Math.max(...all.map((one) => one.x))];
  const [top, bottom] = [Math.min(...all.map((one) => one.y)), Math.max(...all.map((one) => one.y))];
  const scale = Math.min(
    SCALE_MAX,
    (width - 2 * MARGIN) / Math.max(1, right - left),
    (height - 2 * MARGIN) / Math.max(1, bottom - top),
  );
  const found = new Map();
  for (const [name, { x, y }] of places) {
    found.set(name, {
      x: width / 2 + (x - (left + right) / 2) * scale,
      y: height / 2 + (y - (top + bottom) / 2) * scale,
    });
  }
  return { found, scale };
}

function mark(kind, radius) {
  if (kind === "rect") return s("rect", { x: -radius, y: -radius, width: 2 * radius, height: 2 * radius });
  if (kind === "path") return s("path", { d: `M0 ${-radius * 1.2}L${radius * 1.1} ${radius}H${-radius * 1.1}Z` });
  return s("circle", { r: radius });
}

function edges(tree, at, isFree, room) {
  const lines = [];
  const words = [];
  for (const { from, to, role, rtt_ms: rtt, isStandby, title } of tree.links) {
    const [one, other] = [at.get(from), at.get(to)];
    if (!one || !other) continue;
    lines.push(
      s(
        "line",
        { class: isStandby ? "standby" : "", x1: one.x, y1: one.y, x2: other.x, y2: other.y },
        s("title", {}, title),
      ),
    );
    const text = linkSays(isStandby ? role : "", rtt);
    const [x, y] = [(one.x + other.x) / 2, (one.y + other.y) / 2 + 4];
    const box = around(x, y, text, FONT - 1);
    const isLong = Math.hypot(one.x - other.x, one.y - other.y) > 60;
    if (!text || !isLong || !isFree(box)) continue;
    room.take(box);
    words.push(s("text", { class: "rtt", x, y }, text));
  }
  return [lines, words];
}

function names(tree, at, weight, radius, isFree, room, width) {
  const ordered = [...tree.gateways].sort((one, other) => weight(other) - weight(one) || (one.id < other.id ? -1 : 1));
  const found = [];
  for (const one of ordered) {
    const { id, isHere } = one;
    const place = at.get(id);
    const half = around(0, 0, id).width / 2;
    const isNeeded = weight(one) >= NAMED_ALWAYS;
    const x = Math.max(half, Math.min(width - half, place.x));
    const far = radius(id) + (isNeeded ? 5 : 0);
    for (const y of [place.y + far + FONT + 1, place.y - far - 5]) {
      const box = around(x, y, id);
      if (!(isNeeded ? room.has(box) : isFree(box))) continue;
      room.take(box);
      found.push(s("text", { class: isHere ? "here" : "", x, y }, id));
      break;
    }
  }
  return found;
}

/**
 * A drawing, and what draws into it. `draw` takes `label`, `gateways` (id, parent or null, health,
 * isHere, title) and `links` (from, to, role, rtt_ms, isStandby, title); `close` ends it.
 */
export function treeDrawing() {
  const element = s("svg", { class: "tree-drawing", role: "img" });
  let shown = null;

  function draw(tree) {
    shown = tree;
    element.setAttribute("aria-label", tree.label);
    const [width, height] = [element.clientWidth, element.clientHeight];
    if (!width || !height || !tree.gateways.length) {
      element.replaceChildren();
      return;
    }
    const ids = tree.gateways.map((one) => one.id);
    const parents = new Map(tree.gateways.map((one) => [one.id, one.parent]));
    const { children, roots: all } = treeOf(ids, parents);
    const isSilent = new Set(tree.gateways.filter((one) => one.health === "silent").map((one) => one.id));
    const roots = all.filter((id) => !isSilent.has(id));
    const { found: at, scale } = fitted(layout(ids, parents, Math.min(WIDER_MAX, Math.max(0.6, width / height))), width, height);
    const base = Math.min(RADIUS[1], Math.max(RADIUS[0], scale * 2.6));
    const hasRing = (one) => one.isHere || roots.includes(one.id);
    const radius = (id) => base * (roots.includes(id) ? 1.35 : children.get(id).length ? 1.1 : 0.85);
    const weight = (one) => (one.isHere ? 4 : 0) + (roots.includes(one.id) ? 2 : 0) + (children.get(one.id).length ? 1 : 0) + (one.health === "good" ? 0 : NAMED_ALWAYS);
    const room = new Room();
    const marks = new Room();
    const isFree = (box) => room.has(box) && marks.has(box);
    for (const id of ids) {
      const own = radius(id);
      marks.take({ x: at.get(id).x - own, y: at.get(id).y - own, width: 2 * own, height: 2 * own });
    }
    const nodes = tree.gateways.map((one) => {
      const { id, health, isHere, title } = one;
      const { x, y } = at.get(id);
      const ring = hasRing(one) ? s("circle", { class: isHere ? "ring here" : "ring", r: radius(id) + 4 }) : null;
      return s("g", { class: `node ${health}`, transform: `translate(${x} ${y})` }, ring, mark(MARK[health] || "circle", radius(id)), s("title", {}, title));
    });
    const named = names(tree, at, weight, radius, isFree, room, width);
    const [lines, words] = edges(tree, at, isFree, room);
    element.setAttribute("viewBox", `0 0 ${width} ${height}`);
    element.replaceChildren(...lines, ...nodes, ...words, ...named);
  }

  const watching = new ResizeObserver(() => {
    if (shown) draw(shown);
  });
  watching.observe(element);
  return { element, draw, close: () => watching.disconnect() };
}
