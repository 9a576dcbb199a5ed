// The Resource Directory: devices and their resources, searched; a registration taken out.
import { h, fill, link } from "./dom.js";
import { path, source } from "./data.js";
import { T } from "./texts.js";
import { showDeviceKeys } from "./device_keys.js";
import { sureButton, tabs } from "./parts.js";
import { plainTable } from "./virtual_table.js";

const t = T.directory;
const state = { kind: "endpoints", search: "", page: 0 };
const REGISTRATION = /^\/rd\/([^/]+)$/;

function others(attributes, without) {
  return Object.entries(attributes)
    .filter(([name]) => !without.includes(name))
    .map(([name, value]) => (value ? `${name}=${value}` : name))
    .join(" ");
}

export async function showDirectory(main, names, me) {
  if (names[0] === "keys") return showDeviceKeys(main);
  const chosen = h("div", {});
  const list = h("div", {});
  const more = h("div", { class: "tools" });
  const error = h("p", { class: "error", role: "alert" });

  const endpoints = [
    { title: t.endpoint, cell: (row) => row.attributes.ep || "–" },
    { title: t.base, cell: (row) => row.attributes.base || "–" },
    { title: t.registration, cell: (row) => row.href },
    { title: t.other, cell: (row) => others(row.attributes, ["ep", "base"]) },
    {
      title: "",
      cell: (row) => {
        const found = REGISTRATION.exec(row.href);
        if (!me.may.directory || !found || row.attributes.ep === me.gateway) return "";
        const name = row.attributes.ep || row.href;
        return sureButton({
          label: t.remove,
          question: t.sure(name),
          work: async () => {
            await source.remove(path("directory", "registrations", found[1]));
            return t.removed(name);
          },
          done: load,
        });
      },
    },
  ];
  const resources = [
    { title: t.resource, cell: (row) => row.href },
    { title: t.type, cell: (row) => row.attributes.rt || "–" },
    { title: t.other, cell: (row) => others(row.attributes, ["rt"]) },
  ];

  async function load() {
    fill(error);
    const { kind, page } = state;
    fill(
      chosen,
      tabs(t.title, [["endpoints", t.endpoints], ["resources", t.resources]], kind, (name) => {
        state.kind = name;
        state.page = 0;
        load().then(() => chosen.querySelector(`[data-tab="${name}"]`)?.focus());
      }),
    );
    try {
      const told = await source.get(`directory/${kind}`, { search: state.search, page });
      fill(list, plainTable({ label: t[kind], none: t.none, rows: told.links, columns: kind === "endpoints" ? endpoints : resources }));
      fill(more, page ? h("button", { type: "button", onclick: () => turn(-1) }, t.before) : null, told.has_more ? h("button", { type: "button", onclick: () => turn(1) }, t.next) : null);
    } catch (refused) {
      fill(error, refused.message);
    }
  }
  function turn(by) {
    state.page += by;
    load();
  }

  const search = h("input", { type: "search", value: state.search, placeholder: t.find, "aria-label": t.find, maxlength: "256" });
  fill(
    main,
    h("div", { class: "title-line" }, h("h1", {}, t.title), me.may.device_keys ? h("a", { class: "button", href: link("directory", "keys") }, t.keys) : null),
    h(
      "form",
      {
        class: "tools",
        onsubmit: (event) => {
          event.preventDefault();
          state.search = search.value;
          state.page = 0;
          load();
        },
      },
      chosen,
      search,
      h("button", { type: "submit" }, T.search),
    ),
    error,
    h("section", { class: "card wide" }, list, more),
  );
  await load();
  return null;
}
