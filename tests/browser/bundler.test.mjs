// Projects that use the package: with Vite, installed as npm installs it, and with a plain script tag.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { launch } from "./lib/browser.mjs";
import { serve } from "./lib/server.mjs";
import { blank, PACKAGE, REPOSITORY } from "./lib/setup.mjs";

const VITE = join(REPOSITORY, "web-demo/node_modules/vite/bin/vite.js");
const READY = { timeout: 90_000 };

let folder;
before(() => {
  folder = mkdtempSync(join(tmpdir(), "wisp-bundler-"));
  cpSync(join(import.meta.dirname, "bundler"), folder, { recursive: true });
  mkdirSync(join(folder, "node_modules"));
  const [packed] = JSON.parse(execFileSync("npm", ["pack", PACKAGE, "--json", "--pack-destination", folder], { cwd: folder, encoding: "utf8", stdio: ["ignore", "pipe", "ignore"] }));
  execFileSync("tar", ["-xzf", packed.filename, "-C", "node_modules"], { cwd: folder });
  cpSync(join(folder, "node_modules/package"), join(folder, "node_modules/wisp-web"), { recursive: true });
});
after(() => rmSync(folder, { recursive: true, force: true }));

test("Vite builds a project with the package without settings", async () => {
  execFileSync(process.execPath, [VITE, "build", "--logLevel", "warn"], { cwd: folder, stdio: "inherit" });
  const server = await serve({ mounts: { "/": join(folder, "dist") } });
  const context = await launch();
  try {
    const page = await context.newPage();
    await page.goto(server.url + "/");
    await page.locator("#answer", { hasText: /\w/ }).waitFor(READY);
  } finally {
    await context.close();
    await server.close();
  }
});

test("a plain script tag defines Wisp", async () => {
  const site = await blank();
  try {
    await site.page.addScriptTag({ url: "/wisp-web/script.js" });
    const { text, stored } = await site.page.evaluate(async () => {
      const wisp = await globalThis.Wisp.load();
      const { choices: [{ text }] } = await wisp.completions.create({ prompt: "Once upon a time", max_tokens: 4 });
      await wisp.unload();
      return { text, stored: await globalThis.Wisp.models.list() };
    });
    assert.ok(text.length > 0);
    assert.deepEqual(stored, []);
  } finally {
    await site.close();
  }
});
