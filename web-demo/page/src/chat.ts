import { type ChatMessage, type Wisp, WispError } from "wisp-web";
import { announce, byId, hide, make, size } from "./dom.js";
import { complain, engine, onChange } from "./engine.js";
import { render } from "./markdown.js";
import { settings } from "./settings.js";

const EXAMPLES = ["Tell me a story about a brave fox.", "Why is the sky blue?", "Write a short poem about the sea."];

type Message = { role: "user" | "assistant"; content: string };

/** Where the conversation is kept while the tab is open. */
const KEY = "wisp-conversation";

const input = byId<HTMLTextAreaElement>("input");
const scroll = byId("scroll");
let conversation: Message[] = kept();
let running: AbortController | undefined;

/** Milliseconds between renderings of a streamed answer. */
const RENDER = 60;
/** Maximum tokens that templates put around a message. */
const AROUND = 8;

function kept(): Message[] {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? "[]");
  } catch {
    return [];
  }
}

function keep(): void {
  try {
    sessionStorage.setItem(KEY, JSON.stringify(conversation));
  } catch {
    // A reload begins a new conversation.
  }
}

function update(): void {
  const ready = engine() !== undefined;
  byId<HTMLButtonElement>("send").disabled = !ready;
  const [shown, hidden] = running ? [byId("stop"), byId("send")] : [byId("send"), byId("stop")];
  shown.hidden = false;
  hide(hidden, ready ? shown : input);
  // Messages that failed are shown, but not part of the conversation.
  const isEmpty = byId("messages").childElementCount === 0;
  byId("clear").hidden = isEmpty;
  if (isEmpty) byId("welcome").hidden = false;
  else hide(byId("welcome"), shown);
  for (const button of byId("examples").querySelectorAll("button")) button.disabled = !ready;
}

function add(role: "user" | "assistant"): HTMLLIElement {
  const item = make("li", { className: `message ${role}` });
  item.setAttribute("aria-label", role === "user" ? "You" : "Answer");
  byId("messages").append(item);
  return item;
}

/** Scrolls with the answer, unless the reader scrolled away. */
function follow(change: () => void): void {
  const atEnd = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60;
  change();
  if (atEnd) scroll.scrollTop = scroll.scrollHeight;
}

async function showFigures(tokens: number, first: number, seconds: number): Promise<void> {
  const rate = seconds > 0 ? `${((tokens - 1) / seconds).toFixed(1)} tokens/s` : `${tokens} tokens`;
  const memory = await engine()?.memory();
  const onGpu = engine()?.info.device.api === "webgpu" && memory ? [`GPU ${size(memory.gpu)}`] : [];
  const used = memory ? [...onGpu, `page ${size(memory.wasm)}`] : [];
  const figures = [rate, `first after ${first.toFixed(2)} s`, ...used];
  byId("speed").replaceChildren(...figures.map((textContent) => make("span", { textContent })));
}

/** Returns the last messages that fit the model's context, with room for an answer. */
async function fitting(wisp: Wisp, messages: ChatMessage[]): Promise<ChatMessage[]> {
  const { maxLength } = wisp.info;
  const tokensOf = async ({ content }: ChatMessage) => (await wisp.tokenize(String(content))).length + AROUND;
  const system = messages.filter(({ role }) => role === "system");
  const others = messages.filter(({ role }) => role !== "system");
  let room = maxLength;
  for (const message of [...system, others.at(-1)!]) room -= await tokensOf(message);
  if (room < 0) {
    throw new WispError("InvalidRequest", `the message is too long for this model: it has about ${maxLength - room} tokens with the system prompt, and the model reads ${maxLength}`);
  }
  room -= Math.min(settings.maxTokens, maxLength / 4);
  let from = others.length - 1;
  while (from > 0 && (room -= await tokensOf(others[from - 1]!)) >= 0) from -= 1;
  // Templates expect a question first.
  while (others[from]!.role === "assistant") from += 1;
  return [...system, ...others.slice(from)];
}

async function send(text: string): Promise<void> {
  const wisp = engine();
  if (!wisp || running || !text.trim()) return;
  conversation.push({ role: "user", content: text });
  follow(() => add("user").append(text));
  const item = add("assistant");
  item.classList.add("busy");
  item.setAttribute("aria-busy", "true");
  scroll.scrollTop = scroll.scrollHeight;
  running = new AbortController();
  update();
  const own = conversation;
  let answer = "";
  let thoughts = "";
  let tokens = 0;
  let finish: string | null = null;
  let failed = false;
  let forgotten = false;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const draw = () => {
    timer = undefined;
    const before = thoughts ? [make("p", { className: "note", textContent: thoughts })] : [];
    follow(() => item.replaceChildren(...before, render(answer)));
  };
  const start = performance.now();
  let first = 0;
  try {
    const system: ChatMessage[] = settings.system.trim() ? [{ role: "system", content: settings.system }] : [];
    const sampling = {
      temperature: settings.temperature,
      top_p: settings.topP,
      ...(settings.seed === "" ? {} : { seed: Number(settings.seed) }),
      max_tokens: settings.maxTokens,
    };
    // A model without a chat template continues the text.
    const given: ChatMessage[] = wisp.info.chat ? [...system, ...own] : [{ role: "user", content: text }];
    const messages = await fitting(wisp, given);
    forgotten = messages.length < given.length;
    const stream = wisp.info.chat
      ? await wisp.chat.completions.create({ messages, ...sampling, stream: true, stream_options: { include_usage: true } }, { signal: running.signal })
      : await wisp.completions.create({ prompt: text, ...sampling, stream: true, stream_options: { include_usage: true } }, { signal: running.signal });
    for await (const { choices: [choice], usage } of stream) {
      if (usage) tokens = usage.completion_tokens;
      if (!choice) continue;
      const piece = "delta" in choice ? choice.delta.content : choice.text;
      const thought = "delta" in choice ? choice.delta.reasoning_content : undefined;
      if (piece || thought) {
        first ||= performance.now();
        answer += piece ?? "";
        thoughts += thought ?? "";
        timer ??= setTimeout(draw, RENDER);
      }
      finish = choice.finish_reason ?? finish;
    }
  } catch (error) {
    const { code } = WispError.from(error);
    failed = code !== "Aborted";
    if (failed) complain(error, code === "DeviceLost");
  } finally {
    clearTimeout(timer);
    draw();
    if (finish === "length") item.append(make("p", { className: "note", textContent: "The answer reached the maximum length." }));
    if (failed) item.append(make("p", { className: "note", textContent: "Failed: this message is not part of the conversation." }));
    else if (finish === null) item.append(make("p", { className: "note", textContent: "Stopped." }));
    if (forgotten) item.append(make("p", { className: "note", textContent: "The model no longer reads the first messages: its context is full." }));
    item.classList.remove("busy");
    item.removeAttribute("aria-busy");
    // A new chat may have started meanwhile.
    if (failed) own.pop();
    else own.push({ role: "assistant", content: answer.trim() });
    keep();
    if (failed && !input.value) input.value = text;
    running = undefined;
    update();
    if (answer) announce(`Answer: ${item.textContent}`);
    else if (!failed) announce(finish === null ? "Stopped" : "The answer is empty");
    const end = performance.now();
    if (tokens > 0) await showFigures(tokens, (first - start) / 1000, (end - first) / 1000).catch(() => {});
  }
}

function clear(): void {
  running?.abort();
  conversation = [];
  keep();
  byId("messages").replaceChildren();
  byId("speed").replaceChildren();
  update();
  input.focus();
}

export function setUpChat(): void {
  const submit = () => {
    const text = input.value;
    if (!engine() || running || !text.trim()) return;
    input.value = "";
    void send(text);
  };
  byId<HTMLFormElement>("composer").addEventListener("submit", (event) => {
    event.preventDefault();
    submit();
  });
  input.addEventListener("keydown", (event) => {
    // In Safari, the Enter that ends a composition comes after it, with this code.
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing && event.keyCode !== 229) {
      event.preventDefault();
      submit();
    }
  });
  addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !document.querySelector("dialog[open]")) running?.abort();
  });
  byId("stop").addEventListener("click", () => running?.abort());
  byId("clear").addEventListener("click", clear);
  byId("examples").append(
    ...EXAMPLES.map((text) => {
      const button = make("button", { type: "button", textContent: text });
      button.addEventListener("click", () => void send(text));
      return make("li", {}, button);
    }),
  );
  for (const { role, content } of conversation) add(role).append(role === "user" ? content : render(content));
  onChange(update);
  update();
  scroll.scrollTop = scroll.scrollHeight;
}
