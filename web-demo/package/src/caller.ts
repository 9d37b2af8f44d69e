import type { Core, Emit } from "./core.js";
import { check, WispError } from "./errors.js";

/** Calls the methods of an engine in a worker or on this thread. */
export interface Caller {
  call<T>(name: string, args?: unknown, emit?: Emit, signal?: AbortSignal): Promise<T>;
  /** Stops the engine and all calls. */
  close(): void;
}

/** Starts the package's worker from this module's folder, or from its given address. */
function start(given?: string | URL): Worker {
  const here = new URL(import.meta.url);
  // Bundlers recognise a worker by this expression. In webpack's output, this module's address is that of its source file.
  if (given === undefined && (here.protocol === "file:" || here.origin === location.origin)) {
    return new Worker(new URL("./worker.js", import.meta.url), { type: "module", name: "wisp" });
  }
  const address = new URL(given ?? here, globalThis.document?.baseURI ?? location.href);
  if (address.origin === location.origin) return new Worker(address, { type: "module", name: "wisp" });
  // A script of another origin, such as a CDN's, starts no worker, but one of the page's own imports it.
  if (given === undefined) address.pathname = address.pathname.replace(/[^/]*$/, "worker.js");
  const script = new Blob([`import ${JSON.stringify(address.href)};`], { type: "text/javascript" });
  const url = URL.createObjectURL(script);
  const worker = new Worker(url, { type: "module", name: "wisp" });
  worker.addEventListener("message", () => URL.revokeObjectURL(url), { once: true });
  return worker;
}

/** An engine in a worker. */
export class WorkerCaller implements Caller {
  private readonly worker: Worker;
  private next = 0;
  private closed = false;
  private readonly open = new Map<number, { emit: Emit | undefined; done: (value: any) => void; fail: (error: unknown) => void }>();

  constructor(given?: Worker | string | URL) {
    this.worker = given instanceof Worker ? given : start(given);
    this.worker.addEventListener("message", ({ data }) => {
      const call = this.open.get(data.id);
      if ("event" in data) return call?.emit?.(data.event);
      // A lost device is reported by an event after the end of the call.
      if ("error" in data) call?.fail(new WispError(data.error.code, data.error.message));
      else call?.done(data.result);
    });
    this.worker.addEventListener("error", (event) => {
      const error = new WispError("Internal", event.message || "the worker cannot be started");
      for (const call of this.open.values()) call.fail(error);
    });
  }

  call<T>(name: string, args: unknown = {}, emit?: Emit, signal?: AbortSignal): Promise<T> {
    const id = this.next++;
    return new Promise<T>((done, fail) => {
      check(signal);
      if (this.closed) throw new WispError("InvalidRequest", "no model is loaded");
      // A load is stopped by closing the worker, which cannot answer while it fetches the engine's module.
      const stop = name === "load"
        ? () => this.open.get(id)?.fail(new WispError("Aborted", "stopped"))
        : () => this.worker.postMessage({ id, call: "abort" });
      signal?.addEventListener("abort", stop);
      const end = <A>(settle: (value: A) => void) => (value: A) => {
        signal?.removeEventListener("abort", stop);
        if (name !== "load") this.open.delete(id);
        settle(value);
      };
      const call = { emit, done: end(done), fail: end(fail) };
      this.open.set(id, call);
      try {
        this.worker.postMessage({ id, call: name, args });
      } catch (error) {
        call.fail(new WispError("InvalidRequest", "an argument cannot be sent to the worker", error));
      }
    });
  }

  close(): void {
    this.closed = true;
    this.worker.terminate();
    for (const call of this.open.values()) call.fail(new WispError("Aborted", "the model was unloaded"));
    this.open.clear();
  }
}

/** An engine on this thread. */
export class DirectCaller implements Caller {
  private constructor(private readonly core: Core) {}

  static async create(): Promise<DirectCaller> {
    const { Core } = await import("./core.js");
    return new DirectCaller(new Core());
  }

  async call<T>(name: string, args: unknown = {}, emit: Emit = () => {}, signal?: AbortSignal): Promise<T> {
    check(signal);
    try {
      return (await this.core.calls[name]!(args, emit, signal ?? new AbortController().signal)) as T;
    } catch (error) {
      throw WispError.from(error);
    }
  }

  close(): void {}
}
