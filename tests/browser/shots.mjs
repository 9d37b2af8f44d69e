// Screenshots of the page, to look at: node shots.mjs FOLDER
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { serve } from "./lib/server.mjs";
import { launch } from "./lib/browser.mjs";

const folder = process.argv[2] ?? "shots";
mkdirSync(folder, { recursive: true });
const server = await serve({ mounts: { "/": join(import.meta.dirname, "../../web-demo/dist/page") } });
for (const colorScheme of ["light", "dark"]) {
  for (const [name, viewport] of [["desktop", { width: 1280, height: 800 }], ["phone", { width: 390, height: 844 }]]) {
    const context = await launch({ colorScheme, viewport });
    const page = await context.newPage();
    const shot = (what) => page.screenshot({ path: join(folder, `${name}-${colorScheme}-${what}.png`) });
    page.on("console", (message) => message.type() === "error" && console.log("page:", message.text()));
    await page.goto(server.url + "/");
    await page.locator("#send:enabled").waitFor({ timeout: 60_000 });
    await shot("welcome");
    await page.getByLabel("Message", { exact: true }).fill("Tell me a story about a brave fox.");
    await page.keyboard.press("Enter");
    await page.waitForTimeout(1500);
    await shot("answering");
    await page.locator(".message.assistant:not(.busy)").waitFor({ timeout: 120_000 });
    await page.locator("#speed").filter({ hasText: "tokens" }).waitFor();
    await shot("answered");
    await page.locator("#open-models").click();
    await shot("models");
    await page.keyboard.press("Escape");
    await page.locator("#open-settings").click();
    await shot("settings");
    await page.keyboard.press("Escape");
    await page.locator("#show-bench").click();
    await page.locator("#bench-run").click();
    await page.locator("#bench-status", { hasText: "Done" }).waitFor({ timeout: 300_000 });
    await shot("benchmark");
    await context.close();
  }
}
await server.close();
