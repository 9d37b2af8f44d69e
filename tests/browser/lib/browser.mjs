// Headless Chromium with WebGPU on a software adapter.
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

export const EXECUTABLE = process.env.CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/google-chrome", "/usr/bin/chromium-browser"].find(existsSync);

export const SOFTWARE = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"];
const FLAGS = ["--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

/** Starts a browser with empty storage. */
export async function launch({ webgpu = true, ...options } = {}) {
  const folder = await mkdtemp(join(tmpdir(), "wisp-browser-"));
  const context = await chromium.launchPersistentContext(folder, {
    executablePath: EXECUTABLE, headless: true, args: [...FLAGS, ...(webgpu ? SOFTWARE : ["--disable-features=WebGPU", "--disable-gpu"])], ...options,
  });
  const close = context.close.bind(context);
  context.close = async () => {
    await close();
    await rm(folder, { recursive: true, force: true, maxRetries: 5 });
  };
  return context;
}

/** Opens a page, which prints its console messages if requested. */
export async function open(context, url) {
  const page = await context.newPage();
  if (process.env.VERBOSE) page.on("console", (message) => console.error("  page:", message.text()));
  page.on("pageerror", (error) => console.error("  page error:", process.env.VERBOSE ? error.stack : error.message));
  await page.goto(url);
  return page;
}
