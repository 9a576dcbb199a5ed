// A table of any number of rows, of which only those in sight are in the document.
import { h, fill } from "./dom.js";

const BEYOND = 6;

export function virtualTable({ label, columns, rowHeight, key, className = "" }) {
  let all = [];
  let sort = null;
  let onSort = null;
  const shown = new Map();
  const head = h("div", { class: "vt-row vt-head", role: "row", "aria-rowindex": "1" });
  const inside = h("div", { class: "vt-inside", role: "rowgroup" });
  const body = h("div", { class: "vt-body", role: "presentation", tabindex: "-1" }, inside);
  const table = h(
    "div",
    { class: `vt ${className}`, role: "table", "aria-label": label },
    h("div", { role: "rowgroup" }, head),
    body,
  );

  function drawHead() {
    fill(
      head,
      columns.map((column) => {
        const isSorted = sort && sort.by === column.name;
        const direction = sort && sort.down ? "descending" : "ascending";
        const arrow = isSorted ? (sort.down ? " ↓" : " ↑") : "";
        const cell = h("div", {
          role: "columnheader",
          class: `vt-cell c-${column.name}`,
          "aria-sort": column.sorted ? (isSorted ? direction : "none") : null,
        });
        const inner = column.sorted
          ? h("button", { type: "button", onclick: () => onSort(column.name) }, column.title, arrow)
          : column.title;
        fill(cell, inner);
        return cell;
      }),
    );
  }

  function row(at) {
    const cells = columns.map((column) =>
      h("div", { role: "cell", class: `vt-cell c-${column.name}` }, column.cell(all[at], at)),
    );
    const made = h("div", { class: "vt-row", role: "row", "aria-rowindex": at + 2 }, cells);
    made.style.transform = `translateY(${at * rowHeight()}px)`;
    made.style.height = `${rowHeight()}px`;
    return made;
  }

  function draw() {
    const height = rowHeight();
    const first = Math.max(0, Math.floor(body.scrollTop / height) - BEYOND);
    const seen = Math.ceil((body.clientHeight || 600) / height) + 2 * BEYOND;
    const last = Math.min(all.length, first + seen);
    for (const [at, made] of shown) {
      if (at < first || at >= last) {
        if (made.contains(document.activeElement)) continue;
        made.remove();
        shown.delete(at);
      }
    }
    for (let at = first; at < last; at += 1) {
      if (!shown.has(at)) {
        const made = row(at);
        shown.set(at, made);
        inside.append(made);
      }
    }
  }

  function set(rows) {
    const focused = document.activeElement;
    const kept = [...shown].find(([, made]) => made.contains(focused));
    const focusedKey = kept && all[kept[0]] ? key(all[kept[0]]) : null;
    all = rows;
    shown.clear();
    inside.replaceChildren();
    inside.style.height = `${rows.length * rowHeight()}px`;
    table.setAttribute("aria-rowcount", String(rows.length + 1));
    draw();
    if (focusedKey !== null) {
      const at = all.findIndex((each) => key(each) === focusedKey);
      shown.get(at)?.querySelector("a, button")?.focus({ preventScroll: true });
    }
  }

  function move(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step) return;
    const here = [...shown].find(([, made]) => made.contains(document.activeElement));
    if (!here) return;
    const at = here[0] + step;
    if (at < 0 || at >= all.length) return;
    event.preventDefault();
    const top = at * rowHeight();
    if (top < body.scrollTop) body.scrollTop = top;
    if (top + rowHeight() > body.scrollTop + body.clientHeight) {
      body.scrollTop = top + rowHeight() - body.clientHeight;
    }
    draw();
    shown.get(at)?.querySelector("a, button")?.focus({ preventScroll: true });
  }

  body.addEventListener("scroll", draw, { passive: true });
  body.addEventListener("keydown", move);
  const watching = new ResizeObserver(() => set(all));
  watching.observe(body);
  drawHead();
  return {
    element: table,
    set,
    sortBy: (now, told) => {
      sort = now;
      onSort = told;
      drawHead();
    },
    close: () => watching.disconnect(),
  };
}

/** A table of some rows; a column without a title has buttons, and what is narrow shows such rows as blocks. */
export function plainTable({ label, columns, rows, none }) {
  if (!rows.length) return h("p", { class: "soft" }, none);
  const hasButtons = columns.some((c) => !c.title);
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    h(
      "table",
      { class: hasButtons ? "plain with-buttons" : "plain" },
      h("caption", { class: "visually-hidden" }, label),
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          columns.map((c) => h("th", { scope: "col", class: c.right ? "right" : null }, c.title)),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((row) =>
          h(
            "tr",
            {},
            columns.map((c) => h("td", { class: c.right ? "right" : null, "data-title": c.title || null }, c.cell(row))),
          ),
        ),
      ),
    ),
  );
}
