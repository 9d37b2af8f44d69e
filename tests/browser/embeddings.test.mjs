// Embeddings, and what an encoder, which loads in a second, tests of workers.
import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { serve } from "./lib/server.mjs";
import { blank, json, PACKAGE, run, shared } from "./lib/setup.mjs";

/** The files that `cargo test --test browser` writes. */
const ENCODER = join(process.env.WISP_KERNEL_RECORDS ?? "/nowhere", "encoder");
const BERT = shared("goldens/bert");

let site;
before(async () => (site = await blank({ mounts: { "/encoder/": ENCODER, "/bert/": BERT ?? "/nowhere" } })));
after(() => site.close());

/** Embeds inputs. */
const embed = async ({ Wisp }, { model, inputs, worker }) => {
  const given = worker?.endsWith("?started") ? new Worker(worker, { type: "module" }) : worker;
  const wisp = await Wisp.load({ model, cache: "none", worker: given });
  const answers = [];
  for (const input of inputs) answers.push(await wisp.embeddings.create({ input }));
  const generates = await wisp.completions.create({ prompt: "x" }).then(() => "yes", (error) => error.code);
  await wisp.unload();
  return { answers, generates };
};

function close(actual, expected, bound) {
  assert.equal(actual.length, expected.length);
  const off = Math.max(...actual.map((value, i) => Math.abs(value - expected[i])));
  assert.ok(off <= bound, `${off} off`);
}

test("embeddings equal those of native runs", async (t) => {
  if (!existsSync(ENCODER)) return t.skip("WISP_KERNEL_RECORDS names no folder with an encoder");
  const { texts, tokens, embeddings } = json(join(ENCODER, "golden.json"));
  const inputs = [texts, tokens, texts[1], tokens[1]];
  const { answers: [whole, ofTokens, one, oneOfTokens], generates } = await run(site.page, embed, { model: "/encoder/model.safetensors", inputs });
  whole.data.forEach(({ object, index, embedding }, i) => {
    assert.deepEqual([object, index], ["embedding", i]);
    close(embedding, embeddings[i], 2e-6);
  });
  assert.equal(whole.usage.prompt_tokens, tokens.flat().length);
  assert.deepEqual(ofTokens, whole);
  assert.deepEqual(oneOfTokens, one);
  close(one.data[0].embedding, embeddings[1], 2e-6);
  assert.equal(generates, "InvalidRequest");
});

test("embeddings match BERT in transformers", async (t) => {
  if (!BERT) return t.skip("no ../shared");
  const { tokens, last_hidden_state: states } = json(join(BERT, "golden.json"));
  const mean = states[0].map((_, i) => states.reduce((sum, state) => sum + state[i], 0) / states.length);
  const length = Math.hypot(...mean);
  const { answers: [{ data: [{ embedding }] }] } = await run(site.page, embed, { model: "/bert/model.safetensors", inputs: [tokens] });
  close(embedding, mean.map((value) => value / length), 1e-4);
});

test("a given worker is used", async (t) => {
  if (!existsSync(ENCODER)) return t.skip("WISP_KERNEL_RECORDS names no folder with an encoder");
  const { texts, embeddings } = json(join(ENCODER, "golden.json"));
  const cdn = await serve({ mounts: { "/": PACKAGE } });
  cdn.state.headers = { "Access-Control-Allow-Origin": "*" };
  for (const worker of [`${cdn.url}/worker.js`, "wisp-web/worker.js?started"]) {
    const inputs = texts.slice(0, 1);
    const got = await run(site.page, embed, { model: "/encoder/model.safetensors", inputs, worker });
    assert.ok(got.answers, JSON.stringify(got));
    close(got.answers[0].data[0].embedding, embeddings[0], 2e-6);
  }
  const asked = cdn.state.requests.filter(({ path }) => path === "/worker.js");
  await cdn.close();
  assert.equal(asked.length, 1, JSON.stringify(asked));
});
