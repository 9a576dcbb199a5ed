// Keys of devices for CoAP over DTLS: who has one, made and revoked; a new one is shown once.
import { h, fill, say, link } from "./dom.js";
import { path, source } from "./data.js";
import { T } from "./texts.js";
import { facts, sureButton } from "./parts.js";
import { plainTable } from "./virtual_table.js";

const t = T.deviceKeys;

/** The gateway's own drawing, as elements: nothing in it runs. */
function drawn(svg) {
  const parsed = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  const code = document.importNode(parsed, true);
  code.setAttribute("role", "img");
  code.setAttribute("aria-label", t.code);
  return h("div", { class: "qr" }, code);
}

function shown(told, hide) {
  const title = h("h2", { tabindex: "-1" }, t.once(told.identity));
  const card = h(
    "section",
    { class: "card wide new-key" },
    title,
    h("p", { class: "warning" }, t.notAgain),
    drawn(told.svg),
    facts([[t.host, told.host], [t.port, told.port], [t.identity, told.identity]]),
    h("p", {}, h("span", { class: "soft" }, t.key), h("br"), h("code", {}, told.key)),
    h("button", { type: "button", class: "primary", onclick: hide }, t.hide),
  );
  return [card, title];
}

export async function showDeviceKeys(main) {
  const place = h("div", {});
  const list = h("div", {});
  const about = h("p", { class: "soft" });
  const error = h("p", { class: "error", role: "alert" });
  const identity = h("input", { id: "identity", required: true, maxlength: "128", autocomplete: "off", spellcheck: "false" });

  const columns = [
    { title: t.identity, cell: (row) => row.identity },
    { title: t.from, cell: (row) => (row.is_made ? t.made : t.inFile) },
    { title: t.roles, cell: (row) => row.roles.join(", ") || "–" },
    {
      title: "",
      cell: (row) =>
        sureButton({
          label: t.revoke,
          question: t.sure(row.identity),
          work: async () => {
            await source.remove(path("device-keys", row.identity));
            return t.revoked(row.identity);
          },
          done: load,
        }),
    },
  ];

  async function load() {
    const told = await source.get("device-keys");
    fill(about, told.uri ? t.about(told.uri) : t.off);
    form.hidden = !told.uri;
    fill(list, plainTable({ label: t.title, none: t.none, rows: told.devices, columns }));
  }
  function hide() {
    fill(place);
    identity.focus();
  }
  async function make(event) {
    event.preventDefault();
    fill(error);
    fill(place);
    try {
      const [card, title] = shown(await source.post("device-keys", { identity: identity.value.trim() }), hide);
      fill(place, card);
      identity.value = "";
      title.focus();
      say(t.isMade);
      await load();
    } catch (refused) {
      fill(error, T.failed(refused.message));
    }
  }
  const form = h(
    "form",
    { class: "tools", onsubmit: make },
    h("label", { for: "identity" }, t.identity),
    identity,
    h("button", { type: "submit", class: "primary" }, t.make),
  );
  fill(
    main,
    h("p", { class: "crumbs" }, h("a", { href: link("directory") }, T.directory.title)),
    h("h1", {}, t.title),
    about,
    form,
    error,
    place,
    h("section", { class: "card wide" }, list),
  );
  await load();
  return { close: () => fill(place) };
}
