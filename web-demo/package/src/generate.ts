import type { Caller } from "./caller.js";
import type { Prompt, RequestEvent } from "./core.js";
import { check, json, WispError } from "./errors.js";
import type {
  ChatParams, CompletionParams, FinishReason, RequestOptions, ResponseFormat, TokenLogprob, ToolCall, ToolCallDelta, Usage,
} from "./openai.js";

/** A part of a generation. */
export interface Piece {
  text: string;
  /** Text of the model's thoughts before its answer. */
  reasoning: string;
  /** Parts of calls of tools. */
  calls: ToolCallDelta[];
  tokens: number[];
  /** Where each token begins in the text, in characters. */
  offsets: number[];
  /** The log-probabilities of the tokens, if requested. */
  scores: TokenLogprob[];
  finish: FinishReason | null;
}

type Params = Omit<ChatParams, "messages"> | Omit<CompletionParams, "prompt">;

/** Parameters that change answers and are not supported, each with values that change nothing, beside empty ones. */
const UNSUPPORTED: Record<string, unknown[]> = {
  add_generation_prompt: [true], allowed_token_ids: [], bad_words: [], best_of: [1], continue_final_message: [],
  dimensions: [], documents: [], encoding_format: ["float"], function_call: ["none", "auto"],
  functions: [], grammar: [], guided_choice: [], guided_grammar: [], guided_json: [], guided_regex: [],
  include_stop_str_in_output: [], json_schema: [], min_tokens: [], prediction: [], prompt_logprobs: [],
  suffix: [], thinking_budget: [], truncate_prompt_tokens: [], use_beam_search: [],
};

/** Those of which an empty value means something. */
const NEVER_EMPTY = ["add_generation_prompt", "dimensions", "guided_json", "json_schema", "prompt_logprobs", "thinking_budget"];

const isEmpty = (value: unknown) => !value || (typeof value === "object" && Object.keys(value).length === 0);

/** Refuses parameters that are not supported. */
export function refuse(params: object): void {
  for (const [name, value] of Object.entries(params)) {
    if (value == null || !Object.hasOwn(UNSUPPORTED, name) || UNSUPPORTED[name]!.includes(value)) continue;
    if (!NEVER_EMPTY.includes(name) && isEmpty(value)) continue;
    throw new WispError("InvalidRequest", `${name} is not supported`);
  }
}

/** Returns a seed in 32 bits as `wisp serve` does: -1 is drawn, and what does not fit is hashed. */
function seedOf(seed: number | null | undefined, temperature: number): number {
  if (seed == null || seed === -1) return temperature > 0 ? Math.floor(Math.random() * 2 ** 32) : 0;
  if (!Number.isInteger(seed) || Math.abs(seed) >= 2 ** 63) {
    throw new WispError("InvalidRequest", "seed must be an integer of 64 bits");
  }
  if (seed >= 0 && seed < 2 ** 32) return seed;
  return Number(BigInt.asUintN(64, BigInt(seed) * 0x9e3779b97f4a7c15n) >> 32n);
}

/** Returns the number of most likely tokens to score; undefined without log-probabilities. */
function scored(params: Params): number | undefined {
  const { logprobs } = params;
  if (typeof logprobs === "number") {
    if ("echo" in params && params.echo) throw new WispError("InvalidRequest", "logprobs cannot be combined with echo");
    return logprobs;
  }
  const top = "top_logprobs" in params ? params.top_logprobs : undefined;
  if (!logprobs && top != null) throw new WispError("InvalidRequest", "top_logprobs needs logprobs: true");
  return logprobs ? top ?? 0 : undefined;
}

/** Returns the JSON Schema of a response format, whose type promises one. */
function schemaOf({ json_schema }: Extract<ResponseFormat, { type: "json_schema" }>): object | boolean {
  const schema: unknown = json_schema?.schema;
  if (typeof schema === "boolean" || (typeof schema === "object" && schema !== null && !Array.isArray(schema))) return schema;
  throw new WispError("InvalidRequest", "response_format.json_schema.schema must be a JSON Schema");
}

/** Returns what the answer must match, in the engine's form; undefined if it is free. */
function constraint(params: Params): object | undefined {
  const { response_format: format, structured_outputs: outputs } = params;
  const given: object[] = [];
  if (format?.type === "json_object") given.push({ jsonObject: true });
  else if (format?.type === "json_schema") given.push({ jsonSchema: schemaOf(format) });
  else if (format != null && format.type !== "text") {
    throw new WispError("InvalidRequest", "response_format.type must be text, json_object or json_schema");
  }
  if (outputs?.json != null) given.push({ jsonSchema: outputs.json });
  if (outputs?.json_object) given.push({ jsonObject: true });
  if (outputs?.regex != null) given.push({ regex: outputs.regex });
  if (outputs?.choice != null) given.push({ choices: outputs.choice });
  if (outputs?.grammar != null) given.push({ grammar: outputs.grammar });
  if (given.length > 1) {
    throw new WispError("InvalidRequest", "an answer can match one of response_format and structured_outputs only");
  }
  return given[0];
}

/** Converts OpenAI's parameters to those of the engine. */
function engineOptions(params: Params): object {
  refuse(params);
  if (params.n != null && params.n !== 1) throw new WispError("InvalidRequest", "n must be 1");
  const temperature = params.temperature ?? 0;
  const stop = typeof params.stop === "string" ? [params.stop] : params.stop ?? [];
  const options = {
    temperature,
    topP: params.top_p,
    topK: params.top_k,
    minP: params.min_p,
    repetitionPenalty: params.repetition_penalty,
    presencePenalty: params.presence_penalty,
    frequencyPenalty: params.frequency_penalty,
    logitBias: params.logit_bias && Object.entries(params.logit_bias).map(([id, bias]) => [Number(id), bias]),
    seed: seedOf(params.seed, temperature),
    logProbs: scored(params),
    maxTokens: ("max_completion_tokens" in params ? params.max_completion_tokens : undefined) ?? params.max_tokens,
    stop,
    stopTokens: params.stop_token_ids,
    ignoreEos: params.ignore_eos,
    constraint: constraint(params),
  };
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value != null));
}

/** Joins the parts of calls. */
export function joined(parts: ToolCallDelta[]): ToolCall[] {
  const calls: ToolCall[] = [];
  for (const { index, id, function: { name, arguments: more } } of parts) {
    const call = calls[index];
    if (call) call.function.arguments += more;
    else calls[index] = { id: id ?? "", type: "function", function: { name: name ?? "", arguments: more } };
  }
  return calls;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** A generation: its parts as they are generated, and the token usage at the end. */
export class Generation {
  readonly id: string;
  readonly created = Math.floor(Date.now() / 1000);
  private promptTokens = 0;
  private completionTokens = 0;
  private cachedTokens = 0;
  private reasoningTokens = 0;
  /** Whether a stop string has ended it. */
  private stopped = false;
  /** The arguments of the last call so far, if there is one. */
  private arguments: string | undefined;
  /** Where the next token begins in the text, in characters. */
  private length = 0;
  /** Tokens without text so far, their offsets in the text, and their log-probabilities. */
  private readonly tokens: number[] = [];
  private readonly offsets: number[] = [];
  private readonly scores: TokenLogprob[] = [];
  /** The JSON of the engine's options. */
  private readonly options: string;

  /** Throws if a parameter is invalid or not supported. */
  constructor(
    private readonly caller: Caller,
    kind: string,
    private readonly prompt: Prompt,
    private readonly params: Params,
    private readonly request: RequestOptions,
  ) {
    this.options = json(engineOptions(params));
    this.id = `${kind}-${crypto.randomUUID().replaceAll("-", "")}`;
  }

  get usage(): Usage {
    return {
      prompt_tokens: this.promptTokens,
      completion_tokens: this.completionTokens,
      total_tokens: this.promptTokens + this.completionTokens,
      prompt_tokens_details: { cached_tokens: this.cachedTokens },
      completion_tokens_details: { reasoning_tokens: this.reasoningTokens },
    };
  }

  /** Joins all parts. */
  async whole(): Promise<Piece> {
    const whole: Piece = { text: "", reasoning: "", calls: [], tokens: [], offsets: [], scores: [], finish: null };
    for await (const { text, reasoning, calls, tokens, offsets, scores, finish } of this.pieces()) {
      whole.text += text;
      whole.reasoning += reasoning;
      whole.calls.push(...calls);
      whole.tokens.push(...tokens);
      whole.offsets.push(...offsets);
      whole.scores.push(...scores);
      whole.finish = finish ?? whole.finish;
    }
    return whole;
  }

  async *pieces(): AsyncGenerator<Piece, void> {
    const controller = new AbortController();
    const stop = () => controller.abort();
    const signal = this.request.signal;
    if (signal?.aborted) stop();
    signal?.addEventListener("abort", stop);
    const queue: Piece[] = [];
    let wake = () => {};
    let ended: { error?: unknown } | undefined;
    const emit = (event: unknown) => {
      this.take(event as RequestEvent, queue);
      wake();
    };
    const args = { prompt: this.prompt, options: this.options };
    this.caller.call("generate", args, emit, controller.signal).then(
      () => (ended = {}),
      (error: unknown) => (ended = { error: WispError.from(error) }),
    ).finally(() => wake());
    try {
      for (;;) {
        // What was received before a signal is not given out after it.
        const piece = signal?.aborted ? undefined : queue.shift();
        if (piece) yield piece;
        else if (ended) break;
        else await new Promise<void>((resolve) => (wake = resolve));
      }
      if (ended.error) throw ended.error;
      if (queue.length > 0) check(signal);
    } finally {
      // The request is cancelled when the consumer stops reading.
      if (!ended) stop();
      signal?.removeEventListener("abort", stop);
    }
  }

  private take(event: RequestEvent, queue: Piece[]): void {
    switch (event.type) {
      case "prompt":
        this.promptTokens = event.tokens;
        break;
      case "token":
        this.completionTokens += 1;
        this.tokens.push(event.token);
        this.offsets.push(this.length);
        this.length += event.characters;
        if (event.score) this.scores.push(event.score);
        break;
      case "text":
        queue.push(this.piece({ text: event.text }));
        break;
      case "reasoning":
        queue.push(this.piece({ reasoning: event.text }));
        break;
      case "call":
        queue.push(this.piece({ calls: [this.call(event)] }));
        break;
      case "stop":
        this.stopped = true;
        break;
      case "end":
        this.cachedTokens = event.cached_tokens;
        this.reasoningTokens = event.reasoning_tokens;
        queue.push(this.piece({ finish: this.finish(event.reason) }));
        break;
    }
  }

  /** Returns OpenAI's name of the reason for an end; a call of a tool that the request names ends with `stop`. */
  private finish(reason: "stop" | "length" | "cancelled"): FinishReason | null {
    if (reason === "cancelled") return null;
    // A stop string may have cut the last call.
    const called = this.arguments !== undefined && !(this.stopped && !isJson(this.arguments));
    const choice = ("tool_choice" in this.params ? this.params.tool_choice : undefined) ?? "auto";
    return reason === "stop" && called && typeof choice !== "object" ? "tool_calls" : reason;
  }

  private call({ index, name, arguments: more }: Extract<RequestEvent, { type: "call" }>): ToolCallDelta {
    this.arguments = name === null ? (this.arguments ?? "") + more : more;
    if (name === null) return { index, function: { arguments: more } };
    return { index, id: `call_${crypto.randomUUID().replaceAll("-", "")}`, type: "function", function: { name, arguments: more } };
  }

  private piece(part: Partial<Piece>): Piece {
    const { text = "", reasoning = "", calls = [], finish = null } = part;
    const [tokens, offsets, scores] = [this.tokens.splice(0), this.offsets.splice(0), this.scores.splice(0)];
    return { text, reasoning, calls, tokens, offsets, scores, finish };
  }
}
