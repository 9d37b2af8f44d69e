// The page as visitors use it.
import assert from "node:assert/strict";
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { AxeBuilder } from "@axe-core/playwright";
import { launch } from "./lib/browser.mjs";
import { llama } from "./lib/gguf.mjs";
import { serve } from "./lib/server.mjs";
import { ALL, PAGE, PAGE_PATH, takes, TINY } from "./lib/setup.mjs";

const READY = { timeout: 90_000 };
/** The longest answer, in tokens, unless a test sets another: the browser's software adapter is slow. */
const MAX_TOKENS = 48;
const tiny = readFileSync(TINY);
let server, context, page, problems;

before(async () => {
  const file = (bytes) => ({ size: bytes.length, read: (start, end) => bytes.subarray(start, end) });
  const virtual = {
    "/org/tiny/resolve/main/tiny-F16.gguf": file(tiny),
    "/page.gguf": file(Buffer.from("<!doctype html><title>no</title>")), "/tiny.gguf": file(tiny),
    // Its cache of 4096 tokens takes two buffers of a gigabyte, for which SwiftShader has no memory.
    "/wide.gguf": llama({ layers: 1, width: 64, hidden: 64, heads: 1024, headWidth: 128, vocab: 64, context: 4096 }),
  };
  server = await serve({ mounts: { "/": PAGE }, virtual });
  context = await launch();
});
after(async () => {
  await context.close();
  await server.close();
});

/** Opens a page anew, and waits until it has loaded its model. `prepare` is called with the page before it has an address. */
async function visit({ path = PAGE_PATH, prepare } = {}) {
  await page?.close();
  page = await context.newPage();
  problems = [];
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("console", (message) => message.type() === "error" && problems.push(message.text()));
  page.on("request", (request) => {
    if (!request.url().startsWith(server.url) && !/^(data|blob):/.test(request.url())) problems.push(`requests ${request.url()}`);
  });
  await prepare?.(page);
  await page.goto(server.url + path);
  await page.locator("#send:enabled").waitFor(READY);
  await reset();
}

/** Makes the page what it is after a visit, with the built-in model or, with `anyModel`, the one that is loaded: without
 *  another visit if possible, because loads take seconds. */
async function ready({ anyModel = false } = {}) {
  server.state.fault = undefined;
  if (!(await isUsable(anyModel).catch(() => false))) return visit();
  problems = [];
  await page.setViewportSize({ width: 1280, height: 720 });
  await page.emulateMedia({ colorScheme: "light" });
  await reset();
}

/** Returns whether the page has a model that answers nothing at the moment. */
async function isUsable(anyModel) {
  if (!page || page.isClosed() || page.url() !== server.url + PAGE_PATH) return false;
  // The test before may have ended with a reload.
  await page.locator("#loading").waitFor({ state: "hidden", ...READY });
  if ((await page.locator("#send:enabled").count()) === 0 || (await page.locator(".busy").count()) > 0) return false;
  return anyModel || (await page.locator("#model-name").textContent()) === "wisp-tiny";
}

/** Sets the settings of the tests, and removes what a test has left on the page. */
const reset = () => page.evaluate((tokens) => {
  const find = (selector) => document.querySelector(selector);
  for (const dialog of document.querySelectorAll("dialog[open]")) dialog.close();
  find("#notice").hidden = true;
  for (const id of ["announcer", "bench-status", "bench-result"]) find(`#${id}`).replaceChildren();
  find("#show-chat").click();
  find("#clear").click();
  find("#input").value = "";
  const form = find("#settings-form");
  form.reset();
  form.elements.maxTokens.value = tokens;
  form.elements.maxTokens.dispatchEvent(new Event("input", { bubbles: true }));
}, MAX_TOKENS);

async function ask(text, on = page) {
  await on.getByLabel("Message", { exact: true }).fill(text);
  await on.keyboard.press("Enter");
  const answer = on.locator(".message.assistant").last();
  await on.locator(".message.assistant.busy").waitFor({ state: "detached", ...READY });
  return answer.innerText();
}

// The kernels for GPUs take long on the browser's software adapter: an ordinary run takes one of three tests with them.
if (takes(2, 3)) test("both classes of kernels give the same answer", async () => {
  const answers = [];
  for (const deviceClass of ["gpu", "software"]) {
    await visit({ path: `/?device=webgpu&deviceClass=${deviceClass}` });
    await limit(24);
    answers.push(await ask("Tell me a story about a brave fox."));
    assert.deepEqual(problems, []);
  }
  assert.match(answers[0], /Once upon a time/);
  assert.equal(answers[0], answers[1]);
});

test("the built-in model streams an answer with keyboard input only", async () => {
  await visit();
  const seen = new Set();
  const watch = setInterval(() => page.locator(".message.assistant").last().innerText().then((text) => seen.add(text.length), () => {}), 25);
  const answer = await ask("Tell me a story about a brave fox.");
  clearInterval(watch);
  assert.match(answer, /Once upon a time/);
  assert.ok(seen.size > 3, "the text grows");
  await page.locator("#speed", { hasText: "tokens/s" }).waitFor();
  assert.match(await page.locator("#announcer").textContent(), /Once upon a time/);
  assert.deepEqual(problems, []);
});

/** Sets the longest answer. */
async function limit(tokens) {
  await page.getByRole("button", { name: "Settings" }).click();
  await page.getByLabel("Longest answer, in tokens").fill(String(tokens));
  await page.keyboard.press("Escape");
}

test("an answer can be stopped and followed by another message", async () => {
  await ready();
  await limit(256);
  await page.getByLabel("Message", { exact: true }).fill("Tell me a story about a brave fox.");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.querySelector(".message.assistant")?.textContent.length > 10);
  await page.getByRole("button", { name: "Stop" }).click();
  await page.locator(".note", { hasText: "Stopped." }).waitFor();
  assert.ok((await ask("Hello!")).length > 0);
  await page.getByRole("button", { name: "New conversation" }).click();
  assert.equal(await page.locator(".message").count(), 0);
});

test("a chat goes on when its context is full, and a message that is too long remains in the field", async () => {
  await ready();
  await limit(4);
  // Half of the context.
  const long = "Tell me a long story about a brave fox and a bear.".repeat(16);
  const answers = [];
  for (let round = 0; round < 2; round++) answers.push(await ask(long));
  for (const answer of answers) assert.doesNotMatch(answer, /Failed/);
  assert.match(answers.at(-1), /no longer reads the first messages/);
  const tooLong = long.repeat(8);
  await ask(tooLong);
  await shown("InvalidRequest");
  assert.match(await page.locator("#notice").innerText(), /the message is too long for this model/);
  assert.equal(await page.locator("#input").inputValue(), tooLong);
  // The messages are there after a reload.
  await page.reload();
  assert.deepEqual(await page.locator(".message.user").allInnerTexts(), Array(2).fill(long));
  await page.getByRole("button", { name: "New conversation" }).click();
  await page.reload();
  assert.equal(await page.locator(".message").count(), 0);
});

test("settings are applied and saved", async () => {
  await ready();
  await page.getByRole("button", { name: "Settings" }).click();
  await page.getByLabel("Longest answer, in tokens").fill("5");
  await page.getByLabel("Appearance").selectOption("dark");
  await page.keyboard.press("Escape");
  await ask("Tell me a story.");
  await page.locator(".note", { hasText: "maximum length" }).waitFor();
  await page.reload();
  assert.equal(await page.locator("html").getAttribute("data-theme"), "dark");
  await page.getByRole("button", { name: "Settings" }).click();
  assert.equal(await page.getByLabel("Longest answer, in tokens").inputValue(), "5");
  await page.getByRole("button", { name: "Reset" }).click();
});

/** Loads a model by URL. */
async function load(address, on = page) {
  await on.locator("#open-models").click();
  await on.getByLabel(/Another one/).fill(server.url + address);
  await on.keyboard.press("Enter");
}

/** Deletes all stored models. */
const keepNothing = () => page.evaluate(async () => {
  const storage = await navigator.storage.getDirectory();
  await storage.removeEntry("wisp-models", { recursive: true }).catch(() => {});
});

/** Waits until an error with this code is shown and announced. */
async function shown(code, on = page) {
  await on.locator(`#notice[data-code="${code}"]:visible`).waitFor(READY);
  assert.equal(await on.locator("#notice").getAttribute("role"), "alert");
}

test("the keyboard's focus stays with the visitor, and only phases are announced", async () => {
  await ready();
  await limit(256);
  const focused = () => page.evaluate(() => document.activeElement.id);
  await page.evaluate(() => {
    globalThis.announced = [];
    new MutationObserver(() => globalThis.announced.push(document.querySelector("#announcer").textContent))
      .observe(document.querySelector("#announcer"), { childList: true });
  });
  await page.getByRole("button", { name: "Tell me a story about a brave fox." }).press("Enter");
  await page.locator(".message.user").waitFor();
  assert.equal(await focused(), "stop");
  await page.keyboard.press("Enter");
  await page.locator(".note", { hasText: "Stopped." }).waitFor();
  assert.equal(await focused(), "send");
  assert.match((await page.evaluate(() => globalThis.announced)).join(), /^(Stopped|Answer: .*Stopped\.)$/s);
  // The Enter that ends a composition in Safari sends nothing.
  await page.locator("#input").fill("Hello!");
  await page.locator("#input").evaluate((input) => input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", keyCode: 229, bubbles: true })));
  assert.equal(await page.locator(".message.user").count(), 1);
  server.state.fault = ({ path }) => (path === "/tiny.gguf" ? { delay: 50 } : {});
  await page.evaluate(() => (globalThis.announced = []));
  await load("/tiny.gguf");
  await page.locator("#loading").waitFor();
  await page.locator("#loading-stop").press("Enter");
  await shown("Aborted");
  assert.equal(await focused(), "open-models");
  await page.getByRole("button", { name: "Load again" }).press("Enter");
  assert.equal(await focused(), "loading-stop");
  await page.locator("#send:enabled").waitFor(READY);
  server.state.fault = undefined;
  const announced = await page.evaluate(() => globalThis.announced);
  assert.ok(announced.length < 24, announced.join("\n"));
  assert.equal(announced.at(-1), "tiny.gguf is loaded");
  await keepNothing();
});

// These tests load other models, and work with any.
test("a dropped file is loaded", async () => {
  await ready({ anyModel: true });
  await page.evaluate((base64) => {
    const data = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
    const transfer = new DataTransfer();
    transfer.items.add(new File([data], "dropped.gguf"));
    document.body.dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
  }, tiny.toString("base64"));
  await page.locator("#model-name", { hasText: "dropped.gguf" }).waitFor();
  await page.locator("#send:enabled").waitFor(READY);
  assert.match(await ask("Tell me a story."), /\w/);
});

test("stored models are listed with their size and can be deleted", async () => {
  await ready({ anyModel: true });
  await keepNothing();
  await load("/tiny.gguf");
  await page.locator("#send:enabled").waitFor(READY);
  await page.locator("#open-models").click();
  await page.locator("#stored-list li", { hasText: "tiny.gguf, 3.9 MB" }).waitFor();
  await page.getByRole("button", { name: "Delete tiny.gguf" }).click();
  await page.locator("#stored").waitFor({ state: "hidden" });
});

test("stored files are listed and deleted by model, and the last model is loaded again", async () => {
  await ready({ anyModel: true });
  await keepNothing();
  await load("/org/tiny/resolve/main/tiny-F16.gguf");
  await page.locator("#model-name", { hasText: "tiny-F16.gguf" }).waitFor();
  await page.locator("#send:enabled").waitFor(READY);
  await page.reload();
  await page.locator("#model-name", { hasText: "tiny-F16.gguf" }).waitFor();
  await page.locator("#send:enabled").waitFor(READY);
  // As unfinished downloads leave them.
  await page.evaluate(async () => {
    const models = await (await navigator.storage.getDirectory()).getDirectoryHandle("wisp-models");
    const write = async (folder, name, data) => {
      const stream = await (await folder.getFileHandle(name, { create: true })).createWritable();
      await stream.write(data);
      await stream.close();
    };
    for (const path of ["/api/models/org/tiny/tree/main?recursive=true", "/org/tiny/resolve/main/tiny-Q8_0.gguf", "/100%.gguf"]) {
      const url = location.origin + path;
      const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", new TextEncoder().encode(url)));
      const name = Array.from(digest.slice(0, 16), (byte) => byte.toString(16).padStart(2, "0")).join("");
      const folder = await models.getDirectoryHandle(name, { create: true });
      await write(folder, "about.json", JSON.stringify({ url, size: 1e6, etag: null, added: 1e15 }));
      await write(folder, "0", new Uint8Array(5e5));
    }
  });
  await page.locator("#open-models").click();
  await page.locator("#stored-list li").first().waitFor();
  assert.deepEqual(await page.locator("#stored-list li span").allInnerTexts(), ["org/tiny, 4.9 MB of 5.9 MB", "100%.gguf, 500 kB of 1.0 MB"]);
  await page.getByRole("button", { name: "Delete org/tiny" }).click();
  await page.locator("#stored-list li").nth(1).waitFor({ state: "detached" });
  assert.deepEqual(await page.locator("#stored-list li span").allInnerTexts(), ["100%.gguf, 500 kB of 1.0 MB"]);
  await keepNothing();
  await page.reload();
  await page.locator("#model-name", { hasText: "wisp-tiny" }).waitFor();
});

test("errors are shown, and the page stays usable", async () => {
  await ready();
  for (const [address, code] of [["/missing.gguf", "Network"], ["/page.gguf", "ModelFormat"], ["/wide.gguf", "OutOfMemory"]]) {
    await load(address);
    await shown(code);
  }
  server.state.fault = ({ path }) => (path === "/tiny.gguf" ? { delay: 1000 } : {});
  await load("/tiny.gguf");
  await page.locator("#loading-stop").click();
  await shown("Aborted");
  server.state.fault = undefined;
  await page.locator("#open-models").click();
  await page.getByRole("button", { name: /wisp-tiny/ }).last().click();
  await page.locator("#send:enabled").waitFor(READY);
  assert.ok((await ask("Hello!")).length > 0);
});

/** Makes the page's measurements short. */
function shortenMeasurements() {
  const post = Worker.prototype.postMessage;
  Worker.prototype.postMessage = function (message, ...rest) {
    if (message.call === "bench") message = { ...message, args: { promptTokens: 4, newTokens: 2, runs: 1 } };
    post.call(this, message, ...rest);
  };
}

test("speed is measured and plotted", async () => {
  await ready();
  if (!ALL) await page.evaluate(shortenMeasurements);
  await page.getByRole("button", { name: "Benchmark" }).click();
  await page.getByRole("button", { name: "Measure" }).click();
  await page.locator("#bench-status", { hasText: "Done" }).waitFor({ timeout: 240_000 });
  assert.equal(await page.locator("#bench polyline").count(), 2);
  assert.equal(await page.locator("#bench tbody tr").count(), 4);
});

test("a second visit needs no network", async () => {
  await ready();
  await page.evaluate(() => navigator.serviceWorker.ready);
  await page.reload();
  await page.waitForFunction(() => navigator.serviceWorker.controller !== null);
  await context.setOffline(true);
  server.state.fault = () => ({ status: 500 });
  try {
    await page.reload();
    await page.locator("#send:enabled").waitFor(READY);
    assert.match(await ask("Tell me a story about a brave fox."), /Once upon a time/);
  } finally {
    server.state.fault = undefined;
    await context.setOffline(false);
  }
});

/** The views of the page, and the steps that open them. */
const VIEWS = {
  chat: () => page.locator("#show-chat").click(),
  models: () => page.locator("#open-models").click(),
  settings: () => page.locator("#open-settings").click(),
  benchmark: () => page.locator("#show-bench").click(),
  error: async () => {
    await page.locator("#show-chat").click();
    await load("/a-model-that-is-not-there-under-a-long-name.gguf");
    await shown("Network");
  },
};
const SIZES = { desktop: { width: 1280, height: 800 }, phone: { width: 360, height: 740 } };

test("every view fits and is accessible on phones and desktops, in light and dark", async () => {
  await ready();
  const folder = process.env.WISP_SCREENSHOTS;
  if (folder) mkdirSync(folder, { recursive: true });
  await ask("Hello!");
  for (const [what, open] of Object.entries(VIEWS)) {
    await open();
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      for (const [name, size] of Object.entries(SIZES)) {
        await page.setViewportSize(size);
        const over = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        assert.ok(over <= 0, `${what} is ${over} pixels too wide on a ${name}`);
        if (folder) await page.screenshot({ path: join(folder, `${name}-${colorScheme}-${what}.png`) });
      }
      const { violations } = await new AxeBuilder({ page }).analyze();
      assert.deepEqual(violations.map(({ id, nodes }) => [id, nodes.map(({ html }) => html)]), [], `${what}, ${colorScheme}`);
    }
    await page.keyboard.press("Escape");
  }
});

test("the content security policy blocks foreign scripts and requests", async (t) => {
  const other = await context.newPage();
  t.after(() => other.close());
  await other.goto(server.url + PAGE_PATH);
  const blocked = await other.evaluate(() => new Promise((resolve) => {
    addEventListener("securitypolicyviolation", (event) => resolve(event.effectiveDirective));
    document.body.append(Object.assign(document.createElement("script"), { textContent: "1" }));
    setTimeout(() => resolve("nothing"), 2000);
  }));
  assert.match(blocked, /script-src/);
});

test("Markdown of a model is sanitised", async (t) => {
  // The script that it adds stays with the page.
  t.after(() => page.close());
  const hostile = [
    "**bold** `code`", "<img src=x onerror='globalThis.harmed = 1'>", "<script>globalThis.harmed = 1</script>", "[x](javascript:alert(1))",
    "![y](https://elsewhere.example/pixel.png)", "<form action=//a><input></form>", "<a href='https://example.org' onclick='x()'>z</a>",
    "<svg><a xlink:href='javascript:1'>", "<style>body{display:none}</style>", "<iframe srcdoc='<script>1</script>'></iframe>",
  ].join("\n\n");
  // Replaces the first text of the worker by hostile Markdown.
  const replace = (text) => {
    const listen = Worker.prototype.addEventListener;
    Worker.prototype.addEventListener = function (type, listener, ...rest) {
      const wrapped = (event) => {
        const first = event.data?.event;
        if (first?.type === "text" && !globalThis.replaced) {
          globalThis.replaced = true;
          first.text = text;
        }
        listener(event);
      };
      listen.call(this, type, type === "message" ? wrapped : listener, ...rest);
    };
  };
  await visit({ prepare: (page) => page.addInitScript(replace, hostile) });
  await ask("Hello!");
  const html = await page.locator(".message.assistant").innerHTML();
  assert.match(html, /<strong>bold<\/strong> <code>code<\/code>/);
  assert.doesNotMatch(html, /<(img|script|form|input|svg|style|iframe)|onclick|javascript:/i);
  assert.match(html, /<a (?=[^>]*href="https:\/\/example.org")(?=[^>]*rel="noopener noreferrer nofollow")/);
  assert.equal(await page.evaluate(() => globalThis.harmed), undefined);
  // The content security policy reports what the sanitiser parses, but nothing is requested.
  assert.deepEqual(problems.filter((problem) => problem.startsWith("requests ")), []);
});

test("a lost GPU is reported, and the model can be loaded again", async (t) => {
  // Other tests get a page that has not lost its GPU.
  t.after(() => page.close());
  await ready();
  const session = await context.browser().newBrowserCDPSession();
  await session.send("Browser.crashGpuProcess").catch(() => {});
  await shown("DeviceLost");
  await page.getByRole("button", { name: "Load again" }).click();
  await page.locator("#send:enabled").waitFor(READY);
  assert.ok((await ask("Hello!")).length > 0);
});

test("a model that does not fit the storage runs with a warning", async () => {
  const small = await launch();
  try {
    const other = await small.newPage();
    await other.goto(server.url + PAGE_PATH);
    const session = await small.newCDPSession(other);
    await session.send("Storage.overrideQuotaForOrigin", { origin: server.url, quotaSize: 1_000_000 });
    await load("/tiny.gguf", other);
    await shown("QuotaExceeded", other);
    await other.locator("#send:enabled").waitFor(READY);
  } finally {
    await small.close();
  }
});

test("a missing WebGPU is reported, and the page answers on the CPU", async () => {
  const without = await launch({ webgpu: false });
  try {
    const other = await without.newPage();
    await other.goto(server.url);
    await shown("NoWebGpu", other);
    await other.locator("#send:enabled").waitFor(READY);
    assert.ok((await ask("Hello!", other)).length > 0);
  } finally {
    await without.close();
  }
});

test("a page that is open during a deployment still loads models", async () => {
  const folder = mkdtempSync(join(tmpdir(), "wisp-page-"));
  cpSync(PAGE, folder, { recursive: true });
  const deployed = await serve({ mounts: { "/": folder } });
  const other = await launch();
  try {
    const open = await other.newPage();
    await open.goto(deployed.url + PAGE_PATH);
    await open.evaluate(() => navigator.serviceWorker.ready);
    await open.waitForFunction(() => navigator.serviceWorker.controller !== null);
    // The next version has another worker.
    const [worker] = readdirSync(join(folder, "assets")).filter((name) => /^worker-.*\.js$/.test(name));
    assert.ok(worker);
    rmSync(join(folder, "assets", worker));
    const script = join(folder, "sw.js");
    writeFileSync(script, readFileSync(script, "utf8").replace(`"assets/${worker}",`, "").replace(/(PREFIX\}|wisp-page-)\w+/, "$1next"));
    await open.evaluate(async () => {
      const registration = await navigator.serviceWorker.ready;
      await registration.update();
      const next = registration.installing ?? registration.waiting ?? registration.active;
      while (!["installed", "activated"].includes(next.state)) await new Promise((resolve) => setTimeout(resolve, 50));
    });
    await open.waitForTimeout(500);
    await open.locator("#open-models").click();
    await open.locator("#choices").getByRole("button", { name: /wisp-tiny/ }).click();
    await open.locator("#send:disabled").waitFor();
    await open.locator("#send:enabled").waitFor(READY);
  } finally {
    await other.close();
    await deployed.close();
    rmSync(folder, { recursive: true, force: true });
  }
});
