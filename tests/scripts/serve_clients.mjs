// Talks to `wisp serve` at $WISP_TEST_SERVER with OpenAI's client for Node; the tests of the program start both.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import OpenAI from "openai";

const client = new OpenAI({ baseURL: `${process.env.WISP_TEST_SERVER}/v1`, apiKey: "test-key", maxRetries: 0 });
const chat = {
  model: "tiny",
  messages: [{ role: "user", content: "Tell me a story." }],
  temperature: 0,
  max_completion_tokens: 24,
};

const tests = {
  async models() {
    const names = [];
    for await (const model of client.models.list()) names.push(model.id);
    assert(names.includes("tiny"));
    return names.join(", ");
  },
  async chat() {
    const answer = await client.chat.completions.create(chat);
    return answer.choices[0].message.content;
  },
  async streaming() {
    let text = "";
    for await (const chunk of await client.chat.completions.create({ ...chat, stream: true })) {
      text += chunk.choices[0]?.delta.content ?? "";
    }
    assert.equal(text, await tests.chat());
    return `${text.length} characters`;
  },
  async cancelling() {
    const stream = await client.completions.create({ model: "tiny", prompt: "The dog", max_tokens: 400, stream: true });
    for await (const chunk of stream) {
      assert.equal(typeof chunk.choices[0].text, "string");
      break;
    }
    return "ended after the first chunk";
  },
  async tools() {
    const parameters = { type: "object", properties: { city: { enum: ["Oslo", "Rome"] } }, required: ["city"] };
    const asked = [];
    const runner = client.chat.completions.runTools({
      ...chat,
      max_completion_tokens: 96,
      stream: true,
      parallel_tool_calls: false,
      tool_choice: { type: "function", function: { name: "weather" } },
      tools: [{ type: "function", function: {
        name: "weather", description: "Returns the weather of a city.", parameters, parse: JSON.parse,
        function: ({ city }) => { asked.push(city); return "Sunny."; },
      } }],
    });
    await runner.done();
    assert(asked.length === 1 && ["Oslo", "Rome"].includes(asked[0]), `${asked}`);
    return asked[0];
  },
  async structuredOutput() {
    const schema = {
      type: "object", additionalProperties: false, required: ["city"], properties: { city: { enum: ["Oslo", "Rome"] } },
    };
    const format = { type: "json_schema", json_schema: { name: "answer", schema, strict: true } };
    const answer = await client.chat.completions.parse({ ...chat, max_completion_tokens: 96, response_format: format });
    const { content } = answer.choices[0].message;
    assert(["Oslo", "Rome"].includes(JSON.parse(content).city), content);
    return content;
  },
  async embeddings() {
    const { data } = await client.embeddings.create({ model: "bert", input: ["the cat", "the kitten"] });
    assert.equal(data[0].embedding.length, 15);
    return `${data.length} vectors`;
  },
  async errors() {
    const wrong = client.chat.completions.create({ ...chat, model: "gpt-5" });
    await assert.rejects(wrong, OpenAI.NotFoundError);
    return "404";
  },
};

const { version } = JSON.parse(readFileSync(new URL("node_modules/openai/package.json", import.meta.url)));
console.log(`openai ${version} for Node`);
for (const [name, test] of Object.entries(tests)) console.log(`  ${name}: ${JSON.stringify(await test())}`);
