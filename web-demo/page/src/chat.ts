import { type ChatMessage, WispError } from "wisp-web";
import { announce, byId, make, size } from "./dom.js";
import { complain, engine, onChange } from "./engine.js";
import { render } from "./markdown.js";
import { settings } from "./settings.js";

const EXAMPLES = ["Tell me a story about a brave fox.", "Why is the sky blue?", "Write a short poem about the sea."];

const input = byId<HTMLTextAreaElement>("input");
const scroll = byId("scroll");
let conversation: ChatMessage[] = [];
let running: AbortController | undefined;

/** Milliseconds between renderings of a streamed answer. */
const RENDER = 60;

function update(): void {
  const ready = engine() !== undefined;
  byId<HTMLButtonElement>("send").disabled = !ready;
  byId("send").hidden = running !== undefined;
  byId("stop").hidden = running === undefined;
  // Messages that failed are shown, but not part of the conversation.
  const isEmpty = byId("messages").childElementCount === 0;
  byId("clear").hidden = isEmpty;
  byId("welcome").hidden = !isEmpty;
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
  const used = memory ? [`GPU ${size(memory.gpu)}`, `page ${size(memory.wasm)}`] : [];
  const figures = [rate, `first after ${first.toFixed(2)} s`, ...used];
  byId("speed").replaceChildren(...figures.map((textContent) => make("span", { textContent })));
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
    const stream = wisp.info.chat
      ? await wisp.chat.completions.create({ messages: [...system, ...conversation], ...sampling, stream: true, stream_options: { include_usage: true } }, { signal: running.signal })
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
    else if (finish === null && answer) item.append(make("p", { className: "note", textContent: "Stopped." }));
    item.classList.remove("busy");
    item.removeAttribute("aria-busy");
    // A new chat may have started meanwhile.
    if (failed) own.pop();
    else own.push({ role: "assistant", content: answer.trim() });
    running = undefined;
    update();
    announce(answer ? `Answer: ${item.textContent}` : "The answer is empty");
    const end = performance.now();
    if (tokens > 0) await showFigures(tokens, (first - start) / 1000, (end - first) / 1000).catch(() => {});
  }
}

function clear(): void {
  running?.abort();
  conversation = [];
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
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
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
  onChange(update);
  update();
}
