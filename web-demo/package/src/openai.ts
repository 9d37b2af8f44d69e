// The request and response objects of OpenAI's interface, as far as Wisp speaks it.

/** A turn of a conversation. */
export interface ChatMessage {
  role: "system" | "user" | "assistant" | "tool";
  content: string;
  [key: string]: unknown;
}

/** How tokens are drawn and when they end. */
export interface GenerateParams {
  /** 0, the default, is greedy: always the likeliest token, the same on every device. */
  temperature?: number | null;
  top_p?: number | null;
  /** Not OpenAI's: draw from the k likeliest; 0 is all. */
  top_k?: number;
  /** Not OpenAI's: leave out what is less than so many times as likely as the likeliest. */
  min_p?: number;
  /** Not OpenAI's: above 1, tokens that were seen become less likely. */
  repetition_penalty?: number;
  presence_penalty?: number | null;
  frequency_penalty?: number | null;
  logit_bias?: Record<string, number> | null;
  /** The same seed draws the same tokens; a random one unless given. */
  seed?: number | null;
  max_tokens?: number | null;
  stop?: string | string[] | null;
  /** Not OpenAI's: go on after tokens that end a text. */
  ignore_eos?: boolean;
  /** vLLM's: tell the tokens too, as `token_ids` of each choice. */
  return_token_ids?: boolean | null;
  n?: 1 | null;
  model?: string;
  stream_options?: { include_usage?: boolean } | null;
  user?: string;
}

export interface ChatParams extends GenerateParams {
  messages: ChatMessage[];
  max_completion_tokens?: number | null;
  /** Not OpenAI's: control tokens that messages spell, such as `<|im_end|>`, become such tokens; they are plain text
   *  unless this is true. */
  allow_control_tokens?: boolean;
  stream?: boolean | null;
}

export interface CompletionParams extends GenerateParams {
  /** A text, or its tokens. */
  prompt: string | number[];
  stream?: boolean | null;
  echo?: boolean | null;
}

export interface EmbeddingParams {
  /** A text or several, or their tokens. */
  input: string | string[] | number[] | number[][];
  model?: string;
  encoding_format?: "float";
}

/** What may be given beside the request. */
export interface RequestOptions {
  signal?: AbortSignal;
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
}

export type FinishReason = "stop" | "length";

export interface ChatCompletion {
  id: string;
  object: "chat.completion";
  created: number;
  model: string;
  choices: [{
    index: 0;
    message: { role: "assistant"; content: string; refusal: null };
    logprobs: null;
    finish_reason: FinishReason;
    token_ids?: number[];
  }];
  usage: Usage;
}

export interface ChatCompletionChunk {
  id: string;
  object: "chat.completion.chunk";
  created: number;
  model: string;
  choices: {
    index: 0;
    delta: { role?: "assistant"; content?: string };
    logprobs: null;
    finish_reason: FinishReason | null;
    token_ids?: number[];
  }[];
  /** With the last chunk, if `stream_options.include_usage` asks for it. */
  usage?: Usage | null;
}

export interface Completion {
  id: string;
  object: "text_completion";
  created: number;
  model: string;
  choices: { index: 0; text: string; logprobs: null; finish_reason: FinishReason | null; token_ids?: number[] }[];
  /** Of what is streamed only with the last piece, and only if `stream_options.include_usage` asks for it. */
  usage?: Usage | null;
}

export interface Embeddings {
  object: "list";
  model: string;
  data: { object: "embedding"; index: number; embedding: number[] }[];
  usage: { prompt_tokens: number; total_tokens: number };
}
