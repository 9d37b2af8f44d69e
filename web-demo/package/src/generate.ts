import type { Caller } from "./caller.js";
import type { Prompt, RequestEvent } from "./core.js";
import { WispError } from "./errors.js";
import type { FinishReason, GenerateParams, RequestOptions, Usage } from "./openai.js";

/** A part of a generation. */
export interface Piece {
  text: string;
  tokens: number[];
  finish: FinishReason | null;
}

/** Converts OpenAI's parameters to those of the engine. */
function engineOptions(params: GenerateParams & { max_completion_tokens?: number | null }): object {
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
    seed: params.seed ?? (temperature > 0 ? Math.floor(Math.random() * 2 ** 32) : 0),
    maxTokens: params.max_completion_tokens ?? params.max_tokens,
    stop,
    ignoreEos: params.ignore_eos,
  };
  return Object.fromEntries(Object.entries(options).filter(([, value]) => value != null));
}

/** A generation: its parts as they are generated, and the token usage at the end. */
export class Generation {
  readonly id: string;
  readonly created = Math.floor(Date.now() / 1000);
  private promptTokens = 0;
  private completionTokens = 0;
  /** Tokens without text so far. */
  private readonly tokens: number[] = [];

  constructor(
    private readonly caller: Caller,
    kind: string,
    private readonly prompt: Prompt,
    private readonly params: GenerateParams,
    private readonly request: RequestOptions,
  ) {
    this.id = `${kind}-${crypto.randomUUID().replaceAll("-", "")}`;
  }

  get usage(): Usage {
    return {
      prompt_tokens: this.promptTokens,
      completion_tokens: this.completionTokens,
      total_tokens: this.promptTokens + this.completionTokens,
    };
  }

  /** Joins all parts. */
  async whole(): Promise<Piece> {
    const whole: Piece = { text: "", tokens: [], finish: null };
    for await (const { text, tokens, finish } of this.pieces()) {
      whole.text += text;
      whole.tokens.push(...tokens);
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
    const args = { prompt: this.prompt, options: engineOptions(this.params) };
    this.caller.call("generate", args, emit, controller.signal).then(
      () => (ended = {}),
      (error: unknown) => (ended = { error: WispError.from(error) }),
    ).finally(() => wake());
    try {
      for (;;) {
        const piece = queue.shift();
        if (piece) yield piece;
        else if (ended) break;
        else await new Promise<void>((resolve) => (wake = resolve));
      }
      if (ended.error) throw ended.error;
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
        break;
      case "text":
        queue.push({ text: event.text, tokens: this.tokens.splice(0), finish: null });
        break;
      case "end":
        queue.push({ text: "", tokens: this.tokens.splice(0), finish: event.reason === "cancelled" ? null : event.reason });
        break;
    }
  }
}
