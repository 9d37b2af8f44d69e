// Whole models in the browser, in both classes of kernels and on the CPU: the model inside the package, exact and (quantised) with
// activations in 8 bits, and the GGUF file that WISP_TEST_MODEL names. Greedy tokens are those that the native program
// computes on the host, log-probabilities are close. An ordinary run takes each model inside the package in one class: one of
// the three on the kernels for GPUs, which take long on the browser's software adapter.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { after, test } from "node:test";
import { ALL, REPOSITORY, blank, run, takes } from "./lib/setup.mjs";

const MODEL = process.env.WISP_TEST_MODEL;
const PROGRAM = process.env.WISP_PROGRAM ?? join(REPOSITORY, "target/debug/wisp");
const PROMPTS = ["The capital of France is", "Once upon a time, there was a small robot who"];
const NEW_TOKENS = 16;
const TOP = 5;
const folder = mkdtempSync(join(tmpdir(), "wisp-models-"));
after(() => rmSync(folder, { recursive: true }));

/** Runs the native program. */
function wisp(...args) {
  // The program would warn of variables that look like settings.
  const isOfTests = (name) => name.startsWith("WISP_TEST_") || name === "WISP_KERNEL_RECORDS";
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !isOfTests(name)));
  return execFileSync(PROGRAM, args, { env, encoding: "utf8", stdio: ["ignore", "pipe", "inherit"] });
}

/** Returns what the native program computes on the host. */
function native(prompt, model, precision) {
  const flags = ["--device", "host", "--ignore-eos", "--json", "--max-new-tokens", String(NEW_TOKENS), "--logprobs", String(TOP)];
  if (model) flags.push("--model", model);
  return JSON.parse(wisp("generate", "--prompt", prompt, "--precision", precision, ...flags));
}

/** Converts the built-in model to an encoding and returns the path. */
function converted(encoding) {
  const out = join(folder, `${encoding}.gguf`);
  if (!existsSync(out)) wisp("convert", "--encoding", encoding, "--out", out);
  return out;
}

/**
 * Models, by a function that returns the path: undefined for the one inside the package. `close` is the largest
 * difference of a log-probability from the host's. Measured exact: 2e-5. Measured in 8 bits, where a last bit moves an
 * activation to the next of 255 steps, which moves others in the layers after it: built-in 1.2e-1, SmolLM2-135M 2.6e-1.
 */
const MODELS = [
  { name: "the built-in model", path: () => undefined, precision: "exact", close: 2e-4 },
  { name: "the built-in model in Q4_0", path: () => converted("q4_0"), precision: "int8", close: 2e-1 },
  { name: "the built-in model in Q6_K", path: () => converted("q6_k"), precision: "int8", close: 2e-1 },
  { name: "a real model", path: () => MODEL, precision: "exact", close: 2e-4, isReal: true },
  { name: "a real model", path: () => MODEL, precision: "int8", close: 5e-1, isReal: true },
];

for (const [i, { name, path, precision, close, isReal }] of MODELS.entries())
for (const where of ["gpu", "software", "cpu"].filter((one) => ALL || isReal || one === "cpu" || (one === "gpu") === takes(i, 3)))
test(`${name} generates the host's tokens and log-probabilities, ${precision}, ${where === "cpu" ? "on the CPU" : `in class ${where}`}`, async (t) => {
  if (isReal && !MODEL) return t.skip("WISP_TEST_MODEL names no model");
  const model = path();
  const site = await blank({ mounts: model ? { "/model/": dirname(model) } : {} });
  t.after(() => site.close());
  const place = where === "cpu" ? { device: "cpu" } : { deviceClass: where };
  const asked = { place, precision, name: model && basename(model), prompts: PROMPTS, max_tokens: NEW_TOKENS, logprobs: TOP };
  const got = await run(site.page, async ({ Wisp }, { place, precision, name, prompts, max_tokens, logprobs }) => {
    const file = async () => new File([await (await fetch(`/model/${encodeURIComponent(name)}`)).blob()], name);
    const wisp = await Wisp.load({ ...(name ? { model: await file() } : {}), ...place, precision });
    const out = [];
    for (const prompt of prompts) {
      const request = { prompt, max_tokens, logprobs, return_token_ids: true, ignore_eos: true };
      out.push((await wisp.completions.create(request)).choices[0]);
    }
    await wisp.unload();
    return out;
  }, asked);
  PROMPTS.forEach((prompt, i) => {
    const expected = native(prompt, model, precision);
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
    assert.ok(worst <= close, `log-probabilities differ by ${worst}`);
  });
});
