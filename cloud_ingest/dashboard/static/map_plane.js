// Where gateways stand on the plane of the map (Web Mercator, EPSG 3857, in metres that are true in
// the middle of all), the tiles that lie below, and those that are too near each other to be told
// apart as one. Pure.

const EARTH_M = 6_378_137;
const LATITUDE_MAX = 85.0511;
const TILE = 256;
const LEVEL_MAX = 19;

const radians = (degrees) => (degrees * Math.PI) / 180;
const northing = (latitude) =>
  Math.asinh(Math.tan(radians(Math.min(LATITUDE_MAX, Math.max(-LATITUDE_MAX, latitude)))));

// Longitudes without the jump at 180 degrees: the widest gap between two is where the map ends.
function unwrapped(longitudes) {
  const sorted = [...longitudes].sort((one, other) => one - other);
  let [widest, from] = [sorted[0] + 360 - sorted.at(-1), sorted[0]];
  for (let at = 1; at < sorted.length; at += 1) {
    if (sorted[at] - sorted[at - 1] > widest) {
      widest = sorted[at] - sorted[at - 1];
      from = sorted[at];
    }
  }
  return longitudes.map((each) => (each < from ? each + 360 : each));
}

// Rows with x and y in metres, east and south positive, and the degrees of their middle.
export function placed(rows) {
  if (!rows.length) return { points: [], middle: { latitude: 0, longitude: 0 }, narrow: 1 };
  const longitudes = unwrapped(rows.map((row) => row.longitude));
  const between = (values) => (Math.min(...values) + Math.max(...values)) / 2;
  const middle = { latitude: between(rows.map((row) => row.latitude)), longitude: between(longitudes) };
  const narrow = Math.max(0.02, Math.cos((middle.latitude * Math.PI) / 180));
  const points = rows.map((row, at) => ({
    row,
    x: radians(longitudes[at] - middle.longitude) * EARTH_M * narrow,
    y: (northing(middle.latitude) - northing(row.latitude)) * EARTH_M * narrow,
  }));
  return { points, middle, narrow };
}

// The view in which all points are seen: pixels a metre, and the metre in the window's middle.
export function fitted(points, width, height, margin) {
  if (!points.length) return { scale: 1, x: 0, y: 0 };
  const xs = points.map((point) => point.x);
  const ys = points.map((point) => point.y);
  const [left, right, top, bottom] = [Math.min(...xs), Math.max(...xs), Math.min(...ys), Math.max(...ys)];
  const scale = Math.min(
    (width - 2 * margin) / Math.max(right - left, 50),
    (height - 2 * margin) / Math.max(bottom - top, 50),
  );
  return { scale: Math.max(scale, 1e-6), x: (left + right) / 2, y: (top + bottom) / 2 };
}

// The tiles that a window shows: level, column and row, and where each is drawn.
export function tilesIn({ middle, narrow }, view, width, height) {
  const world = 2 * Math.PI * EARTH_M * narrow * view.scale; // pixels
  const level = Math.min(LEVEL_MAX, Math.max(0, Math.round(Math.log2(world / TILE))));
  const count = 2 ** level;
  const size = world / count;
  const left = width / 2 - view.x * view.scale - ((middle.longitude + 180) / 360) * world;
  const top = height / 2 - view.y * view.scale - (0.5 - northing(middle.latitude) / (2 * Math.PI)) * world;
  const found = [];
  const last = (at, length) => Math.floor((length - at) / size);
  for (let row = Math.max(0, Math.floor(-top / size)); row <= Math.min(count - 1, last(top, height)); row += 1) {
    for (let column = Math.floor(-left / size); column <= last(left, width); column += 1) {
      const x = ((column % count) + count) % count; // the world goes on beyond 180 degrees
      found.push({ z: level, x, y: row, column, left: left + column * size, top: top + row * size, size });
    }
  }
  return found;
}

// Points by the pixel where they are drawn; those of one cell are one, as bad as the worst.
export function clusters(points, view, width, height, cell, weight) {
  const found = new Map();
  for (const point of points) {
    const x = (point.x - view.x) * view.scale + width / 2;
    const y = (point.y - view.y) * view.scale + height / 2;
    if (x < -cell || y < -cell || x > width + cell || y > height + cell) continue;
    const key = `${Math.round((point.x * view.scale) / cell)} ${Math.round((point.y * view.scale) / cell)}`;
    const here = found.get(key);
    if (!here) {
      found.set(key, { x, y, points: [point], worst: point.row });
      continue;
    }
    here.x += (x - here.x) / (here.points.length + 1);
    here.y += (y - here.y) / (here.points.length + 1);
    here.points.push(point);
    if (weight(point.row) < weight(here.worst)) here.worst = point.row;
  }
  return apart([...found.values()], cell, weight);
}

// Those of cells beside each other may still be too near: the largest takes them in.
function apart(found, cell, weight) {
  const kept = [];
  for (const one of found.sort((a, b) => b.points.length - a.points.length)) {
    const near = kept.find((other) => Math.hypot(other.x - one.x, other.y - one.y) < cell * 1.4);
    if (!near) {
      kept.push(one);
      continue;
    }
    near.points.push(...one.points);
    if (weight(one.worst) < weight(near.worst)) near.worst = one.worst;
  }
  return kept;
}

// A length of one, two or five and noughts that takes about so many pixels.
export function barMetres(scale, pixels) {
  const wanted = pixels / scale;
  const power = 10 ** Math.floor(Math.log10(wanted));
  return [5, 2, 1].map((each) => each * power).find((each) => each <= wanted) || power;
}
