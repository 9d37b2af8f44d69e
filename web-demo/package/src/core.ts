import initialise, { Engine, wasmMemory } from "./wisp_web.js";
import { check, WispError } from "./errors.js";
import { type Origin } from "./files.js";
import { compiled, device, prepare } from "./gpu.js";
import { type ModelSource, open } from "./source.js";

/** How a model is loaded, beside where it comes from. */
export interface EngineOptions {
  /** Tokens of a sequence, prompt and answer; what the model can do, up to 4096, unless given. */
  maxLength?: number;
  /** Sequences that run at the same time; 1 unless given. */
  maxBatch?: number;
  /** Tokens of prompts in one submission; 128 unless given. */
  maxStepTokens?: number;
  /** Tokens drawn in one submission; 8 unless given. Fewer stop sooner, more are faster. */
  maxSteps?: number;
  /** How the KV cache stores keys and values: as they are computed unless given; `float16` takes half the memory,
   *  `q8_0` little more than a quarter. */
  kvCacheFormat?: "float32" | "float16" | "q8_0";
  /** Use only what every browser guarantees. */
  baseline?: boolean;
  /** Keep downloaded files: `prefer` if there is room (the default), `require`, or `none`. */
  cache?: "prefer" | "require" | "none";
}

/** How far loading has come. */
export interface LoadProgress {
  /** What is being done. */
  phase: "starting" | "opening" | "downloading" | "reading" | "compiling" | "ready";
  /** Bytes of weights on the GPU. */
  loaded: number;
  /** Bytes of all weights; 0 while that is not known. */
  total: number;
}

/** What is known of a loaded model. */
export interface ModelInfo {
  name: string;
  architecture: string;
  /** What it does. */
  task: "generate" | "embed";
  /** Whether it can converse. */
  chat: boolean;
  vocabSize: number;
  /** Tokens of a sequence, prompt and answer. */
  maxLength: number;
  /** Bytes of its files. */
  weightBytes: number;
  device: {
    name: string;
    api: string;
    software: boolean;
    capabilities: Record<string, number | boolean>;
  };
}

/** A prompt: a text, a conversation, or tokens. */
export type Prompt = { text: string } | { messages: unknown } | { tokens: number[] };

/** A step's news of a request. */
export interface TextEvent {
  id: number;
  token: number | null;
  text: string;
  finish: "stop" | "length" | "cancelled" | null;
}

/** Bytes in use. */
export interface Memory {
  /** On the GPU now. */
  gpu: number;
  /** On the GPU, at most so far. */
  gpuPeak: number;
  /** Of the WebAssembly module. */
  wasm: number;
}

/** What a call may tell before it ends. */
export type Emit = (event: unknown) => void;

let module: Promise<unknown> | undefined;

/** Lets others have the thread. Not by `setTimeout`, which browsers stretch to 4 milliseconds. */
function breathe(): Promise<void> {
  const { port1, port2 } = new MessageChannel();
  return new Promise((resolve) => {
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(0);
  });
}

/** The engine itself: in a worker, or on the page's own thread. Every method is a call by name. */
export class Core {
  private engine: Engine | undefined;
  /** The engine's device. */
  private gpu: GPUDevice | undefined;
  private last: Promise<unknown> = Promise.resolve();
  private requests = new Map<number, { emit: Emit; done: () => void; fail: (error: unknown) => void }>();
  private pumping = false;

  /** What may be called. */
  readonly calls: Record<string, (args: any, emit: Emit, signal: AbortSignal) => Promise<unknown>> = {
    load: (args, emit, signal) => this.load(args.model, args.options, emit, signal),
    generate: (args, emit, signal) => this.generate(args.prompt, args.options, emit, signal),
    embed: (args) => this.turn((engine) => engine.embed(JSON.stringify(args.inputs))),
    encode: (args) => this.turn(async (engine) => engine.encode(args.text, args.special)),
    decode: (args) => this.turn(async (engine) => engine.decode(Uint32Array.from(args.tokens))),
    bench: (args) => this.turn(async (engine) => JSON.parse(await engine.bench(JSON.stringify(args)))),
    memory: () => this.memory(),
    unload: () => this.unload(),
  };

  private async load(model: ModelSource, given: EngineOptions, emit: Emit, signal: AbortSignal): Promise<ModelInfo> {
    const { cache = "prefer", ...options } = given;
    let progress: LoadProgress = { phase: "starting", loaded: 0, total: 0 };
    const tell = (news: Partial<LoadProgress>) => emit({ progress: (progress = { ...progress, ...news }) });
    tell({});
    await prepare(options.baseline ?? false);
    module ??= initialise().catch((error: unknown) => {
      module = undefined;
      throw new WispError("Network", "the engine's module cannot be fetched", error);
    });
    await module;
    check(signal);
    tell({ phase: "opening" });
    const onOrigin = (origin: Origin) => {
      const phase = origin === "network" ? "downloading" : "reading";
      if (progress.phase !== phase) tell({ phase });
    };
    const onWarning = (warning: WispError) => emit({ warning: { code: warning.code, message: warning.message } });
    const files = await open(model, { signal, cache, onOrigin, onWarning });
    let failure: unknown;
    const watched = files.weights.map((file) => ({
      name: file.name,
      size: file.size,
      // The engine would only pass on its message.
      read: (start: number, end: number) => file.read(start, end).catch((error: unknown) => {
        failure ??= error;
        throw error;
      }),
    }));
    try {
      const name = files.name;
      const told = (loaded: number, total: number) => tell({ loaded, total });
      const engine = await Engine.load(watched, files.texts, JSON.stringify({ name, ...options }), told);
      tell({ phase: "compiling" });
      await compiled().catch((error: unknown) => {
        engine.free();
        throw error;
      });
      this.engine = engine;
    } catch (error) {
      throw failure ?? error;
    } finally {
      for (const file of files.weights) if ("close" in file) (file as { close(): void }).close();
    }
    const info: ModelInfo = JSON.parse(this.engine.info());
    const gpu = device();
    this.gpu = gpu;
    void gpu?.lost.then(({ reason, message }) => {
      if (this.engine) emit({ lost: message || reason });
    });
    tell({ phase: "ready" });
    return info;
  }

  /** Runs one thing at a time. */
  private turn<T>(run: (engine: Engine) => Promise<T>): Promise<T> {
    const result = this.last.then(() => {
      if (!this.engine) throw new WispError("InvalidRequest", "no model is loaded");
      return run(this.engine);
    });
    this.last = result.catch(() => {});
    return result;
  }

  private tokens(engine: Engine, prompt: Prompt): Uint32Array {
    if ("tokens" in prompt) return Uint32Array.from(prompt.tokens);
    if ("text" in prompt) return engine.encode(prompt.text, true);
    return engine.chat(JSON.stringify(prompt.messages));
  }

  private async generate(prompt: Prompt, options: object, emit: Emit, signal: AbortSignal): Promise<void> {
    const id = await this.turn(async (engine) => {
      const tokens = this.tokens(engine, prompt);
      const id = engine.add(tokens, JSON.stringify(options));
      emit({ prompt: tokens.length });
      return id;
    });
    const stop = () => {
      const request = this.requests.get(id);
      this.requests.delete(id);
      // Steps take turns with this, so at most the one under way still runs.
      void this.turn(async (engine) => engine.cancel(id)).catch(() => {});
      request?.fail(new WispError("Aborted", "stopped"));
    };
    const ended = new Promise<void>((done, fail) => this.requests.set(id, { emit, done, fail }));
    if (signal.aborted) stop();
    signal.addEventListener("abort", stop);
    void this.pump();
    return ended.finally(() => signal.removeEventListener("abort", stop));
  }

  /** Steps as long as requests run. */
  private async pump(): Promise<void> {
    if (this.pumping) return;
    this.pumping = true;
    try {
      while (this.requests.size > 0) {
        const events: TextEvent[] = JSON.parse(await this.turn((engine) => engine.step()));
        this.hand(events);
        // Whoever waits for the thread goes first.
        await breathe();
      }
    } catch (error) {
      for (const request of this.requests.values()) request.fail(error);
      this.requests.clear();
    } finally {
      this.pumping = false;
    }
  }

  /** Hands each request what it has of a step. */
  private hand(events: TextEvent[]): void {
    for (const [id, request] of [...this.requests]) {
      const own = events.filter((event) => event.id === id);
      if (own.length > 0) request.emit({ events: own });
      if (own.some((event) => event.finish)) {
        this.requests.delete(id);
        request.done();
      }
    }
  }

  private async memory(): Promise<Memory> {
    const [gpu = 0, gpuPeak = 0] = this.engine?.memory() ?? [];
    return { gpu, gpuPeak, wasm: wasmMemory() };
  }

  private async unload(): Promise<void> {
    for (const request of this.requests.values()) request.fail(new WispError("Aborted", "the model was unloaded"));
    this.requests.clear();
    await this.last;
    const engine = this.engine;
    this.engine = undefined;
    engine?.free();
    this.gpu?.destroy();
    this.gpu = undefined;
  }
}
