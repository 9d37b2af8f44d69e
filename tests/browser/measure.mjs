// Compares the speed in the browser with the native program on the same software adapter, Chromium's SwiftShader.
// Usage: `npm run measure -- PATH/TO/wisp [ROUNDS]` with a release build of the program. Both run in turns.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { EXECUTABLE } from "./lib/browser.mjs";
import { blank, PROFILE } from "./lib/setup.mjs";

const [program, rounds = "5"] = process.argv.slice(2);
const WORK = { promptTokens: 32, newTokens: 64, runs: 1 };
const ICD = [process.env.SWIFTSHADER, "/usr/lib/chromium/vk_swiftshader_icd.json", join(dirname(EXECUTABLE ?? ""), "vk_swiftshader_icd.json")].find(
  (path) => path && existsSync(path),
);
if (!program || !ICD) {
  console.error("usage: measure.mjs PATH/TO/wisp [ROUNDS]; SWIFTSHADER names vk_swiftshader_icd.json where it is not beside Chromium");
  process.exit(2);
}
if (PROFILE === "dev") {
  console.error("measure.mjs: this is a quick build: run bash web-demo/build.sh");
  process.exit(2);
}

function native() {
  const given = ["-p", WORK.promptTokens, "-n", WORK.newTokens, "-r", WORK.runs].map(String);
  const env = { ...process.env, VK_ICD_FILENAMES: ICD, VK_DRIVER_FILES: ICD };
  return JSON.parse(execFileSync(program, ["bench", "--json", "--device", "vulkan", ...given], { env, stdio: ["ignore", "pipe", "ignore"] }));
}

const median = (list) => list.toSorted((a, b) => a - b)[list.length >> 1];
const site = await blank();
await site.page.evaluate(async () => (globalThis.wisp = await (await import("/wisp-web/index.js")).Wisp.load({ device: "webgpu" })));
const rates = { native: { prefill: [], decode: [] }, browser: { prefill: [], decode: [] } };
for (let i = 0; i < Number(rounds); i++) {
  const reports = { native: native(), browser: await site.page.evaluate((work) => globalThis.wisp.bench(work), WORK) };
  for (const [where, report] of Object.entries(reports)) {
    for (const phase of ["prefill", "decode"]) rates[where][phase].push(report[phase].median);
  }
}
await site.close();
for (const phase of ["prefill", "decode"]) {
  const [native, browser] = [rates.native[phase], rates.browser[phase]];
  const show = (list) => list.map((rate) => rate.toFixed(1)).join(" ");
  console.log(`${phase}: native ${show(native)}; browser ${show(browser)} tokens/s`);
  const of = (choose) => `${((100 * choose(browser)) / choose(native)).toFixed(0)} %`;
  console.log(`  browser / native: ${of(median)} of the medians, ${of((list) => Math.max(...list))} of the best`);
}
