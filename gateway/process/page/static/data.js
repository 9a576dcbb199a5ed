// What the gateway answers: its API, with the word that shows that a change is this page's.

class Refused extends Error {
  constructor(status, why) {
    super(why);
    this.status = status;
  }
}

let csrf = "";

async function answered(response) {
  const told = await response.json().catch(() => ({}));
  if (response.ok) return told;
  if (response.status === 401) window.dispatchEvent(new Event("hedgerow-log-in"));
  throw new Refused(response.status, told.error || response.statusText);
}

function address(name, parameters) {
  const given = Object.entries(parameters || {}).filter(([, value]) => value !== "" && value !== undefined);
  const query = new URLSearchParams(given).toString();
  return `api/v1/${name}${query ? `?${query}` : ""}`;
}

async function sent(method, name, body) {
  return answered(
    await fetch(address(name), {
      method,
      headers: { "Content-Type": "application/json", "X-Hedgerow-CSRF": csrf },
      body: body === undefined ? undefined : JSON.stringify(body),
    }),
  );
}

export const source = {
  now: () => Date.now(),
  get: async (name, parameters, signal) => answered(await fetch(address(name, parameters), { signal })),
  post: (name, body) => sent("POST", name, body),
  put: (name, body) => sent("PUT", name, body),
  remove: (name) => sent("DELETE", name),
  known: (word) => {
    csrf = word || "";
  },
  file: (name) => address(name),
};

export function path(...names) {
  return names.map(encodeURIComponent).join("/");
}
