// Elements from values. Text becomes text nodes and nothing else: names come from strangers.

export function h(tag, properties, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (name === "value") made.value = value;
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  put(made, ...children);
  return made;
}

const SVG = "http://www.w3.org/2000/svg";

/** An element of a drawing. */
export function s(tag, properties, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(properties)) made.setAttribute(name, String(value));
  put(made, ...children);
  return made;
}

export function put(parent, ...children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

export function fill(parent, ...children) {
  parent.replaceChildren();
  put(parent, ...children);
}

export function say(text) {
  document.getElementById("said").textContent = text;
}

export function rows(columns) {
  const names = Object.keys(columns || {});
  const count = names.length ? columns[names[0]].length : 0;
  const found = new Array(count);
  for (let at = 0; at < count; at += 1) {
    const row = {};
    for (const name of names) row[name] = columns[name][at];
    found[at] = row;
  }
  return found;
}

export function link(page, ...names) {
  return `#/${page}/${names.map(encodeURIComponent).join("/")}`;
}

// What the ingest says of itself names no gateway.
export function gatewayLink(name) {
  if (!name) return h("span", {}, "the ingest itself");
  return h("a", { href: link("gateway", name) }, name);
}

export function debounced(work, wait_ms) {
  let waiting = 0;
  return (...given) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => work(...given), wait_ms);
  };
}
