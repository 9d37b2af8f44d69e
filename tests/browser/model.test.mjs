// Whole models in the browser, in both classes of kernels: the model inside the package, and the GGUF file that
// WISP_TEST_MODEL names. Greedy tokens are those that the native program computes on the host, log-probabilities are close.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { basename, dirname, join } from "node:path";
import { test } from "node:test";
import { REPOSITORY, blank, run } from "./lib/setup.mjs";

const MODEL = process.env.WISP_TEST_MODEL;
const PROGRAM = process.env.WISP_PROGRAM ?? join(REPOSITORY, "target/debug/wisp");
const PROMPTS = ["The capital of France is", "Once upon a time, there was a small robot who"];
const NEW_TOKENS = 16;
const TOP = 5;
/** The largest difference of a log-probability from the host's; measured: 2e-5. */
const CLOSE = 2e-4;

/** Returns what the native program computes on the host. */
function native(prompt, model) {
  const flags = ["--device", "host", "--ignore-eos", "--json", "--max-new-tokens", String(NEW_TOKENS), "--logprobs", String(TOP)];
  if (model) flags.push("--model", model);
  // The program would warn of a variable that looks like a setting.
  const { WISP_TEST_MODEL: _, ...env } = process.env;
  const output = execFileSync(PROGRAM, ["generate", "--prompt", prompt, ...flags], { env, stdio: ["ignore", "pipe", "inherit"] });
  return JSON.parse(output);
}

for (const [name, isGiven] of [["the built-in model", false], ["a real model", true]])
for (const deviceClass of ["gpu", "software"])
test(`${name} generates the host's tokens and log-probabilities in class ${deviceClass}`, async (t) => {
  if (isGiven && !MODEL) return t.skip("WISP_TEST_MODEL names no model");
  const model = isGiven ? MODEL : undefined;
  const site = await blank({ mounts: model ? { "/model/": dirname(model) } : {} });
  t.after(() => site.close());
  const asked = { deviceClass, name: model && basename(model), prompts: PROMPTS, max_tokens: NEW_TOKENS, logprobs: TOP };
  const got = await run(site.page, async ({ Wisp }, { deviceClass, name, prompts, max_tokens, logprobs }) => {
    const file = async () => new File([await (await fetch(`/model/${encodeURIComponent(name)}`)).blob()], name);
    const wisp = await Wisp.load({ ...(name ? { model: await file() } : {}), deviceClass });
    const out = [];
    for (const prompt of prompts) {
      const request = { prompt, max_tokens, logprobs, return_token_ids: true, ignore_eos: true };
      out.push((await wisp.completions.create(request)).choices[0]);
    }
    await wisp.unload();
    return out;
  }, asked);
  PROMPTS.forEach((prompt, i) => {
    const expected = native(prompt, model);
    assert.deepEqual(got[i].token_ids, expected.tokens);
    const { tokens, token_logprobs, top_logprobs, text_offset } = got[i].logprobs;
    assert.deepEqual([tokens, text_offset], [expected.logprobs.tokens, expected.logprobs.text_offset]);
    let worst = 0;
    expected.logprobs.token_logprobs.forEach((value, k) => {
      worst = Math.max(worst, Math.abs(value - token_logprobs[k]));
      const top = expected.logprobs.top_logprobs[k];
      assert.equal(Object.keys(top_logprobs[k]).length, TOP);
      // Tokens of almost equal probability may change places at the end of the list.
      const least = Math.min(...Object.values(top));
      for (const [token, other] of Object.entries(top_logprobs[k])) {
        worst = Math.max(worst, Math.abs((top[token] ?? least) - other));
      }
    });
    t.diagnostic(`log-probabilities differ by at most ${worst.toExponential(1)}`);
    assert.ok(worst <= CLOSE, `log-probabilities differ by ${worst}`);
  });
});
