// What goes on while a page is looked at: asked again now and then, or as soon as there is news.
import { source } from "./data.js";

const AGAIN_MS = 2_000;
const WAIT_S = 20;
// However much there is: nobody reads faster, and each answer costs the gateway something.
const BREATH_MS = 500;

/** Do something now and each so many milliseconds, while the page is seen; returns what ends it. */
export function repeated(work, every_ms) {
  let isOver = false;
  let timer = 0;
  async function turn() {
    if (!document.hidden) {
      try {
        await work();
        window.dispatchEvent(new CustomEvent("hedgerow-connected", { detail: true }));
      } catch (error) {
        if (!error.status) window.dispatchEvent(new CustomEvent("hedgerow-connected", { detail: false }));
        else if (error.status === 401) return;
      }
    }
    if (!isOver) timer = setTimeout(turn, every_ms);
  }
  timer = setTimeout(turn, every_ms);
  return () => {
    isOver = true;
    clearTimeout(timer);
  };
}

/** Ask for what is new, again and again; `told` takes each answer. Returns what ends it. */
export function followed(name, parameters, told, refused) {
  const ending = new AbortController();
  let after;
  async function run() {
    while (!ending.signal.aborted) {
      try {
        const asked = { ...parameters, wait_s: after === undefined ? 0 : WAIT_S, after };
        const answer = await source.get(name, asked, ending.signal);
        after = answer.after;
        told(answer);
        await new Promise((go) => setTimeout(go, BREATH_MS));
      } catch (error) {
        if (ending.signal.aborted) return;
        if (error.status && error.status !== 429 && error.status < 500) {
          refused(error);
          return;
        }
        await new Promise((go) => setTimeout(go, AGAIN_MS));
      }
    }
  }
  run();
  return () => ending.abort();
}
