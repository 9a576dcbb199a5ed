// Key stores and trust stores: what they hold, uploads, a request for a certificate, renewal.
import { h, fill, say } from "./dom.js";
import { source } from "./data.js";
import { T } from "./texts.js";
import { sureButton } from "./parts.js";
import { plainTable } from "./virtual_table.js";

const t = T.keys;
const MOST_BYTES = 44_000;
const SOON_DAYS = 30;

function stateOf(row) {
  if (row.why) return h("span", { class: "silent" }, row.why);
  if (row.days_left === null) return t.endless;
  if (row.days_left < 0) return h("span", { class: "silent" }, t.ended);
  return h("span", { class: row.days_left < SOON_DAYS ? "warning" : "good" }, t.endsIn(row.days_left));
}

function held(told) {
  return plainTable({
    label: t.held,
    none: t.noneHeld,
    rows: told.items,
    columns: [
      { title: t.name, cell: (row) => row.name || "–" },
      { title: t.what, cell: (row) => t.kinds[row.what] },
      { title: t.until, cell: (row) => (row.ends ? row.ends.slice(0, 10) : "–") },
      { title: t.state, cell: stateOf },
      { title: t.serves, cell: (row) => row.serves || "–" },
      { title: t.file, cell: (row) => h("code", {}, `${row.field}: ${row.file}`) },
    ],
  });
}

function base64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(reader.result.split(",")[1] || "");
    reader.onerror = () => reject(new Error(t.unreadable));
    reader.readAsDataURL(file);
  });
}

function described(told) {
  const names = [...told.certificates, ...told.authorities].map((one) => h("li", {}, `${one.name} – ${one.ends.slice(0, 10)}`));
  return [h("p", {}, told.has_key ? t.hasKey : t.hasNone), h("ul", {}, names), h("p", { class: "soft small" }, t.writes(told.writes.join(", ")))];
}

function upload(place, reload) {
  const id = `${place.section}-${place.part}`;
  const file = h("input", { type: "file", id: `${id}-file`, required: true, accept: ".p12,.pfx,.pem,.crt,.cer,.key" });
  const password = h("input", { type: "password", id: `${id}-password`, autocomplete: "off", maxlength: "1000" });
  const add = h("input", { type: "checkbox", checked: true });
  const found = h("div", { role: "status" });
  const error = h("p", { class: "error", role: "alert" });
  async function body() {
    const given = file.files[0];
    if (given.size > MOST_BYTES) throw new Error(t.tooLarge(MOST_BYTES));
    const own = { section: place.section, part: place.part, data: await base64(given) };
    if (password.value) own.password = password.value;
    if (place.part === "authorities") own.add = add.checked;
    return own;
  }
  async function bringIn(sent) {
    fill(error);
    try {
      const told = await source.post("keys", sent);
      say(told.is_told ? t.broughtIn : t.broughtInForLater);
      await reload(told.is_told ? t.broughtIn : t.broughtInForLater);
    } catch (refused) {
      fill(error, T.failed(refused.message));
    }
  }
  return h(
    "form",
    {
      class: "upload",
      "data-place": id,
      onsubmit: async (event) => {
        event.preventDefault();
        fill(error);
        fill(found);
        try {
          const sent = await body();
          const told = await source.post("keys/checks", sent);
          fill(
            found,
            described(told),
            place.why_not
              ? [h("p", {}, t.byCommand(place.why_not))]
              : h("button", { type: "button", class: "primary", "data-do": "bring-in", onclick: () => bringIn(sent) }, t.bringIn),
            place.why_not ? h("code", {}, place.command) : null,
          );
        } catch (refused) {
          fill(error, T.failed(refused.message));
        }
      },
    },
    h("h3", {}, t.parts[place.part], h("span", { class: "soft small" }, ` ${place.section}`)),
    h("p", { class: "soft small" }, place.files.join(", ")),
    h("label", { for: `${id}-file` }, t.upload),
    file,
    h("label", { for: `${id}-password` }, t.password),
    password,
    place.part === "authorities" ? h("label", { class: "check" }, add, t.add) : null,
    h("button", { type: "submit" }, t.look),
    found,
    error,
  );
}

function request(told, reload) {
  const error = h("p", { class: "error", role: "alert" });
  if (told.request) {
    return [
      h("p", {}, t.open(told.request.name)),
      h(
        "div",
        { class: "tools" },
        h("a", { class: "button", href: source.file("keys/request"), download: "" }, t.download),
        sureButton({
          label: t.forget,
          question: t.forgetSure,
          work: async () => {
            await source.remove("keys/request");
            return t.forgotten;
          },
          done: reload,
        }),
      ),
    ];
  }
  if (told.why_not_request) return h("p", { class: "soft" }, told.why_not_request);
  const addresses = h("input", { id: "addresses", autocomplete: "off", placeholder: t.addressesHint, maxlength: "2000" });
  return h(
    "form",
    {
      class: "upload",
      "data-place": "request",
      onsubmit: async (event) => {
        event.preventDefault();
        try {
          await source.post("keys/request", { addresses: addresses.value.split(/[\s,]+/).filter(Boolean) });
          say(t.requested);
          await reload();
        } catch (refused) {
          fill(error, T.failed(refused.message));
        }
      },
    },
    h("p", { class: "soft small" }, t.requestSays),
    h("label", { for: "addresses" }, t.addresses),
    addresses,
    h("button", { type: "submit" }, t.make),
    error,
  );
}

function renewal(told, reload, me) {
  if (!told.service) return [h("p", {}, t.noService), h("code", {}, t.renewCommand(me.gateway))];
  return [
    h("p", {}, t.service(told.service)),
    sureButton({
      label: t.renew,
      question: t.renewSure,
      work: async () => {
        await source.post("keys/renew", {});
        return t.renewed;
      },
      done: reload,
    }),
  ];
}

export async function showKeys(main, _names, me) {
  const said = h("p", { class: "good", role: "status" });
  async function load(news = "") {
    const told = await source.get("keys");
    fill(said, news);
    fill(
      main,
      h("h1", {}, t.title),
      said,
      h("section", { class: "card wide held" }, h("h2", {}, t.held), held(told)),
      h(
        "div",
        { class: "columns" },
        told.places.length ? h("section", { class: "card" }, h("h2", {}, t.uploads), told.places.map((one) => upload(one, load))) : null,
        h("section", { class: "card" }, h("h2", {}, t.request), request(told, load)),
        h("section", { class: "card" }, h("h2", {}, t.renewal), renewal(told, load, me)),
        h("section", { class: "card" }, h("h2", {}, t.revocation), h("p", {}, t.revocationSays), h("code", {}, t.revokeCommand(me.gateway))),
        h("section", { class: "card" }, h("h2", {}, t.passwordTitle), h("p", {}, told.has_password ? t.hasPassword : t.hasNoPassword)),
      ),
    );
  }
  await load();
  return null;
}
