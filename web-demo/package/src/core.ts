import initialise, { Canceller, Model, wasmMemory } from "./wisp_web.js";
import { CHUNK } from "./cache.js";
import { check, WispError, type WispErrorCode } from "./errors.js";
import { type Origin } from "./files.js";
import { compiled, device, prepare } from "./gpu.js";
import { type ModelSource, open } from "./source.js";
import type { TokenLogprob } from "./openai.js";

/** Which kernels are fastest on a GPU, as `engine.tune()` measured: JSON, to be stored and passed to `Wisp.load`. */
export interface Tuning {
  format: number;
  tuning: unknown;
}

/** The options of loading a model, except its source. */
export interface EngineOptions {
  /** Maximum tokens of a sequence, prompt and answer. Default: the limit of the model, at most 4096. */
  maxLength?: number;
  /** Maximum number of sequences in a batch. Default: 1. */
  maxBatch?: number;
  /** Maximum prompt tokens per submission, which takes fewer if the device needs more than about a second for them.
   *  Default: 128. */
  maxStepTokens?: number;
  /** Maximum tokens sampled per submission, which takes about a second at most. Default: 8. Fewer react to cancellation
   *  sooner, more are faster. */
  maxSteps?: number;
  /** The format of the KV cache. Default: `float16`, on the CPU `float32`. `float32` needs twice the memory, and gives the same tokens as
   *  every other device; `q8_0` needs about 30 % of that. */
  kvCacheFormat?: "float32" | "float16" | "q8_0";
  /** Whether requests with a common prefix share its keys and values, as the questions of a chat do. Default: true. Without
   *  it, layers with a sliding window need memory for the window only. */
  prefixCaching?: boolean;
  /** Where the model runs: on the adapter of WebGPU (`webgpu`), or in WebAssembly on one core of the CPU (`cpu`), which every
   *  browser can, with models of up to about 3 GB. Default: `auto`, the GPU, or the CPU with a warning where WebGPU is missing
   *  or has an adapter in software only. */
  device?: "auto" | "webgpu" | "cpu";
  /** Use only features and limits that every browser guarantees. */
  baseline?: boolean;
  /** The class of kernels: those for GPUs, or those for software adapters such as SwiftShader. Both compute the same
   *  results. Default: `auto`, the class of the adapter. */
  deviceClass?: "auto" | "gpu" | "software";
  /** The precision of products. `f16` computes those of many tokens in half precision: faster on GPUs that have it, and
   *  less accurate; others compute exactly. `int8` rounds activations to 8 bits, in blocks of 32 with a scale,
   *  which changes logits by about a percent. Default: `exact`. */
  precision?: "exact" | "f16" | "int8";
  /** The tuning of an earlier `engine.tune()` on this GPU. One of another version of this package has no effect. */
  tuning?: Tuning;
  /** Whether to store downloaded files: `prefer` if there is room (the default), `require`, or `none`. `check` is `prefer`,
   *  but asks the server whether stored files are still current; the others ask only if a part of the model is missing. */
  cache?: "prefer" | "require" | "none" | "check";
}

/** The progress of loading. */
export interface LoadProgress {
  /** The current phase. */
  phase: "starting" | "opening" | "downloading" | "reading" | "compiling" | "ready";
  /** Bytes of weights on the device. Where the server sends no parts of files, first the bytes of each file as it arrives. */
  loaded: number;
  /** Bytes of all weights, or of the file that arrives; 0 while unknown. */
  total: number;
}

/** A description of a loaded model. */
export interface ModelInfo {
  name: string;
  architecture: string;
  /** Whether the model generates text or computes embeddings. */
  task: "generate" | "embed";
  /** Whether the model has a chat template. */
  chat: boolean;
  vocabSize: number;
  /** Maximum tokens of a sequence, prompt and answer. */
  maxLength: number;
  /** Bytes of the model's files. */
  weightBytes: number;
  device: {
    name: string;
    api: string;
    /** Whether the adapter runs on the CPU. */
    software: boolean;
    capabilities: Record<string, number | boolean>;
  };
}

/** A prompt: a text, a chat, or tokens. */
export type Prompt =
  | { text: string }
  /** The JSON of a chat. */
  | { chat: string }
  | { tokens: Uint32Array };

/** An event of a request. */
export type RequestEvent =
  /** The prompt's tokens have been counted. */
  | { type: "prompt"; tokens: number }
  /** A part of the prompt has been computed. */
  | { type: "prefill"; done: number; total: number }
  /** A token was sampled: `characters` begin in it, without those of special tokens, which the text leaves out. */
  | { type: "token"; token: number; characters: number; score: TokenLogprob | null }
  /** Complete text, which may lag behind the tokens. */
  | { type: "text"; text: string }
  /** A thought of the model before its answer. */
  | { type: "reasoning"; text: string }
  /** A part of a call of a tool: the first part has its name. */
  | { type: "call"; index: number; name: string | null; arguments: string }
  /** A stop string ends the request. */
  | { type: "stop" }
  /** The request has ended. */
  | { type: "end"; reason: "stop" | "length" | "cancelled"; cached_tokens: number; reasoning_tokens: number };

/** The embeddings of a request. */
export interface Vectors {
  /** The number of tokens of all inputs. */
  tokens: number;
  /** One for each input. */
  vectors: Float32Array[];
}

/** Bytes in use. */
export interface Memory {
  /** Currently on the model's device. */
  gpu: number;
  /** The peak on it. */
  gpuPeak: number;
  /** Of the WebAssembly module; models on the CPU are within it. */
  wasm: number;
}

/** An event of a call before it ends. */
export type Emit = (event: unknown) => void;

let module: Promise<unknown> | undefined;

/** Ends with the last load on this thread. Loads run one after the other: see `device` of gpu.ts. */
let lastLoad: Promise<unknown> = Promise.resolve();

/** Returns where a model runs, with the GPU prepared for it. */
async function choose({ device = "auto", baseline = false }: EngineOptions, onWarning: (warning: WispError) => void): Promise<"webgpu" | "cpu"> {
  if (device === "cpu") return device;
  if (device !== "auto" && device !== "webgpu") throw new WispError("InvalidRequest", `device is ${JSON.stringify(device)}: use "auto", "webgpu" or "cpu"`);
  try {
    await prepare(baseline, device === "webgpu");
    return "webgpu";
  } catch (error) {
    const { code, message } = WispError.from(error);
    if (device === "webgpu" || code !== "NoWebGpu") throw error;
    onWarning(new WispError(code, `${message}: the model runs on the CPU, slower than on a GPU`));
    return "cpu";
  }
}

/** The engine, in a worker or on the page's thread. Its methods are called by name. */
export class Core {
  private model: Model | undefined;
  /** The model's GPU. */
  private gpu: GPUDevice | undefined;
  private readonly requests = new Set<{ canceller: Canceller; ended: Promise<unknown> }>();

  /** The methods that may be called. */
  readonly calls: Record<string, (args: any, emit: Emit, signal: AbortSignal) => Promise<unknown>> = {
    load: (args, emit, signal) => this.load(args.model, args.options, emit, signal),
    generate: (args, emit, signal) => this.generate(args.prompt, args.options, emit, signal),
    embed: (args, _, signal) => this.request(signal, (model, canceller) => model.embed(args.inputs, canceller)),
    encode: async (args) => this.loaded().encode(args.text, args.special),
    decode: async (args) => this.loaded().decode(args.tokens),
    tune: (args, _, signal) => this.tune(args, signal),
    bench: async (args, _, signal) => JSON.parse(await this.request(signal, (model, canceller) => model.bench(JSON.stringify(args), canceller))),
    memory: () => this.memory(),
    unload: () => this.unload(),
  };

  private load(model: ModelSource, options: EngineOptions, emit: Emit, signal: AbortSignal): Promise<ModelInfo> {
    const load = lastLoad.then(() => this.loadAlone(model, options, emit, signal));
    lastLoad = load.catch(() => {});
    return load;
  }

  private async loadAlone(model: ModelSource, given: EngineOptions, emit: Emit, signal: AbortSignal): Promise<ModelInfo> {
    check(signal);
    const { cache = "prefer", ...options } = given;
    let progress: LoadProgress = { phase: "starting", loaded: 0, total: 0 };
    const tell = (news: Partial<LoadProgress>) => emit({ progress: (progress = { ...progress, ...news }) });
    tell({});
    const onWarning = (warning: WispError) => emit({ warning: { code: warning.code, message: warning.message } });
    const chosen = await choose(options, onWarning);
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
    let isTold = false;
    const onWhole = (loaded: number, total: number) => {
      // Smaller files are never resumed.
      if (loaded > CHUNK && !isTold) {
        onWarning(new WispError("NotResumable", "the server sends the model only as a whole: a download that breaks begins again"));
        isTold = true;
      }
      tell({ phase: "downloading", loaded, total });
    };
    const files = await open(model, { signal, cache, onOrigin, onWarning, onWhole });
    if (progress.loaded > 0) tell({ phase: "opening", loaded: 0, total: 0 });
    let failure: unknown;
    const watched = files.weights.map((file) => ({
      name: file.name,
      size: file.size,
      // The engine would pass on only the message of the error.
      read: (start: number, end: number) => file.read(start, end).catch((error: unknown) => {
        failure ??= error;
        throw error;
      }),
    }));
    const gpu = () => (chosen === "webgpu" ? device() : undefined);
    const canceller = new Canceller();
    const cancel = () => canceller.cancel();
    signal.addEventListener("abort", cancel);
    try {
      const name = files.name;
      const onProgress = (loaded: number, total: number) => tell({ loaded, total });
      const onNote = (code: WispErrorCode, text: string) => onWarning(new WispError(code, text));
      const model = await Model.load(watched, files.texts, JSON.stringify({ name, ...options, device: chosen }), canceller, onProgress, onNote);
      tell({ phase: "compiling" });
      await compiled().catch((error: unknown) => {
        model.free();
        throw error;
      });
      this.model = model;
    } catch (error) {
      gpu()?.destroy();
      throw failure ?? error;
    } finally {
      signal.removeEventListener("abort", cancel);
      canceller.free();
      await Promise.all(files.weights.map((file) => file.close()));
    }
    const info: ModelInfo = JSON.parse(this.model.info());
    this.gpu = gpu();
    void this.gpu?.lost.then(({ reason, message }) => {
      if (this.model) emit({ lost: message || reason });
    });
    tell({ phase: "ready" });
    return info;
  }

  private loaded(): Model {
    if (!this.model) throw new WispError("InvalidRequest", "no model is loaded");
    return this.model;
  }

  private tokens(model: Model, prompt: { text: string } | { tokens: Uint32Array }): Uint32Array {
    return "tokens" in prompt ? prompt.tokens : model.encode(prompt.text, true);
  }

  /** Returns what a call returns, which the signal or an unload ends. */
  private async request<T>(signal: AbortSignal, call: (model: Model, canceller: Canceller) => Promise<T>): Promise<T> {
    check(signal);
    const model = this.loaded();
    const canceller = new Canceller();
    const cancel = () => canceller.cancel();
    signal.addEventListener("abort", cancel);
    const answer = call(model, canceller);
    const request = { canceller, ended: answer.catch(() => {}) };
    this.requests.add(request);
    try {
      return await answer;
    } finally {
      this.requests.delete(request);
      signal.removeEventListener("abort", cancel);
      canceller.free();
    }
  }

  private async tune(args: object, signal: AbortSignal): Promise<unknown> {
    const report = await this.request(signal, (model, canceller) => model.tune(JSON.stringify(args), canceller));
    // One that was stopped reports what it has measured so far.
    check(signal);
    return JSON.parse(report);
  }

  private async generate(prompt: Prompt, options: string, emit: Emit, signal: AbortSignal): Promise<void> {
    check(signal);
    const tokens = "chat" in prompt ? undefined : this.tokens(this.loaded(), prompt);
    const tell = (event: RequestEvent) => emit(event);
    if (tokens) tell({ type: "prompt", tokens: tokens.length });
    let cancelled = false;
    const take = (json: string) => {
      const event: RequestEvent = JSON.parse(json);
      cancelled ||= event.type === "end" && event.reason === "cancelled";
      tell(event);
    };
    await this.request(signal, (model, canceller) => "chat" in prompt
      ? model.answer(prompt.chat, options, canceller, take)
      : model.generate(tokens!, options, canceller, take));
    if (cancelled) throw new WispError("Aborted", "stopped");
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
