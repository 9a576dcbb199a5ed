// Where gateways stand in the drawing of the tree: leaves in rings around their parent, and
// branches as near to it as there is room, so that a thousand fit on a screen. Pure.

const UNIT = 14;
const APART = UNIT * 1.25;
const TURNS = 32;

// Points of which no two may be too near each other.
class Taken {
  constructor() {
    this.cells = new Map();
  }

  static key(x, y) {
    return Math.floor(x / APART) * 65536 + Math.floor(y / APART);
  }

  add(x, y) {
    const key = Taken.key(x, y);
    if (!this.cells.has(key)) this.cells.set(key, []);
    this.cells.get(key).push([x, y]);
  }

  isNear(x, y) {
    for (let dx = -APART; dx <= APART; dx += APART) {
      for (let dy = -APART; dy <= APART; dy += APART) {
        const here = this.cells.get(Taken.key(x + dx, y + dy));
        if (here && here.some(([a, b]) => Math.hypot(a - x, b - y) < APART)) return true;
      }
    }
    return false;
  }
}

function rings(count) {
  const found = [];
  for (let radius = UNIT * 1.7; found.length < count; radius += UNIT * 1.3) {
    const room = Math.max(4, Math.floor((2 * Math.PI * radius) / (UNIT * 1.35)));
    const here = Math.min(room, count - found.length);
    const turned = radius * 0.13;
    for (let at = 0; at < here; at += 1) {
      const angle = (2 * Math.PI * at) / here - Math.PI / 2 + turned;
      found.push([radius * Math.cos(angle), radius * Math.sin(angle)]);
    }
  }
  return found;
}

// The nearest place for a branch, whose points are told from its own root.
function nearest(taken, points, start) {
  let best = null;
  for (let turn = 0; turn < TURNS; turn += 1) {
    const angle = start + (2 * Math.PI * turn) / TURNS;
    const [cos, sin] = [Math.cos(angle), Math.sin(angle)];
    for (let far = UNIT * 2; !best || far < best.far; far += UNIT * 0.6) {
      const [x, y] = [far * cos, far * sin];
      if (!points.some((point) => taken.isNear(x + point.x, y + point.y))) {
        best = { x, y, far };
        break;
      }
    }
  }
  return best;
}

export function treeOf(names, parents) {
  const children = new Map(names.map((name) => [name, []]));
  const roots = [];
  for (const name of names) {
    const parent = parents.get(name);
    if (parent !== null && parent !== name && children.has(parent)) children.get(parent).push(name);
    else roots.push(name);
  }
  const order = [];
  const depth = new Map();
  const ahead = roots.map((name) => [name, 0]).reverse();
  while (ahead.length) {
    const [name, at] = ahead.pop();
    if (depth.has(name)) continue;
    depth.set(name, at);
    order.push(name);
    for (const child of [...children.get(name)].reverse()) ahead.push([child, at + 1]);
  }
  // Gateways that call each other the parent, as they do for a moment, hang on no root.
  for (const name of names) {
    if (!depth.has(name)) {
      depth.set(name, 0);
      order.push(name);
      roots.push(name);
      children.set(name, []);
    }
  }
  return { children, roots, order, depth };
}

function spread(core, branches) {
  const taken = new Taken();
  const points = [...core];
  for (const { x, y } of core) taken.add(x, y);
  for (const [at, branch] of branches.entries()) {
    const { x, y } = nearest(taken, branch, at * 2.4);
    for (const point of branch) {
      points.push({ name: point.name, x: x + point.x, y: y + point.y });
      taken.add(x + point.x, y + point.y);
    }
  }
  return points;
}

// Places by name; the drawing is as many times wider than high as is wanted.
export function layout(names, parents, wider = 1) {
  const { children, roots, order } = treeOf(names, parents);
  const shape = new Map();
  const bySize = (one, other) =>
    other.length - one.length || (one[0].name < other[0].name ? -1 : 1);
  for (const name of [...order].reverse()) {
    const own = children.get(name).filter((child) => shape.has(child));
    const leaves = own.filter((child) => shape.get(child).length === 1).sort();
    const places = rings(leaves.length);
    const core = [{ name, x: 0, y: 0 }];
    leaves.forEach((leaf, at) => core.push({ name: leaf, x: places[at][0], y: places[at][1] }));
    const branches = own
      .filter((child) => shape.get(child).length > 1)
      .map((child) => shape.get(child))
      .sort(bySize);
    shape.set(name, spread(core, branches));
    for (const child of own) shape.delete(child);
  }
  const [first, ...others] = roots.map((name) => shape.get(name)).sort(bySize);
  const found = new Map();
  for (const point of spread(first || [], others)) {
    found.set(point.name, { x: point.x * wider, y: point.y });
  }
  return found;
}
