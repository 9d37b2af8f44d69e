// A project that uses the package, which must pass all strict checks of TypeScript.
import Default, {
  models, Wisp, WispError, type ChatCompletion, type ChatMessage, type ChatParams, type CompletionParams, type LoadProgress, type Tool, type WispErrorCode,
} from "wisp-web";

export async function main(file: File): Promise<string> {
  const controller = new AbortController();
  const onProgress = ({ phase, loaded, total }: LoadProgress) => console.log(phase, loaded / total);
  const engine: Wisp = await Default.load({ model: file, onProgress, signal: controller.signal, maxLength: 512 });
  const whole: ChatCompletion = await engine.chat.completions.create({ messages: [{ role: "user", content: "Hello!" }] });
  const text: string = whole.choices[0].message.content ?? "";
  let streamed = "";
  const request = { prompt: "Once", stream: true as const, temperature: 0.5, top_p: 0.9, seed: 1, stop: ["."] };
  for await (const piece of await engine.completions.create(request, { signal: controller.signal })) {
    streamed += piece.choices[0]?.text ?? "";
  }
  await engine.completions.create({ prompt: "A year: ", structured_outputs: { regex: "[0-9]{4}" }, response_format: null });
  const json_schema = { name: "thing", schema: { type: "object" }, strict: true };
  await engine.chat.completions.create({ messages: [], response_format: { type: "json_schema", json_schema } });
  const now: Tool = { type: "function", function: { name: "now", description: "Returns the time.", parameters: { type: "object" } } };
  const messages: ChatMessage[] = [{ role: "user", content: "What time is it?" }];
  const { message, finish_reason } = (await engine.chat.completions.create({ messages, tools: [now], tool_choice: "required" })).choices[0];
  messages.push(message);
  for (const { id, function: called } of message.tool_calls ?? []) {
    messages.push({ role: "tool", tool_call_id: id, content: `${called.name}(${called.arguments}) of ${finish_reason}` });
  }
  for await (const { choices } of await engine.chat.completions.create({ messages, tools: [now], stream: true })) {
    streamed += choices[0]?.delta.tool_calls?.[0]?.function.arguments ?? choices[0]?.delta.reasoning_content ?? "";
  }
  // @ts-expect-error: an unknown choice
  engine.chat.completions.create({ messages, tools: [now], tool_choice: "always" });
  // @ts-expect-error: a schema is missing
  engine.completions.create({ prompt: "", response_format: { type: "json_schema" } });
  // @ts-expect-error: an unknown role
  engine.chat.completions.create({ messages: [{ role: "wizard", content: "" }] });
  // @ts-expect-error: no messages
  engine.chat.completions.create({});
  await engine.completions.create({ prompt: ["Once"] });
  // @ts-expect-error: several prompts
  engine.completions.create({ prompt: ["Once", "Twice"] });
  messages.push({ role: "developer", content: [{ type: "text", text: "Be kind." }] });
  const vectors: number[][] = (await engine.embeddings.create({ input: ["a", "b"] })).data.map(({ embedding }) => embedding);
  await engine.embeddings.create({ input: [[1, 2], [3]] });
  const tokens: number[] = await engine.tokenize(text);
  const rate: number = (await engine.bench({ runs: 1 })).decode.median;
  const { tuning, changed } = await engine.tune({ seconds: 5 });
  const tuned = await Wisp.load({ tuning, worker: new URL("./worker.js", "https://example.org"), cache: "check" });
  console.log(changed, tuned.info.name);
  engine.lost.then((error) => console.log(error.advice));
  await engine.unload();
  await models.clear();
  return [text, streamed, vectors.length, tokens.length, rate].join();
}

export async function pass(engine: Wisp, chat: ChatParams, completion: CompletionParams, stream: boolean): Promise<boolean> {
  const answers = [await engine.chat.completions.create(chat), await engine.completions.create({ ...completion, stream })];
  return answers.some((answer) => "choices" in answer);
}

export function explain(error: unknown): WispErrorCode {
  return WispError.from(error).code;
}

// @ts-expect-error: an invalid source
void Wisp.load({ model: 5 });
