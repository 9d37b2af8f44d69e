import { Core } from "./core.js";
import { WispError } from "./errors.js";

// Each call is a message { id, call, args }. The replies are { id, event }… and then { id, result } or { id, error }.
const core = new Core();
const running = new Map<number, AbortController>();

addEventListener("message", async ({ data }: MessageEvent) => {
  const { id, call, args } = data;
  if (call === "abort") return running.get(id)?.abort();
  const controller = new AbortController();
  running.set(id, controller);
  try {
    const result = await core.calls[call]!(args, (event) => postMessage({ id, event }), controller.signal);
    postMessage({ id, result });
  } catch (error) {
    const { code, message } = WispError.from(error);
    postMessage({ id, error: { code, message } });
  } finally {
    running.delete(id);
  }
});
