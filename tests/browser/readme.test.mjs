// Checks the README: its example, the types, and the size.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import { blank, PACKAGE, PROFILE, REPOSITORY } from "./lib/setup.mjs";

const MOST_COMPRESSED = 2_850_000;

test("the example of the README runs", async () => {
  const readme = readFileSync(join(PACKAGE, "README.md"), "utf8");
  const [, example] = /```js\n([\s\S]*?)```/.exec(readme);
  const site = await blank();
  const said = [];
  site.page.on("console", (message) => said.push(message.text()));
  await site.page.addScriptTag({ type: "module", content: example.replace('"wisp-web"', '"/wisp-web/index.js"') });
  await site.page.waitForEvent("console", { predicate: (message) => message.text().includes("gpu"), timeout: 90_000 });
  await site.close();
  assert.ok(said.some((line) => line.startsWith("Once upon a time")), said.join("\n"));
  assert.ok(said.some((line) => line.startsWith("ready")));
});

test("the types check a sample project", () => {
  const tsc = join(REPOSITORY, "web-demo/node_modules/.bin/tsc");
  execFileSync(tsc, ["-p", join(import.meta.dirname, "types")], { stdio: "inherit" });
});

const skip = PROFILE === "dev" && "a quick build, which does not ship";

test("the module is within its size limit", { skip }, () => {
  const bytes = gzipSync(readFileSync(join(PACKAGE, "wisp_web_bg.wasm")), { level: 9 }).length;
  console.log(`${bytes} bytes of wasm, compressed`);
  assert.ok(bytes <= MOST_COMPRESSED);
});

test("the first token of a cold visit comes within its time limit", { skip }, async () => {
  const site = await blank();
  const seconds = await site.page.evaluate(async () => {
    const start = performance.now();
    const { Wisp } = await import("/wisp-web/index.js");
    const engine = await Wisp.load();
    const stream = await engine.completions.create({ prompt: "Once upon a time", max_tokens: 1, stream: true });
    for await (const _ of stream) break;
    return (performance.now() - start) / 1000;
  });
  await site.close();
  console.log(`${seconds.toFixed(2)} s from nothing to the first token`);
  assert.ok(seconds < 60);
});
