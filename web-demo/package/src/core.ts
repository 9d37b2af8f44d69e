import initialise, { Canceller, Model, wasmMemory } from "./wisp_web.js";
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
export type Prompt = { text: string } | { messages: unknown; controlTokens: boolean } | { tokens: number[] };

/** Something that happened to a request. */
export type RequestEvent =
  /** The prompt's tokens have been counted. */
  | { type: "prompt"; tokens: number }
  /** A part of the prompt has been computed. */
  | { type: "prefill"; done: number; total: number }
  /** A token was sampled. */
  | { type: "token"; token: number }
  /** Text that is certain; it may lag behind the tokens. */
  | { type: "text"; text: string }
  /** The request has ended. */
  | { type: "end"; reason: "stop" | "length" | "cancelled" };

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

/** The engine itself: in a worker, or on the page's own thread. Every method is a call by name. */
export class Core {
  private model: Model | undefined;
  /** The model's device. */
  private gpu: GPUDevice | undefined;
  private readonly requests = new Set<{ canceller: Canceller; ended: Promise<unknown> }>();

  /** What may be called. */
  readonly calls: Record<string, (args: any, emit: Emit, signal: AbortSignal) => Promise<unknown>> = {
    load: (args, emit, signal) => this.load(args.model, args.options, emit, signal),
    generate: (args, emit, signal) => this.generate(args.prompt, args.options, emit, signal),
    embed: async (args) => this.loaded().embed(JSON.stringify(args.inputs)),
    encode: async (args) => this.loaded().encode(args.text, args.special),
    decode: async (args) => this.loaded().decode(Uint32Array.from(args.tokens)),
    bench: async (args) => JSON.parse(await this.loaded().bench(JSON.stringify(args))),
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
    const canceller = new Canceller();
    const cancel = () => canceller.cancel();
    signal.addEventListener("abort", cancel);
    try {
      const name = files.name;
      const told = (loaded: number, total: number) => tell({ loaded, total });
      const model = await Model.load(watched, files.texts, JSON.stringify({ name, ...options }), canceller, told);
      tell({ phase: "compiling" });
      await compiled().catch((error: unknown) => {
        model.free();
        throw error;
      });
      this.model = model;
    } catch (error) {
      throw failure ?? error;
    } finally {
      signal.removeEventListener("abort", cancel);
      canceller.free();
      for (const file of files.weights) if ("close" in file) (file as { close(): void }).close();
    }
    const info: ModelInfo = JSON.parse(this.model.info());
    const gpu = device();
    this.gpu = gpu;
    void gpu?.lost.then(({ reason, message }) => {
      if (this.model) emit({ lost: message || reason });
    });
    tell({ phase: "ready" });
    return info;
  }

  private loaded(): Model {
    if (!this.model) throw new WispError("InvalidRequest", "no model is loaded");
    return this.model;
  }

  private tokens(model: Model, prompt: Prompt): Uint32Array {
    if ("tokens" in prompt) return Uint32Array.from(prompt.tokens);
    if ("text" in prompt) return model.encode(prompt.text, true);
    return model.chat(JSON.stringify(prompt.messages), prompt.controlTokens);
  }

  private async generate(prompt: Prompt, options: object, emit: Emit, signal: AbortSignal): Promise<void> {
    check(signal);
    const model = this.loaded();
    const tokens = this.tokens(model, prompt);
    const tell = (event: RequestEvent) => emit(event);
    tell({ type: "prompt", tokens: tokens.length });
    const canceller = new Canceller();
    const cancel = () => canceller.cancel();
    signal.addEventListener("abort", cancel);
    let cancelled = false;
    const ended = model.generate(tokens, JSON.stringify(options), canceller, (json: string) => {
      const event: RequestEvent = JSON.parse(json);
      cancelled ||= event.type === "end" && event.reason === "cancelled";
      tell(event);
    });
    const request = { canceller, ended: ended.catch(() => {}) };
    this.requests.add(request);
    try {
      await ended;
      if (cancelled) throw new WispError("Aborted", "stopped");
    } finally {
      this.requests.delete(request);
      signal.removeEventListener("abort", cancel);
      canceller.free();
    }
  }

  private async memory(): Promise<Memory> {
    const [gpu = 0, gpuPeak = 0] = this.model?.memory() ?? [];
    return { gpu, gpuPeak, wasm: wasmMemory() };
  }

  private async unload(): Promise<void> {
    for (const request of this.requests) request.canceller.cancel();
    await Promise.all([...this.requests].map((request) => request.ended));
    const model = this.model;
    this.model = undefined;
    model?.free();
    this.gpu?.destroy();
    this.gpu = undefined;
  }
}
