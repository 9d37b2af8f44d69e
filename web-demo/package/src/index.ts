import { models, type StoredFile } from "./cache.js";
import { type Caller, DirectCaller, WorkerCaller } from "./caller.js";
import type { EngineOptions, LoadProgress, Memory, ModelInfo, Tuning, Vectors } from "./core.js";
import { json, WispError, type WispErrorCode } from "./errors.js";
import { Generation, joined, refuse } from "./generate.js";
import type {
  AnswerMessage, ChatCompletion, ChatCompletionChunk, ChatLogprobs, ChatMessage, ChatParams, Completion, CompletionLogprobs, CompletionParams,
  EmbeddingParams, Embeddings, FinishReason, GenerateParams, RequestOptions, TokenLogprob, Usage,
} from "./openai.js";
import { type HubSource, type ModelSource, resolved } from "./source.js";

export * from "./openai.js";
export { WispError, models };
export type { EngineOptions, HubSource, LoadProgress, Memory, ModelInfo, ModelSource, StoredFile, Tuning, WispErrorCode };

/** The options of loading a model. */
export interface LoadOptions extends EngineOptions {
  /** The model. Default: the small one that is built into this package. */
  model?: ModelSource;
  /** Called with the progress. */
  onProgress?: (progress: LoadProgress) => void;
  /** Called with errors that do not stop the load, such as a full storage. */
  onWarning?: (warning: WispError) => void;
  /** Cancels the load. */
  signal?: AbortSignal;
  /** Whether the engine runs in a worker. Default: true. An app whose bundles are on another origin gives the address of the
   *  package's `worker.js`, which bundlers rename, or a worker that runs it. A worker serves one model, and ends with it. */
  worker?: boolean | Worker | string | URL;
}

/** The options of a benchmark. */
export interface BenchOptions {
  /** Tokens of the prompt. Default: 32. */
  promptTokens?: number;
  /** Tokens to generate. Default: 32. */
  newTokens?: number;
  /** Number of runs. Default: 3. */
  runs?: number;
}

/** Tokens per second over all runs. */
export interface Rate {
  tokens: number;
  median: number;
  least: number;
  most: number;
}

/** The speed of a model. */
export interface BenchReport {
  prefill: Rate;
  decode: Rate;
}

/** What a tuning measured. */
export interface TuneReport {
  /** Which kernels to use from now on: pass it to `Wisp.load`. */
  tuning: Tuning;
  /** The number of measurements in which another kernel beat the default by more than the noise. */
  changed: number;
  /** The number of measurements that did not fit the time. */
  leftOut: number;
  /** The measurements as a text, to be sent in. */
  table: string;
  /** The measurements. */
  points: {
    op: string;
    sizes: string;
    default: string;
    chosen: string;
    seconds: number;
    variants: { kernel: string; ratio: { ratio: number; noise: number } | null; problem: string | null }[];
  }[];
}

/** Returns the text of a message's content. Each part begins a line: clients that split a text into parts mean separate texts. */
function contentText(content: ChatMessage["content"]): string {
  if (!Array.isArray(content)) return content ?? "";
  const texts = content.map((part) => {
    if (part?.type === "text" && typeof part.text === "string") return part.text;
    throw new WispError("InvalidRequest", `the content of a message may have parts of type text only, not of type ${part?.type}`);
  });
  return texts.filter((text) => text !== "").join("\n");
}

/** Returns messages as templates read them: each with a role that they know and a text. */
function filled(messages: ChatMessage[]): ChatMessage[] {
  if (!Array.isArray(messages) || messages.some((message) => message === null || typeof message !== "object")) {
    throw new WispError("InvalidRequest", "messages must be a list of messages");
  }
  return messages.map((message) => {
    const role = message.role === "developer" ? "system" : message.role;
    return { ...message, role, content: contentText(message.content) };
  });
}

const isToken = (value: unknown) => Number.isInteger(value) && Number(value) >= 0 && Number(value) < 2 ** 32;

/** The most new tokens of a completion that says nothing about them, as in OpenAI's API. */
const COMPLETION_TOKENS = 16;

/** Returns the prompt of a completion, which may be the only one of a list. */
function onlyPrompt(given: unknown): string | number[] {
  const isList = Array.isArray(given) && (typeof given[0] === "string" || Array.isArray(given[0]));
  if (isList && given.length > 1) {
    throw new WispError("InvalidRequest", "several prompts are not supported: send one request for each");
  }
  const prompt: unknown = isList ? given[0] : given;
  if (typeof prompt === "string") return prompt;
  if (Array.isArray(prompt) && prompt.every(isToken)) return prompt;
  throw new WispError("InvalidRequest", "prompt must be a text or a list of tokens, which are integers from 0 to 4294967295");
}

type ChatDelta = ChatCompletionChunk["choices"][0]["delta"];

const withTokens = (params: GenerateParams, token_ids: number[]) => (params.return_token_ids ? { token_ids } : {});

const chatLogprobs = (params: ChatParams, content: TokenLogprob[]): ChatLogprobs | null =>
  params.logprobs ? { content, refusal: null } : null;

/** The log-probabilities of a completion's tokens, which begin at `text_offset`. */
function completionLogprobs(params: CompletionParams, scores: TokenLogprob[], text_offset: number[]): CompletionLogprobs | null {
  if (params.logprobs == null) return null;
  return {
    tokens: scores.map(({ token }) => token),
    token_logprobs: scores.map(({ logprob }) => logprob),
    top_logprobs: scores.map(({ top_logprobs }) => Object.fromEntries(top_logprobs.map(({ token, logprob }) => [token, logprob]))),
    text_offset,
  };
}

/** A loaded model. */
export class Wisp {
  /** Resolves when the GPU is lost; the engine must then be loaded again. Never rejects. */
  readonly lost: Promise<WispError>;
  private readonly tellLost: (error: WispError) => void;

  private constructor(private readonly caller: Caller, private known: ModelInfo | undefined) {
    let tell: (error: WispError) => void = () => {};
    this.lost = new Promise((resolve) => (tell = resolve));
    this.tellLost = tell;
  }

  /** Loads a model. */
  static async load(options: LoadOptions = {}): Promise<Wisp> {
    const { model = "inside", onProgress, onWarning, signal, worker = true, ...engine } = options;
    let caller: Caller | undefined;
    try {
      caller = worker ? new WorkerCaller(worker === true ? undefined : worker) : await DirectCaller.create();
      const wisp = new Wisp(caller, undefined);
      const emit = (event: any) => {
        if (event.progress) onProgress?.(event.progress);
        if (event.warning) onWarning?.(new WispError(event.warning.code, event.warning.message));
        if (event.lost) wisp.tellLost(new WispError("DeviceLost", event.lost));
      };
      wisp.known = await caller.call<ModelInfo>("load", { model: resolved(model), options: JSON.parse(json(engine)) }, emit, signal);
      return wisp;
    } catch (error) {
      caller?.close();
      throw WispError.from(error);
    }
  }

  /** The model files in the browser's storage. */
  static readonly models = models;

  /** The description of the model. */
  get info(): ModelInfo {
    return this.known!;
  }

  readonly chat = { completions: { create: this.createChat.bind(this) as ChatCreate } };
  readonly completions = { create: this.createCompletion.bind(this) as CompletionCreate };
  readonly embeddings = { create: this.createEmbeddings.bind(this) };

  /** Tokenizes a text. `special` adds special tokens such as BOS, as in a prompt. */
  async tokenize(text: string, { special = false } = {}): Promise<number[]> {
    return Array.from(await this.caller.call<Uint32Array>("encode", { text, special }));
  }

  /** Returns the text of tokens. */
  async detokenize(tokens: number[]): Promise<string> {
    return this.caller.call("decode", { tokens: Uint32Array.from(tokens) });
  }

  /** Measures the speed of the model. */
  async bench(
    { promptTokens = 32, newTokens = 32, runs = 3 }: BenchOptions = {}, { signal }: RequestOptions = {},
  ): Promise<BenchReport> {
    return this.caller.call("bench", { promptTokens, newTokens, runs }, undefined, signal);
  }

  /** Measures which kernels are fastest on this GPU, for about `seconds` (default: 30). Other requests wait meanwhile. */
  async tune({ seconds = 30 }: { seconds?: number } = {}, { signal }: RequestOptions = {}): Promise<TuneReport> {
    return this.caller.call("tune", { seconds }, undefined, signal);
  }

  /** Returns the memory in use, in bytes. */
  async memory(): Promise<Memory> {
    return this.caller.call("memory");
  }

  /** Cancels all requests and frees the memory of the GPU. */
  async unload(): Promise<void> {
    await this.caller.call("unload").catch(() => {});
    this.caller.close();
  }

  private async createChat(params: ChatParams, request: RequestOptions = {}): Promise<unknown> {
    const { tools, tool_choice, parallel_tool_calls, reasoning_effort } = params;
    const chat = {
      messages: filled(params.messages), tools, tool_choice, parallel_tool_calls, reasoning_effort,
      chat_template_kwargs: params.chat_template_kwargs ?? {}, control_tokens: params.allow_control_tokens ?? false,
    };
    const run = new Generation(this.caller, "chatcmpl", { chat: json(chat) }, params, request);
    if (params.stream) return this.chatChunks(run, params);
    const { text, reasoning, calls, finish, tokens, scores } = await run.whole();
    const message: AnswerMessage = {
      role: "assistant", content: text || calls.length === 0 ? text : null, refusal: null,
      ...(reasoning ? { reasoning_content: reasoning } : {}),
      ...(calls.length > 0 ? { tool_calls: joined(calls) } : {}),
    };
    return {
      id: run.id, object: "chat.completion", created: run.created, model: this.info.name,
      choices: [{
        index: 0, message, logprobs: chatLogprobs(params, scores), finish_reason: finish ?? "length",
        ...withTokens(params, tokens),
      }],
      usage: run.usage,
    } satisfies ChatCompletion;
  }

  private async *chatChunks(run: Generation, params: ChatParams): AsyncGenerator<ChatCompletionChunk> {
    const withUsage = params.stream_options?.include_usage === true;
    const head = {
      id: run.id, object: "chat.completion.chunk" as const, created: run.created, model: this.info.name,
      ...(withUsage ? { usage: null } : {}),
    };
    const chunk = (
      delta: ChatDelta, finish: FinishReason | null, tokens: number[] = [], scores: TokenLogprob[] = [],
    ): ChatCompletionChunk => ({
      ...head,
      choices: [{
        index: 0, delta, logprobs: scores.length > 0 ? chatLogprobs(params, scores) : null, finish_reason: finish,
        ...withTokens(params, tokens),
      }],
    });
    yield chunk({ role: "assistant", content: "" }, null);
    for await (const { text, reasoning, calls, finish, tokens, scores } of run.pieces()) {
      if (reasoning) yield chunk({ reasoning_content: reasoning }, null, tokens, scores);
      else if (calls.length > 0) yield chunk({ tool_calls: calls }, null, tokens, scores);
      else if (text || tokens.length > 0) yield chunk({ content: text }, null, tokens, scores);
      if (finish) yield chunk({}, finish);
    }
    if (withUsage) yield { ...head, choices: [], usage: run.usage };
  }

  private async createCompletion(params: CompletionParams, request: RequestOptions = {}): Promise<unknown> {
    const prompt = onlyPrompt(params.prompt);
    const given = typeof prompt === "string" ? { text: prompt } : { tokens: Uint32Array.from(prompt) };
    const limited = { ...params, max_tokens: params.max_tokens ?? COMPLETION_TOKENS };
    const run = new Generation(this.caller, "cmpl", given, limited, request);
    const echo = !params.echo ? "" : typeof prompt === "string" ? prompt : await this.detokenize(prompt);
    if (params.stream) return this.completionPieces(run, params, echo);
    const { text, finish, tokens, offsets, scores } = await run.whole();
    const logprobs = completionLogprobs(params, scores, offsets);
    return { ...this.completion(run, params, echo + text, finish ?? "length", tokens, logprobs), usage: run.usage };
  }

  private completion(
    run: Generation, params: CompletionParams, text: string, finish: FinishReason | null, tokens: number[] = [],
    logprobs: CompletionLogprobs | null = null,
  ): Completion {
    return {
      id: run.id, object: "text_completion", created: run.created, model: this.info.name,
      choices: [{ index: 0, text, logprobs, finish_reason: finish, ...withTokens(params, tokens) }],
    };
  }

  private async *completionPieces(run: Generation, params: CompletionParams, echo: string): AsyncGenerator<Completion> {
    if (echo) yield this.completion(run, params, echo, null);
    for await (const { text, finish, tokens, offsets, scores } of run.pieces()) {
      const logprobs = scores.length > 0 ? completionLogprobs(params, scores, offsets) : null;
      if (text || finish || tokens.length > 0) yield this.completion(run, params, text, finish, tokens, logprobs);
    }
    if (params.stream_options?.include_usage) {
      yield { ...this.completion(run, params, "", null), choices: [], usage: run.usage };
    }
  }

  private async createEmbeddings(params: EmbeddingParams, { signal }: RequestOptions = {}): Promise<Embeddings> {
    refuse(params);
    const { input } = params;
    const inputs: unknown[] = Array.isArray(input) && typeof input[0] !== "number" ? input : [input];
    const isText = (one: unknown) => typeof one === "string";
    const isTokens = (one: unknown) => Array.isArray(one) && one.every(isToken);
    if (!inputs.every(isText) && !inputs.every(isTokens)) {
      throw new WispError("InvalidRequest", "input must be a text, a list of texts, tokens, or a list of lists of tokens");
    }
    const { tokens, vectors } = await this.caller.call<Vectors>("embed", { inputs: json(inputs) }, undefined, signal);
    return {
      object: "list",
      model: this.info.name,
      data: vectors.map((vector, index) => ({ object: "embedding", index, embedding: Array.from(vector) })),
      usage: { prompt_tokens: tokens, total_tokens: tokens },
    };
  }
}

/** `chat.completions.create`: with `stream`, an iterable of chunks. */
export interface ChatCreate {
  (params: ChatParams & { stream: true }, request?: RequestOptions): Promise<AsyncIterable<ChatCompletionChunk>>;
  (params: ChatParams & { stream?: false | null }, request?: RequestOptions): Promise<ChatCompletion>;
  (params: ChatParams, request?: RequestOptions): Promise<ChatCompletion | AsyncIterable<ChatCompletionChunk>>;
}

/** `completions.create`: with `stream`, an iterable of parts. */
export interface CompletionCreate {
  (params: CompletionParams & { stream: true }, request?: RequestOptions): Promise<AsyncIterable<Completion>>;
  (params: CompletionParams & { stream?: false | null }, request?: RequestOptions): Promise<Completion & { usage: Usage }>;
  (params: CompletionParams, request?: RequestOptions): Promise<(Completion & { usage: Usage }) | AsyncIterable<Completion>>;
}

export default Wisp;
