// The first start: the setup code, what the gateway is to be, and what phones need then.
import { h, fill, say } from "./dom.js";
import { source } from "./data.js";
import { T } from "./texts.js";
import { themeSwitch } from "./theme_switch.js";

const AGAIN_MS = 2000;
const main = document.getElementById("main");

function head() {
  fill(
    document.getElementById("top"),
    h(
      "div",
      { class: "bar" },
      h("p", { class: "brand" }, h("img", { src: "icon.svg", alt: "" }), "Hedgerow"),
      themeSwitch(() => {}),
    ),
  );
}

// A label, what is typed below it, and what it is for.
function field(name, label, hint, properties = {}) {
  const own = h("input", { id: name, autocomplete: "off", "aria-describedby": hint ? `${name}-hint` : null, ...properties });
  return { own, parts: [h("label", { for: name }, label), own, hint ? h("p", { class: "hint", id: `${name}-hint` }, hint) : null] };
}

// A form that says what is wrong in it, and whose button is not pressed twice.
function form({ title, told, parts, label, work }) {
  const error = h("p", { class: "error", role: "alert" });
  const send = h("button", { type: "submit", class: "primary" }, label);
  const own = h(
    "form",
    {
      onsubmit: async (event) => {
        event.preventDefault();
        send.disabled = true;
        fill(error);
        try {
          await work();
        } catch (refused) {
          if (refused.status === 401 || refused.status === 410) {
            await begin();
            return;
          }
          fill(error, refused.message);
          const wrong = document.getElementById(refused.message.split(":")[0]);
          if (wrong && own.contains(wrong)) wrong.focus();
        }
        send.disabled = false;
      },
    },
    parts.flat(3),
    error,
    send,
  );
  return h("section", { class: "card step" }, title ? h("h2", {}, title) : null, told ? h("p", { class: "soft" }, told) : null, own);
}

function askCode() {
  const code = field("code", T.code, T.codeFrom, { required: true, maxlength: "64", autocapitalize: "characters", spellcheck: "false" });
  const instead = h("input", { type: "checkbox", id: "instead" });
  const takeOver = h("label", { class: "check", hidden: true }, instead, T.instead);
  fill(
    main,
    h("h1", {}, T.title),
    form({
      parts: [code.parts, takeOver],
      label: T.enter,
      work: async () => {
        try {
          await source.post("code", { code: code.own.value, instead: instead.checked });
        } catch (refused) {
          if (refused.status === 409) takeOver.hidden = false;
          throw refused;
        }
        await begin();
      },
    }),
  );
  code.own.focus();
}

function askAll(told) {
  const required = { required: true, maxlength: "256" };
  const name = field("name", T.name, null, { ...required, value: told.name });
  const place = field("place", T.place, T.placeHint, { maxlength: "256" });
  const address = h("select", { id: "address" }, told.addresses.map((one) => h("option", { value: one, selected: one === location.hostname.replace(/^\[|\]$/g, "") }, one)));
  const user = field("user", T.user, null, { ...required, value: "admin", autocomplete: "username" });
  const password = field("password", T.password, T.passwordHint, { ...required, type: "password", minlength: "10", autocomplete: "new-password" });
  const again = field("again", T.again, null, { ...required, type: "password", autocomplete: "new-password" });
  const token = field("token", T.token, T.tokenHint, { required: true, maxlength: "4096", spellcheck: "false" });
  const made = async (what, body) => {
    say(T.working);
    showOwned((await source.post(what, body)).owned);
  };
  fill(
    main,
    h("h1", {}, T.title),
    form({
      title: T.own,
      told: T.ownTold,
      parts: [
        name.parts,
        place.parts,
        [h("label", { for: "address" }, T.address), address, h("p", { class: "hint" }, T.addressHint)],
        user.parts,
        password.parts,
        again.parts,
      ],
      label: T.make,
      work: async () => {
        if (password.own.value !== again.own.value) throw new Error(T.differs);
        await made("own", {
          name: name.own.value.trim(),
          place: place.own.value.trim(),
          address: address.value,
          user: user.own.value.trim(),
          password: password.own.value,
        });
      },
    }),
    form({
      title: T.join,
      told: T.joinTold,
      parts: token.parts,
      label: T.joinNow,
      work: () => made("join", { token: token.own.value.trim() }),
    }),
  );
  name.own.focus();
}

function row(name, value) {
  return h("div", {}, h("dt", {}, name), h("dd", {}, value));
}

function showOwned(owned) {
  fill(
    main,
    h("h1", { tabindex: "-1", id: "ready" }, T.ready(owned.gateway)),
    h(
      "section",
      { class: "card step" },
      h("p", {}, owned.device ? T.scanWithLogin : T.scan),
      h("img", { class: "qr", src: "api/v1/invitation.svg", alt: T.qr(owned.invitation) }),
      h(
        "dl",
        { class: "facts" },
        row(T.mqtts, owned.mqtts),
        owned.page ? row(T.page, owned.page) : null,
        row(T.ca, h("a", { href: "ca.pem", download: "ca.pem" }, T.download)),
        owned.device ? [row(T.device, owned.device.user), row(T.devicePassword, h("code", {}, owned.device.password))] : null,
      ),
      owned.device ? h("p", { class: "hint" }, T.deviceTold) : null,
      h("p", { class: "hint" }, T.fingerprint),
      h("p", { class: "fingerprint" }, owned.ca_sha256),
    ),
    form({
      title: T.finish,
      told: T.finishTold,
      parts: [],
      label: T.finish,
      work: async () => {
        await source.post("finish", {});
        fill(
          main,
          h("h1", { tabindex: "-1", id: "ready" }, T.over),
          h("p", {}, T.overTold),
          owned.page ? h("p", {}, h("a", { href: owned.page }, owned.page)) : null,
        );
        document.getElementById("ready").focus();
      },
    }),
  );
  document.getElementById("ready").focus();
  say(T.ready(owned.gateway));
}

async function begin() {
  let told = null;
  try {
    told = await source.get("setup");
  } catch (refused) {
    fill(main, h("h1", {}, T.title), h("p", { class: "error", role: "alert" }, refused.message));
    return;
  }
  if (told.is_in && told.owned) showOwned(told.owned);
  else if (told.is_in && told.stage === "working") {
    fill(main, h("h1", {}, T.title), h("p", { role: "status" }, T.working));
    setTimeout(begin, AGAIN_MS);
  } else if (told.is_in) askAll(told);
  else if (told.stage === "done" || told.stage === "closed") fill(main, h("h1", {}, T.title), h("p", {}, T.gone));
  else askCode();
}

document.documentElement.lang = T.language;
document.title = `${T.title} · Hedgerow`;
fill(document.querySelector(".skip"), T.skip);
head();
begin();
