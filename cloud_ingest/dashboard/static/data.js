// Where all data comes from: the server, or the copy that stands beside the page.

class Refused extends Error {
  constructor(status, why) {
    super(why);
    this.status = status;
  }
}

function live() {
  const listeners = new Set();
  let events = null;
  async function answered(response) {
    const told = await response.json().catch(() => ({}));
    if (response.ok) return told;
    if (response.status === 401) window.dispatchEvent(new Event("hedgerow-log-in"));
    throw new Refused(response.status, told.error || response.statusText);
  }
  return {
    isCopy: false,
    now: () => Date.now(),
    get: async (name, parameters) => {
      const query = new URLSearchParams(parameters || {}).toString();
      return answered(await fetch(`api/${name}${query ? `?${query}` : ""}`));
    },
    post: async (name, body) =>
      answered(
        await fetch(`api/${name}`, {
          method: "POST",
          headers: { "Content-Type": "application/json" },
          body: JSON.stringify(body),
        }),
      ),
    listen: (told) => {
      listeners.add(told);
      return () => listeners.delete(told);
    },
    follow: (state) => {
      if (events) events.close();
      else leaveNone(() => events.close());
      events = new EventSource("api/events");
      events.addEventListener("open", () => state(true));
      events.addEventListener("error", () => state(false));
      events.addEventListener("tables", (event) => {
        const tables = new Set(JSON.parse(event.data));
        for (const told of [...listeners]) told(tables);
      });
    },
  };
}

// A browser has six connections to a server at most, and keeps pages that were left with theirs.
function leaveNone(close) {
  addEventListener("pagehide", close);
  addEventListener("pageshow", (event) => {
    if (event.persisted) location.reload();
  });
}

/** Gateways and sensors of a question that names several, as the server takes them. */
function pairs(asked) {
  const all = (name) => asked.filter(([each]) => each === name).map(([, value]) => value);
  const sensors = all("sensor");
  return all("gateway").map((gateway, at) => [gateway, sensors[at]]);
}

// What the server tells of several sensors, of what it tells of each.
function onOneGrid(told) {
  const times = [...new Set(told.flatMap((each) => each.time_ms))].sort((one, other) => one - other);
  const place = new Map(times.map((each, at) => [each, at]));
  const mean = told.map((each) => {
    const column = new Array(times.length).fill(null);
    each.time_ms.forEach((time, at) => {
      column[place.get(time)] = each.mean[at];
    });
    return column;
  });
  const of = (name, least) => told.map((each) => (each[name].length ? each[name].reduce(least) : null));
  return {
    part_s: Math.max(...told.map((each) => each.part_s)),
    time_ms: times,
    mean,
    low: of("low", (one, other) => Math.min(one, other)),
    high: of("high", (one, other) => Math.max(one, other)),
    average: told.map(({ mean: each }) => (each.length ? each.reduce((one, other) => one + other) / each.length : null)),
  };
}

function copy(kept) {
  const between = (told, start_ms, end_ms) => {
    const keep = told.time_ms.map((at) => at >= start_ms && at < end_ms);
    const cut = (column) => column.filter((_, at) => keep[at]);
    return {
      ...told,
      time_ms: cut(told.time_ms),
      low: cut(told.low),
      high: cut(told.high),
      mean: cut(told.mean),
    };
  };
  const found = {
    gateway: ({ name }) => kept.gateways[name],
    tree: ({ time_ms }) => {
      const at = kept.trees.findLastIndex((tree) => tree.time_ms <= time_ms);
      return kept.trees[Math.max(0, at)];
    },
    latency: ({ gateway }) => (gateway ? kept.latency_of[gateway] : kept.latency),
    history: ({ gateway }) => kept.history[gateway] || kept.history[""],
    current: (asked) => {
      if (!Array.isArray(asked)) return kept.current[asked.gateway] || kept.current[""];
      const { count, ...none } = kept.current[""];
      const columns = Object.fromEntries(Object.keys(none).map((name) => [name, []]));
      for (const [gateway, sensor] of pairs(asked)) {
        const told = kept.current[gateway] || kept.current[""];
        const at = told.sensor.indexOf(sensor);
        for (const name of Object.keys(columns)) {
          columns[name].push(at < 0 ? ({ gateway, sensor, hours: [] }[name] ?? null) : told[name][at]);
        }
      }
      return { count: columns.sensor.length, ...columns };
    },
    sensor: ({ gateway, sensor, start_ms, end_ms }) => {
      const told = (kept.readings[gateway] || {})[sensor];
      return told && between(told, start_ms, end_ms);
    },
    together: (asked) => {
      const told = pairs(asked).map(([gateway, sensor]) => found.sensor({ ...Object.fromEntries(asked), gateway, sensor }));
      return told.every(Boolean) ? onOneGrid(told) : undefined;
    },
  };
  return {
    isCopy: true,
    now: () => kept.made_ms,
    get: async (name, parameters) => {
      const told = name in found ? found[name](parameters || {}) : kept.answers[name];
      if (told === undefined) throw new Refused(404, "this is not in the copy");
      return told;
    },
    post: async () => {
      throw new Refused(403, "a copy of the dashboard can't be changed");
    },
    listen: () => () => {},
    follow: () => {},
  };
}

export const source = window.hedgerowCopy ? copy(window.hedgerowCopy) : live();
