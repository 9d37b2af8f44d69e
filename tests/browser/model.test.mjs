// A real model in the browser, in both classes of kernels: WISP_TEST_MODEL names a GGUF file. Its greedy tokens are those
// that the native program computes on the host.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { basename, dirname, join } from "node:path";
import { test } from "node:test";
import { REPOSITORY, blank, run } from "./lib/setup.mjs";

const MODEL = process.env.WISP_TEST_MODEL;
const PROGRAM = process.env.WISP_PROGRAM ?? join(REPOSITORY, "target/debug/wisp");
const PROMPTS = ["The capital of France is", "Once upon a time, there was a small robot who"];
const NEW_TOKENS = 16;

/** Returns the tokens of the native program on the host. */
function native(prompt) {
  const flags = ["--model", MODEL, "--device", "host", "--ignore-eos", "--json", "--max-new-tokens", String(NEW_TOKENS)];
  // The program would warn of a variable that looks like a setting.
  const { WISP_TEST_MODEL: _, ...env } = process.env;
  const output = execFileSync(PROGRAM, ["generate", "--prompt", prompt, ...flags], { env, stdio: ["ignore", "pipe", "inherit"] });
  return JSON.parse(output).tokens;
}

for (const deviceClass of ["gpu", "software"]) test(`a real model generates the host's tokens in class ${deviceClass}`, async (t) => {
  if (!MODEL) return t.skip("WISP_TEST_MODEL names no model");
  const site = await blank({ mounts: { "/model/": dirname(MODEL) } });
  t.after(() => site.close());
  const asked = { deviceClass, name: basename(MODEL), prompts: PROMPTS, max_tokens: NEW_TOKENS };
  const got = await run(site.page, async ({ Wisp }, { deviceClass, name, prompts, max_tokens }) => {
    const bytes = await (await fetch(`/model/${encodeURIComponent(name)}`)).blob();
    const wisp = await Wisp.load({ model: new File([bytes], name), deviceClass });
    const tokens = [];
    for (const prompt of prompts) {
      const { choices } = await wisp.completions.create({ prompt, max_tokens, return_token_ids: true, ignore_eos: true });
      tokens.push(choices[0].token_ids);
    }
    await wisp.unload();
    return tokens;
  }, asked);
  assert.deepEqual(got, PROMPTS.map(native));
});
