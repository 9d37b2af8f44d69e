// The package: OpenAI's objects, the tokens of native runs, cancellation, and running in a worker or on the page.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { ALL, blank, golden, json, PACKAGE, run, shared, takes, TINY } from "./lib/setup.mjs";

let site;
before(async () => {
  const mounts = { "/shared/": shared("models") ?? "/nowhere" };
  const virtual = {};
  site = { ...(await blank({ mounts, virtual })), virtual };
  // A test that sets `changeEvent` changes what workers say before the package reads it.
  await site.page.evaluate(() => {
    const listen = Worker.prototype.addEventListener;
    Worker.prototype.addEventListener = function (type, listener, ...rest) {
      const changed = (event) => {
        if (event.data?.event) globalThis.changeEvent?.(event.data.event);
        listener(event);
      };
      listen.call(this, type, type === "message" ? changed : listener, ...rest);
    };
  });
});
after(() => site.close());

// The engine that tests share is new: its memory is that of a model which has answered one request.
test("a compressed KV cache needs less memory", async () => {
  const measure = async ({ Wisp, engine }, options) => {
    const wisp = options ? await Wisp.load(options) : await engine();
    const { choices: [{ text }] } = await wisp.completions.create({ prompt: "Once upon a time", max_tokens: 8 });
    const { gpu } = await wisp.memory();
    if (options) await wisp.unload();
    return { text, gpu };
  };
  const whole = await run(site.page, measure);
  const others = [];
  // Without a format, the package's own.
  for (const kvCacheFormat of ["float16", "q8_0", undefined]) others.push(await run(site.page, measure, { kvCacheFormat }));
  const [half, quarter, byDefault] = others;
  assert.deepEqual(byDefault, half);
  assert.equal(half.text, whole.text);
  assert.ok(whole.gpu > half.gpu && half.gpu > quarter.gpu && quarter.text.length > 0, JSON.stringify([whole, ...others]));
});

test("speed and memory are reported", async () => {
  const { report, memory, info } = await run(site.page, async ({ engine }) => {
    const wisp = await engine();
    return { report: await wisp.bench({ promptTokens: 8, newTokens: 8, runs: 1 }), memory: await wisp.memory(), info: wisp.info };
  });
  assert.ok(report.decode.median > 0 && report.prefill.median > 0);
  assert.ok(memory.gpu > 3.9e6 && memory.wasm < 50e6, JSON.stringify(memory));
  assert.equal(info.name, "wisp-tiny");
});

/** Continues prompts greedily with the built-in model. */
const complete = async ({ Wisp }, { cases, options }) => {
  const wisp = await Wisp.load(options);
  const out = [];
  for (const { prompt, max_tokens } of cases) {
    const { choices: [choice], usage } = await wisp.completions.create({ prompt, max_tokens, return_token_ids: true, ignore_eos: true });
    out.push({ ...choice, usage });
  }
  await wisp.unload();
  return out;
};

for (const [name, options] of [
  ["in a worker", {}],
  ["with default limits only", { baseline: true }],
  // Other tests on the page's thread compare a few tokens.
  ...(ALL ? [["on the page's own thread", { worker: false }], ["with the kernels for GPUs", { deviceClass: "gpu" }]] : []),
  // The kernels for GPUs take long on the browser's software adapter: an ordinary run takes one of three tests with them.
  ...(takes(0, 3) ? [["with the kernels for GPUs and default limits only", { deviceClass: "gpu", baseline: true }]] : []),
]) {
  test(`tokens equal those of native runs ${name}`, async () => {
    const isGpu = options.deviceClass === "gpu";
    const mostTokens = isGpu && !ALL ? 16 : Infinity;
    const taken = golden().slice(0, isGpu || (options.baseline && !ALL) ? 1 : 3);
    const cases = taken.map(({ tokens, ...rest }) => ({ ...rest, tokens: tokens.slice(0, mostTokens) }));
    const asked = cases.map(({ text, tokens }) => ({ prompt: text, max_tokens: tokens.length }));
    const got = await run(site.page, complete, { cases: asked, options });
    cases.forEach(({ tokens, prompt_tokens }, i) => {
      assert.deepEqual(got[i].token_ids, tokens);
      assert.equal(got[i].finish_reason, "length");
      assert.deepEqual(got[i].usage, {
        prompt_tokens: prompt_tokens.length, completion_tokens: tokens.length, total_tokens: prompt_tokens.length + tokens.length,
        prompt_tokens_details: { cached_tokens: 0 },
        completion_tokens_details: { reasoning_tokens: 0 },
      });
    });
  });
}

test("log-probabilities of a stream are those of the whole answer", async () => {
  const { whole, chunks, chat, refused } = await run(site.page, async ({ engine }) => {
    const wisp = await engine();
    const request = { prompt: "Once upon a time", max_tokens: 12, logprobs: 2 };
    const whole = (await wisp.completions.create(request)).choices[0];
    const chunks = [];
    for await (const { choices } of await wisp.completions.create({ ...request, stream: true })) chunks.push(...choices);
    const messages = [{ role: "user", content: "Hello" }];
    const params = { messages, max_tokens: 4, logprobs: true, top_logprobs: 3 };
    const chat = (await wisp.chat.completions.create(params)).choices[0].logprobs;
    const refused = [];
    for (const wrong of [{ ...request, echo: true }, { ...request, logprobs: 1000 }, { ...request, logprobs: -1 }]) {
      refused.push(await wisp.completions.create(wrong).then(() => "accepted", (error) => error.code));
    }
    return { whole, chunks, chat, refused };
  });
  const joined = (key) => chunks.flatMap((chunk) => chunk.logprobs?.[key] ?? []);
  for (const key of ["tokens", "token_logprobs", "top_logprobs", "text_offset"]) assert.deepEqual(joined(key), whole.logprobs[key]);
  assert.equal(whole.logprobs.tokens.join(""), whole.text);
  whole.logprobs.token_logprobs.forEach((value, i) => {
    // Greedy: the sampled token is the most likely one.
    assert.equal(value, Math.max(...Object.values(whole.logprobs.top_logprobs[i])));
  });
  assert.equal(chat.content.length, 4);
  for (const { token, logprob, bytes, top_logprobs } of chat.content) {
    assert.deepEqual([top_logprobs.length, top_logprobs[0].token, top_logprobs[0].logprob], [3, token, logprob]);
    assert.equal(new TextDecoder().decode(Uint8Array.from(bytes)), token);
  }
  assert.deepEqual(refused, ["InvalidRequest", "InvalidRequest", "InvalidRequest"]);
});

test("answers match a schema, an expression or a choice", async () => {
  const { answers, refused } = await run(site.page, async ({ engine }) => {
    const wisp = await engine();
    const schema = {
      type: "object", properties: { ok: { type: "boolean" }, kind: { enum: ["cat", "dog"] } },
      required: ["ok", "kind"], additionalProperties: false,
    };
    const format = (schema) => ({ response_format: { type: "json_schema", json_schema: { name: "thing", schema } } });
    const answers = [];
    for (const more of [format(schema), { structured_outputs: { regex: "[0-9]{3}" } }, { structured_outputs: { choice: ["red", "blue"] } }]) {
      const { text, finish_reason } = (await wisp.completions.create({ prompt: "A thing: ", max_tokens: 200, ...more })).choices[0];
      answers.push([text, finish_reason]);
    }
    const wrong = wisp.completions.create({ prompt: "x", ...format({ uniqueItems: true }) });
    const refused = await wrong.then(() => "accepted", ({ code, message }) => [code, message.includes("uniqueItems")]);
    return { answers, refused };
  });
  const [[object, ...reason], [number], [choice]] = answers;
  assert.deepEqual(reason, ["stop"]);
  const { ok, kind, ...others } = JSON.parse(object);
  assert.ok(typeof ok === "boolean" && ["cat", "dog"].includes(kind));
  assert.deepEqual(others, {});
  assert.match(number, /^[0-9]{3}$/);
  assert.ok(["red", "blue"].includes(choice));
  assert.deepEqual(refused, ["InvalidRequest", true]);
});

for (const deviceClass of ["gpu", "software"].filter((one) => one !== "gpu" || takes(1, 3)))
test(`stories260K as a File matches its reference in class ${deviceClass}`, async (t) => {
  const path = shared("models/stories260K/golden.json");
  if (!path) return t.skip("no ../shared");
  const { greedy_tokens, text } = json(path);
  const isCut = deviceClass === "gpu" && !ALL;
  const expected = greedy_tokens.slice(1, isCut ? 65 : undefined);
  const got = await run(site.page, async ({ Wisp }, { deviceClass, tokens, max_tokens }) => {
    const bytes = await (await fetch("/shared/stories260K/stories260K.gguf")).blob();
    const wisp = await Wisp.load({ model: new File([bytes], "stories260K.gguf"), deviceClass });
    const { choices: [choice] } = await wisp.completions.create({ prompt: tokens, max_tokens, return_token_ids: true, ignore_eos: true });
    await wisp.unload();
    return choice;
  }, { deviceClass, tokens: greedy_tokens.slice(0, 1), max_tokens: expected.length });
  assert.deepEqual(got.token_ids, expected);
  if (isCut) assert.ok(got.text.length > 0 && text.startsWith(got.text), got.text);
  else assert.equal(got.text, text);
});

test("demanded calls follow their schemas, and their results are part of the chat", async () => {
  const { whole, chunks, after, refused } = await run(site.page, async ({ engine }) => {
    const wisp = await engine();
    const parameters = { type: "object", properties: { city: { enum: ["Rome", "Oslo"] } }, required: ["city"] };
    const tools = [{ type: "function", function: { name: "weather", parameters } }];
    const messages = [{ role: "user", content: "How is the weather?" }];
    const request = { messages, tools, tool_choice: "required", parallel_tool_calls: false, max_tokens: 96 };
    const whole = (await wisp.chat.completions.create(request)).choices[0];
    const chunks = [];
    for await (const { choices } of await wisp.chat.completions.create({ ...request, stream: true })) chunks.push(...choices);
    const results = whole.message.tool_calls.map(({ id }) => ({ role: "tool", tool_call_id: id, content: "Sunny." }));
    const next = { messages: [...messages, whole.message, ...results], tools, tool_choice: "none", max_tokens: 8 };
    const after = (await wisp.chat.completions.create(next)).choices[0];
    const wrong = wisp.chat.completions.create({ messages, tools: [{ type: "web_search" }] });
    const refused = await wrong.then(() => "accepted", ({ code }) => code);
    return { whole, chunks, after, refused };
  });
  assert.equal(whole.finish_reason, "tool_calls");
  assert.equal(whole.message.content, null);
  const [call] = whole.message.tool_calls;
  assert.equal(call.function.name, "weather");
  assert.ok(["Rome", "Oslo"].includes(JSON.parse(call.function.arguments).city));
  const parts = chunks.flatMap(({ delta }) => delta.tool_calls ?? []);
  assert.equal(parts[0].function.name, "weather");
  assert.equal(parts.map((part) => part.function.arguments).join(""), call.function.arguments);
  assert.equal(chunks.at(-1).finish_reason, "tool_calls");
  assert.ok(after.message.content.length > 0 && !after.message.tool_calls);
  assert.equal(refused, "InvalidRequest");
});

test("whole and streamed chats have OpenAI's objects", async () => {
  const { whole, chunks, again } = await run(site.page, async ({ engine }) => {
    const wisp = await engine();
    const request = { messages: [{ role: "user", content: "Hello!" }], max_tokens: 12 };
    const whole = await wisp.chat.completions.create(request);
    const chunks = [];
    for await (const chunk of await wisp.chat.completions.create({ ...request, stream: true, stream_options: { include_usage: true } })) chunks.push(chunk);
    const drawn = () => wisp.chat.completions.create({ ...request, temperature: 1, seed: 7 });
    const again = [await drawn(), await drawn()].map(({ choices: [{ message }] }) => message.content);
    return { whole, chunks, again };
  });
  assert.equal(whole.object, "chat.completion");
  assert.match(whole.id, /^chatcmpl-/);
  assert.equal(whole.choices[0].message.role, "assistant");
  assert.ok(whole.choices[0].message.content.length > 0);
  assert.equal(whole.usage.total_tokens, whole.usage.prompt_tokens + whole.usage.completion_tokens);
  assert.deepEqual(chunks[0].choices[0].delta, { role: "assistant", content: "" });
  assert.ok(chunks.every(({ object, id }) => object === "chat.completion.chunk" && id === chunks[0].id));
  const streamed = chunks.flatMap(({ choices }) => choices).map(({ delta }) => delta.content ?? "").join("");
  assert.equal(streamed, whole.choices[0].message.content);
  assert.deepEqual(chunks.at(-1).usage, whole.usage);
  assert.equal(chunks.at(-2).choices[0].finish_reason, whole.choices[0].finish_reason);
  assert.equal(again[0], again[1], "equal seeds sample equal tokens");
});

test("a call is the reason for an end if no tool was chosen", async () => {
  const finished = await run(site.page, async ({ engine }) => {
    const wisp = await engine();
    // The model inside does not call by itself: its text becomes a call.
    globalThis.changeEvent = (news) => {
      if (news.type === "text") Object.assign(news, { type: "call", index: 0, name: "now", arguments: "{}" });
    };
    const request = { messages: [{ role: "user", content: "Hello!" }], structured_outputs: { choice: ["x"] } };
    const finished = [];
    for (const more of [{}, { tool_choice: null }, { tool_choice: "auto" }]) {
      finished.push((await wisp.chat.completions.create({ ...request, ...more })).choices[0].finish_reason);
    }
    return finished;
  });
  await site.page.evaluate(() => (globalThis.changeEvent = undefined));
  assert.deepEqual(finished, Array(3).fill("tool_calls"));
});

test("parts of text, developers' messages and lists of one prompt are read", async () => {
  const { chats, texts } = await run(site.page, async ({ engine }) => {
    const wisp = await engine();
    const chats = [];
    const part = (text) => ({ type: "text", text });
    for (const [role, content] of [["system", "Hello!\nWho are you?"], ["developer", [part("Hello!"), part(""), part("Who are you?")]]]) {
      const messages = [{ role, content: "Be kind." }, { role: "user", content }];
      const { choices: [{ message }], usage } = await wisp.chat.completions.create({ messages, max_tokens: 8 });
      chats.push([message, usage]);
    }
    const texts = [];
    const tokens = await wisp.tokenize("Once upon a time", { special: true });
    for (const prompt of ["Once upon a time", ["Once upon a time"], tokens, [tokens]]) {
      texts.push((await wisp.completions.create({ prompt, max_tokens: 8 })).choices[0].text);
    }
    return { chats, texts };
  });
  assert.deepEqual(chats[1], chats[0]);
  assert.deepEqual(texts, Array(4).fill(texts[0]));
});

test("the effort of reasoning and variables reach the template", async () => {
  const bytes = readFileSync(TINY);
  const begin = bytes.indexOf("{% for message in messages %}");
  const length = bytes.indexOf("{% endif %}", begin) + "{% endif %}".length - begin;
  const template = "{{ style }}|{{ enable_thinking }}|{{ reasoning_effort }}{#";
  bytes.write(template.padEnd(length - 2) + "#}", begin);
  site.virtual["/variables.gguf"] = { size: bytes.length, read: (start, end) => bytes.subarray(start, end) };
  const asked = [
    [{}, "||"],
    [{ reasoning_effort: "low" }, "|True|low"],
    [{ reasoning_effort: "none" }, "|False|"],
    [{ reasoning_effort: null, chat_template_kwargs: null }, "||"],
    [{ chat_template_kwargs: { enable_thinking: false, style: "a pirate" }, reasoning_effort: "high" }, "a pirate|False|high"],
  ];
  const { counts, expected, refused } = await run(site.page, async ({ Wisp }, asked) => {
    const wisp = await Wisp.load({ model: "/variables.gguf", cache: "none" });
    const ask = (more) => wisp.chat.completions.create({ messages: [{ role: "user", content: "Hello!" }], max_tokens: 1, ...more });
    const [counts, expected] = [[], []];
    for (const [more, text] of asked) {
      counts.push((await ask(more)).usage.prompt_tokens);
      expected.push((await wisp.tokenize(text, { special: true })).length);
    }
    const refused = await ask({ reasoning_effort: "huge" }).then(() => "accepted", ({ code, message }) => `${code}: ${message}`);
    await wisp.unload();
    return { counts, expected, refused };
  }, asked);
  assert.deepEqual(counts, expected);
  assert.equal(new Set(expected).size, 4, "each text has another number of tokens");
  assert.match(refused, /^InvalidRequest: .*huge/);
});

test("completions end after 16 tokens unless they say otherwise, and at tokens that stop them", async () => {
  const { whole, stopped } = await run(site.page, async ({ engine }) => {
    const wisp = await engine();
    const ask = async (more) => (await wisp.completions.create({ prompt: "Once upon a time", return_token_ids: true, ...more })).choices[0];
    const whole = await ask({ ignore_eos: true });
    const stopped = await ask({ stop_token_ids: [whole.token_ids[3]], ignore_eos: true });
    return { whole, stopped };
  });
  assert.equal(whole.token_ids.length, 16);
  assert.equal(whole.finish_reason, "length");
  // The token that ends a text is among them, but not part of the text.
  assert.deepEqual(stopped.token_ids, whole.token_ids.slice(0, whole.token_ids.indexOf(whole.token_ids[3]) + 1));
  assert.equal(stopped.finish_reason, "stop");
});

test("a question continues from what the conversation before it has computed", async () => {
  const rounds = await run(site.page, async ({ Wisp }) => {
    const rounds = [];
    for (const prefixCaching of [true, false]) {
      const wisp = await Wisp.load({ prefixCaching });
      const messages = [{ role: "user", content: "Tell me a long story about a fox and a bear. ".repeat(4) }];
      for (let round = 0; round < 2; round++) {
        const { choices: [{ message }], usage } = await wisp.chat.completions.create({ messages, max_tokens: 8 });
        messages.push(message, { role: "user", content: "And then?" });
        rounds.push([message.content, usage.prompt_tokens_details.cached_tokens]);
      }
      await wisp.unload();
    }
    return rounds;
  });
  const [[first, none], [second, cached], ...without] = rounds;
  assert.equal(none, 0);
  assert.ok(cached >= 32, `${cached} tokens are cached`);
  assert.deepEqual(without, [[first, 0], [second, 0]]);
});

/** Loads the built-in model with a package at an address, and returns a text. */
const answer = async (_, { address }) => {
  const { Wisp } = await import(address);
  const wisp = await Wisp.load();
  const { choices: [{ text }] } = await wisp.completions.create({ prompt: "Once upon a time", max_tokens: 4 });
  await wisp.unload();
  return text;
};

test("a package at another origin starts its worker", async () => {
  const { serve } = await import("./lib/server.mjs");
  const cdn = await serve({ mounts: { "/": PACKAGE } });
  cdn.state.headers = { "Access-Control-Allow-Origin": "*" };
  const text = await run(site.page, answer, { address: `${cdn.url}/index.js` });
  await cdn.close();
  assert.ok(typeof text === "string" && text.length > 0, JSON.stringify(text));
});

test("a package that webpack bundled starts its worker", async () => {
  const { serve } = await import("./lib/server.mjs");
  // Outside of workers' addresses, webpack replaces a module's address by that of its source file.
  const caller = Buffer.from(readFileSync(join(PACKAGE, "caller.js"), "utf8").replace("new URL(import.meta.url)", 'new URL("file:///app/caller.js")'));
  const bundled = await serve({
    mounts: { "/package/": PACKAGE, "/": join(import.meta.dirname, "lib/blank") },
    virtual: { "/package/caller.js": { size: caller.length, type: "text/javascript", read: (start, end) => caller.subarray(start, end) } },
  });
  const page = await site.context.newPage();
  await page.goto(bundled.url);
  const text = await page.evaluate(`(${answer})(undefined, { address: "/package/index.js" })`);
  await page.close();
  await bundled.close();
  assert.ok(text.length > 0);
});

test("requests that a framework wraps in proxies are answered", async () => {
  const got = await run(site.page, async ({ Wisp }) => {
    const wrap = (object) => new Proxy(object, { get: (target, key) => {
      const value = Reflect.get(target, key);
      return typeof value === "object" && value !== null ? wrap(value) : value;
    } });
    // A tuning of other kernels has no effect.
    const tuning = wrap({ format: 1, tuning: { kernels: "00", calls: [] } });
    const wisp = await Wisp.load({ model: wrap({ urls: ["/wisp-web/wisp-tiny.gguf"] }), tuning, cache: "none" });
    const chat = await wisp.chat.completions.create(wrap({ messages: [{ role: "user", content: "Hello!" }], stop: ["x"], max_tokens: 4 }));
    const prompt = wrap(await wisp.tokenize("Once upon a time", { special: true }));
    const completion = await wisp.completions.create({ prompt, max_tokens: 8, return_token_ids: true });
    const text = await wisp.detokenize(wrap(await wisp.tokenize("Hello!")));
    await wisp.unload();
    return { answer: chat.choices[0].message.content, tokens: completion.choices[0].token_ids, text };
  });
  assert.ok(got.answer?.length > 0, JSON.stringify(got));
  assert.deepEqual(got.tokens, golden()[0].tokens.slice(0, 8));
  assert.equal(got.text, "Hello!");
});

test("concurrent requests get their own tokens and text", async () => {
  const out = await run(site.page, async ({ Wisp }) => {
    const wisp = await Wisp.load({ maxBatch: 2 });
    const ask = (prompt) => wisp.completions.create({ prompt, max_tokens: 10 });
    const together = await Promise.all([ask("Once upon a time"), ask("The cat")]);
    const alone = [await ask("Once upon a time"), await ask("The cat")];
    const tokens = await wisp.tokenize("Once upon a time");
    const text = await wisp.detokenize(tokens);
    await wisp.unload();
    return { together, alone, tokens, text };
  });
  const texts = (list) => list.map(({ choices: [{ text }] }) => text);
  assert.deepEqual(texts(out.together), texts(out.alone));
  assert.equal(out.text, "Once upon a time");
  assert.deepEqual(out.tokens, golden()[0].prompt_tokens.slice(1));
});

test("a signal stops a request within one step, and the engine stays usable", async () => {
  const { code, submissions, heard, after } = await run(site.page, async ({ Wisp }, wait) => {
    let submitted = 0;
    const submit = GPUQueue.prototype.submit;
    GPUQueue.prototype.submit = function (...args) {
      submitted += 1;
      return submit.apply(this, args);
    };
    const wisp = await Wisp.load({ worker: false, maxSteps: 2 });
    const controller = new AbortController();
    let [pieces, atStop, heard, code] = [0, 0, 0, ""];
    try {
      const stream = await wisp.completions.create({ prompt: "Once upon a time", max_tokens: 400, ignore_eos: true, stream: true }, { signal: controller.signal });
      for await (const _ of stream) {
        if (controller.signal.aborted) heard += 1;
        // Its step gives several: the fourth is there already.
        if (++pieces === 3) {
          controller.abort();
          atStop = submitted;
        }
      }
    } catch (error) {
      code = error.code;
    }
    await new Promise((resolve) => setTimeout(resolve, wait));
    const submissions = submitted - atStop;
    const after = await wisp.completions.create({ prompt: "Once upon a time", max_tokens: 8, return_token_ids: true });
    await wisp.unload();
    GPUQueue.prototype.submit = submit;
    return { code, submissions, heard, after };
  }, ALL ? 1500 : 500);
  assert.equal(code, "Aborted");
  assert.equal(heard, 0);
  // A step consists of its kernels and the readback.
  assert.ok(submissions <= 2, `${submissions} submissions after the signal`);
  assert.deepEqual(after.choices[0].token_ids, golden()[0].tokens.slice(0, 8));
});

test("models that load at the same time on the page's thread are independent", async () => {
  const { tokens, gpu } = await run(site.page, async ({ Wisp }) => {
    const [first, second] = await Promise.all([Wisp.load({ worker: false }), Wisp.load({ worker: false })]);
    // Frees the first model's device, which must not be the second's.
    await first.unload();
    const { choices } = await second.completions.create({ prompt: "Once upon a time", max_tokens: 8, return_token_ids: true });
    const { gpu } = await second.memory();
    await second.unload();
    return { tokens: choices[0].token_ids, gpu };
  });
  assert.deepEqual(tokens, golden()[0].tokens.slice(0, 8));
  assert.ok(gpu > 0);
});

test("a tuned model answers the same", async () => {
  const { report, tokens } = await run(site.page, async ({ Wisp }, seconds) => {
    const prompt = { prompt: "Once upon a time", max_tokens: 8, return_token_ids: true };
    // With a short cache, because filling it takes long on the browser's software adapter.
    const sizes = { maxLength: 32, maxStepTokens: 8 };
    const first = await Wisp.load(sizes);
    const report = await first.tune({ seconds });
    const tokens = [(await first.completions.create(prompt)).choices[0].token_ids];
    await first.unload();
    const tuned = await Wisp.load({ ...sizes, tuning: report.tuning });
    tokens.push((await tuned.completions.create(prompt)).choices[0].token_ids);
    await tuned.unload();
    return { report, tokens };
  }, ALL ? 15 : 5);
  assert.ok(report.points.length > 0, JSON.stringify(report));
  assert.ok(report.points.every(({ variants }) => variants.every(({ problem }) => problem === null)), report.table);
  assert.match(report.table, /matmul/);
  for (const each of tokens) assert.deepEqual(each, golden()[0].tokens.slice(0, 8));
});
