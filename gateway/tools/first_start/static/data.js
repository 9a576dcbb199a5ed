// What a first start answers, with the word that shows that a change is this page's.

class Refused extends Error {
  constructor(status, why) {
    super(why);
    this.status = status;
  }
}

let csrf = "";

async function answered(response) {
  const told = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, told.error || response.statusText);
  if (told.csrf) csrf = told.csrf;
  return told;
}

export const source = {
  get: async (name) => answered(await fetch(`api/v1/${name}`)),
  post: async (name, body) =>
    answered(
      await fetch(`api/v1/${name}`, {
        method: "POST",
        headers: { "Content-Type": "application/json", "X-Hedgerow-CSRF": csrf },
        body: JSON.stringify(body),
      }),
    ),
};
