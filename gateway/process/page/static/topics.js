// Topics: what is retained, what comes, and publishing; of each what its looker may read.
import { h, fill, say } from "./dom.js";
import { source } from "./data.js";
import { T } from "./texts.js";
import { followed } from "./live.js";
import { plainTable } from "./virtual_table.js";
import { bytes, time } from "./words.js";

const SHOWN = 200;
const t = T.topics;
const state = { filter: "#" };

const columns = [
  { title: t.topic, cell: (row) => row.topic },
  { title: t.payload, cell: (row) => h("code", { class: "payload" }, row.form === "hex" ? `0x${row.payload}` : row.payload) },
  { title: t.size, right: true, cell: (row) => bytes(row.bytes) },
];
const withTime = [{ title: t.time, cell: (row) => time(row.time_ms).slice(11) }, ...columns];

function publishing() {
  const topic = h("input", { id: "topic", required: true, maxlength: "1024", autocomplete: "off" });
  const payload = h("textarea", { id: "payload", rows: "2", maxlength: "32768" });
  const retain = h("input", { type: "checkbox", id: "retain" });
  const error = h("p", { class: "error", role: "alert" });
  return h(
    "form",
    {
      class: "card publish",
      onsubmit: async (event) => {
        event.preventDefault();
        fill(error);
        try {
          await source.post("messages", { topic: topic.value, payload: payload.value, retain: retain.checked });
          say(t.published(topic.value));
        } catch (refused) {
          fill(error, refused.message);
        }
      },
    },
    h("h2", {}, t.publish),
    h("label", { for: "topic" }, t.topic),
    topic,
    h("label", { for: "payload" }, t.payload),
    payload,
    h("label", { class: "check" }, retain, t.retain),
    h("button", { type: "submit", class: "primary" }, t.publish),
    error,
  );
}

export async function showTopics(main, names, me) {
  if (names.length) state.filter = names.join("/");
  let end = () => {};
  let came = [];
  const error = h("p", { class: "error", role: "alert" });
  const kept = h("div", {});
  const live = h("div", {});
  const lost = h("p", { class: "soft" });

  function draw() {
    fill(live, plainTable({ label: t.live, none: t.waiting, rows: came, columns: withTime }));
  }

  async function look() {
    end();
    came = [];
    draw();
    fill(error);
    fill(kept);
    try {
      const told = await source.get("retained", { filter: state.filter });
      fill(
        kept,
        plainTable({ label: t.retained, none: t.noneRetained, rows: told.messages, columns }),
        told.has_more ? h("p", { class: "soft" }, t.hasMore) : null,
      );
    } catch (refused) {
      fill(error, refused.message);
      return;
    }
    end = followed(
      "messages",
      { filter: state.filter },
      (told) => {
        if (told.left_out) fill(lost, t.leftOut(told.left_out));
        if (!told.messages.length) return;
        came = [...told.messages.reverse(), ...came].slice(0, SHOWN);
        draw();
      },
      (refused) => fill(error, refused.message),
    );
  }

  const filter = h("input", { id: "filter", value: state.filter, required: true, maxlength: "1024", autocomplete: "off", spellcheck: "false" });
  fill(
    main,
    h("h1", {}, t.title),
    h(
      "form",
      {
        class: "tools",
        onsubmit: (event) => {
          event.preventDefault();
          state.filter = filter.value;
          look();
        },
      },
      h("label", { for: "filter" }, t.filter),
      filter,
      h("button", { type: "submit", class: "primary" }, t.show),
    ),
    error,
    h(
      "div",
      { class: "columns" },
      h("section", { class: "card" }, h("h2", {}, t.live), lost, live),
      h("section", { class: "card" }, h("h2", {}, t.retained), kept),
      me.may.publish ? publishing() : null,
    ),
  );
  await look();
  return { close: () => end() };
}
