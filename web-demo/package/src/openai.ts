// The request and response objects of OpenAI's API that Wisp supports.

/** A part of a message. */
export interface TextPart {
  type: "text";
  text: string;
}

/** A message of a chat. */
export interface ChatMessage {
  /** `developer` is another name of `system`. */
  role: "system" | "developer" | "user" | "assistant" | "tool";
  /** The text, or parts, each of which begins a line; `null` in an answer of calls alone. */
  content: string | TextPart[] | null;
  /** The calls of an earlier answer. */
  tool_calls?: ToolCall[];
  /** The call whose result this is, of a message with the role `tool`. */
  tool_call_id?: string;
  [key: string]: unknown;
}

/** A function that the model may call. */
export interface Tool {
  type: "function";
  /** `parameters` is a JSON Schema of an object. */
  function: { name: string; description?: string; parameters?: object; strict?: boolean | null };
}

/** Whether the model must call a tool: it decides, it must not, it must, or it must call this one. */
export type ToolChoice = "auto" | "none" | "required" | { type: "function"; function: { name: string } };

/** How much a model thinks. */
export type ReasoningEffort = "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max";

/** A call of a tool by the model. */
export interface ToolCall {
  id: string;
  type: "function";
  /** `arguments` is the JSON of an object, unless the answer was cut off at its maximum length. */
  function: { name: string; arguments: string };
}

/** A part of a call: the first part has its id and name, and the arguments of all parts are joined. */
export interface ToolCallDelta {
  index: number;
  id?: string;
  type?: "function";
  function: { name?: string; arguments: string };
}

/** What an answer must be: text, any JSON object, or JSON that a JSON Schema accepts. */
export type ResponseFormat =
  | { type: "text" }
  | { type: "json_object" }
  | {
      type: "json_schema";
      /** The schema is enforced, with or without `strict`; one that cannot be enforced whole is refused. */
      json_schema: { name: string; description?: string; schema: object | boolean; strict?: boolean | null };
    };

/** What an answer must match, as in vLLM's API: exactly one of these. */
export interface StructuredOutputs {
  /** A JSON Schema. */
  json?: object | boolean | null;
  json_object?: boolean | null;
  /** A regular expression, which the whole answer matches. */
  regex?: string | null;
  /** The answers from which to choose. */
  choice?: string[] | null;
  /** A Lark grammar. */
  grammar?: string | null;
}

/** Parameters of sampling and stopping. */
export interface GenerateParams {
  /** 0, the default, is greedy: always the most likely token. It is the same on every device if the model has
   *  the `kvCacheFormat` `float32`. */
  temperature?: number | null;
  top_p?: number | null;
  /** Extension: sample from the k most likely tokens; 0 is all. */
  top_k?: number;
  /** Extension: exclude tokens whose probability is less than this fraction of the highest one. */
  min_p?: number;
  /** Extension: values above 1 make tokens of the prompt and the answer less likely. */
  repetition_penalty?: number;
  presence_penalty?: number | null;
  frequency_penalty?: number | null;
  logit_bias?: Record<string, number> | null;
  /** Equal seeds sample equal tokens. Default and -1: random. */
  seed?: number | null;
  /** The most tokens of the answer. Default: of a chat, as many as the context has room for; of a completion 16. */
  max_tokens?: number | null;
  stop?: string | string[] | null;
  /** Extension of vLLM: tokens that end the answer besides the model's own, also with `ignore_eos`. */
  stop_token_ids?: number[] | null;
  response_format?: ResponseFormat | null;
  /** Extension of vLLM: what the answer must match. */
  structured_outputs?: StructuredOutputs | null;
  /** Extension: continue after end-of-text tokens. */
  ignore_eos?: boolean;
  /** Extension of vLLM: return the tokens as `token_ids` of each choice. */
  return_token_ids?: boolean | null;
  n?: 1 | null;
  model?: string;
  stream_options?: { include_usage?: boolean } | null;
  user?: string;
}

export interface ChatParams extends GenerateParams {
  messages: ChatMessage[];
  /** Return the log-probabilities of the answer's tokens. */
  logprobs?: boolean | null;
  /** With `logprobs`: return those of this many most likely tokens too, at most 20. */
  top_logprobs?: number | null;
  max_completion_tokens?: number | null;
  /** The functions that the model may call. */
  tools?: Tool[] | null;
  /** Default: `auto`. */
  tool_choice?: ToolChoice | null;
  /** Whether an answer may have several calls. Default: true. */
  parallel_tool_calls?: boolean | null;
  /** How much the model thinks before it answers, if its chat template can tell it; `none` switches thinking off. */
  reasoning_effort?: ReasoningEffort | null;
  /** Extension: variables of the model's chat template, such as `enable_thinking`. */
  chat_template_kwargs?: Record<string, unknown> | null;
  /** Extension: parse control tokens in messages, such as `<|im_end|>`. Default: false, they are plain text. */
  allow_control_tokens?: boolean;
  stream?: boolean | null;
}

export interface CompletionParams extends GenerateParams {
  /** A text or its tokens, also as the only one of a list. */
  prompt: string | number[] | [string] | [number[]];
  stream?: boolean | null;
  echo?: boolean | null;
  /** Return the log-probabilities of the new tokens and of this many most likely ones, at most 20. Not with `echo`. */
  logprobs?: number | null;
}

export interface EmbeddingParams {
  /** One or several texts, or their tokens. */
  input: string | string[] | number[] | number[][];
  model?: string;
  encoding_format?: "float";
}

/** Options that are not part of the request. */
export interface RequestOptions {
  signal?: AbortSignal;
}

export interface Usage {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  prompt_tokens_details: {
    /** Tokens that the prefix cache held. */
    cached_tokens: number;
  };
  completion_tokens_details: {
    /** Tokens of the model's thoughts. */
    reasoning_tokens: number;
  };
}

export type FinishReason = "stop" | "length" | "tool_calls";

/** The answer of a chat. */
export type AnswerMessage = {
  role: "assistant";
  /** The text; `null` if the answer only calls tools. */
  content: string | null;
  refusal: null;
  /** Extension: the model's thoughts before its answer. */
  reasoning_content?: string;
  tool_calls?: ToolCall[];
};

/** A token and its log-probability. */
export interface Logprob {
  /** The text of the token; `bytes:…` if it is not UTF-8. */
  token: string;
  /** The natural logarithm of its probability. */
  logprob: number;
  /** The bytes of its text. */
  bytes: number[];
}

/** A token of the answer, and the most likely tokens at its position, in descending order. */
export interface TokenLogprob extends Logprob {
  top_logprobs: Logprob[];
}

/** The log-probabilities of a chat's answer. */
export interface ChatLogprobs {
  content: TokenLogprob[];
  refusal: null;
}

/** The log-probabilities of a completion: an entry for each new token. */
export interface CompletionLogprobs {
  tokens: string[];
  token_logprobs: number[];
  top_logprobs: Record<string, number>[];
  /** Where each token begins in the text, in characters (code points). Special tokens, which are not in it, take none. */
  text_offset: number[];
}

export interface ChatCompletion {
  id: string;
  object: "chat.completion";
  created: number;
  model: string;
  choices: [{
    index: 0;
    message: AnswerMessage;
    logprobs: ChatLogprobs | null;
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
    delta: { role?: "assistant"; content?: string; reasoning_content?: string; tool_calls?: ToolCallDelta[] };
    logprobs: ChatLogprobs | null;
    finish_reason: FinishReason | null;
    token_ids?: number[];
  }[];
  /** In the last chunk, if `stream_options.include_usage` is set. */
  usage?: Usage | null;
}

export interface Completion {
  id: string;
  object: "text_completion";
  created: number;
  model: string;
  choices: {
    index: 0;
    text: string;
    logprobs: CompletionLogprobs | null;
    finish_reason: FinishReason | null;
    token_ids?: number[];
  }[];
  /** In a stream only in the last part, if `stream_options.include_usage` is set. */
  usage?: Usage | null;
}

export interface Embeddings {
  object: "list";
  model: string;
  data: { object: "embedding"; index: number; embedding: number[] }[];
  usage: { prompt_tokens: number; total_tokens: number };
}
