// Talks to a running `wisp serve` with OpenAI's client for Node; serve-clients.sh starts both.
//
//     node serve_clients.mjs ADDRESS

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import OpenAI from "openai";

const [address] = process.argv.slice(2);
const client = new OpenAI({ baseURL: `${address}/v1`, apiKey: "test-key", maxRetries: 0 });
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
  async errors() {
    const wrong = client.chat.completions.create({ ...chat, model: "gpt-5" });
    await assert.rejects(wrong, OpenAI.NotFoundError);
    return "404";
  },
};

const { version } = JSON.parse(readFileSync(new URL("node_modules/openai/package.json", import.meta.url)));
console.log(`openai ${version} for Node`);
for (const [name, test] of Object.entries(tests)) console.log(`  ${name}: ${JSON.stringify(await test())}`);
