// Provokes every kind of error. The page stays usable after each.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { after, before, test } from "node:test";
import { llama } from "./lib/gguf.mjs";
import { blank, run, TINY } from "./lib/setup.mjs";
import { serve } from "./lib/server.mjs";

const tiny = readFileSync(TINY);
const file = (bytes, type) => ({ size: bytes.length, type, read: (start, end) => bytes.subarray(start, end) });
const cut = tiny.subarray(0, 1_000_000);
let site, other;
before(async () => {
  const page = Buffer.from("<!doctype html><html><body>Please log in</body></html>");
  const odd = file(Buffer.from(tiny.toString("latin1").replaceAll("llama", "lxama"), "latin1"));
  site = await blank({
    virtual: {
      "/page.gguf": file(page, "text/html"), "/cut.gguf": file(cut), "/tiny.gguf": file(tiny), "/empty.gguf": file(Buffer.alloc(0)),
      "/odd.gguf": odd,
      "/long.gguf": llama({ layers: 1, width: 64, hidden: 64, heads: 1, vocab: 64, context: 4_000_000 }),
      // Its cache takes two buffers of a gigabyte, as large as SwiftShader says it can and larger than it does.
      "/wide.gguf": llama({ layers: 1, width: 1024, hidden: 64, heads: 16, vocab: 64, context: 262_144 }),
      // Its cache takes six of them, more than a module can address.
      "/deep.gguf": llama({ layers: 3, width: 1024, hidden: 64, heads: 16, vocab: 64, context: 262_144 }),
    },
  });
  other = await serve({ virtual: { "/odd.gguf": odd } });
});
after(async () => {
  await site.close();
  await other.close();
});

/** Loads a model and drops it. */
const load = async ({ Wisp }, options) => {
  await (await Wisp.load(options)).unload();
  return { code: "none" };
};

async function fails(options, code, message) {
  const got = await run(site.page, load, options);
  assert.equal(got.code, code, got.message);
  assert.match(got.message, message);
  assert.ok(got.advice.length > 10);
}

/** Asserts that the page can still load a model and generate. */
async function works() {
  const text = await run(site.page, async ({ Wisp }) => {
    const wisp = await Wisp.load();
    const { choices: [{ text }] } = await wisp.completions.create({ prompt: "Once", max_tokens: 2 });
    await wisp.unload();
    return text;
  });
  assert.ok(text.length > 0, JSON.stringify(text));
}

test("a web page instead of a model is a ModelFormat error", () => fails({ model: "/page.gguf" }, "ModelFormat", /HTML|web page/i));
test("a truncated file is a ModelFormat error", () => fails({ model: "/cut.gguf" }, "ModelFormat", /end|trunc|outside|bytes/i));
test("an empty file is a ModelFormat error", () => fails({ model: "/empty.gguf" }, "ModelFormat", /empty/));
test("an unknown architecture is a ModelFormat error", () => fails({ model: "/odd.gguf" }, "ModelFormat", /architecture lxama/));
test("a missing file is a Network error", () => fails({ model: "/missing.gguf" }, "Network", /404/));
test("an unreachable server is a Network error", () => fails({ model: "http://localhost:9/model.gguf" }, "Network", /cannot be fetched/));
test("an invalid address is a Network error", () => fails({ model: "http://" }, "Network", /address/));
test("a server without CORS is a Network error", () => fails({ model: `${other.url}/odd.gguf` }, "Network", /CORS/));
test("a context that is too long is an OutOfMemory error", () => fails({ model: "/long.gguf", maxLength: 4_000_000, baseline: true }, "OutOfMemory", /use maxLength \d+ or less/));
test("a GPU without enough memory is an OutOfMemory error", () => fails({ model: "/wide.gguf", maxLength: 262_144 }, "OutOfMemory", /memory/));
test("a module without enough memory is an OutOfMemory error", () => fails({ model: "/deep.gguf", maxLength: 262_144, device: "cpu" }, "OutOfMemory", /memory/));
test("the page works after all of these errors", works);

test("models are read from another origin that allows CORS", async () => {
  other.state.headers = { "Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "Range" };
  const preflight = ({ request }) => (request.method === "OPTIONS" ? { status: 204, headers: other.state.headers } : {});
  other.state.fault = preflight;
  // Its header is read.
  await fails({ model: `${other.url}/odd.gguf` }, "ModelFormat", /architecture lxama/);
});

test("an aborted load is an Aborted error", async () => {
  const got = await run(site.page, async ({ Wisp }) => {
    const signal = AbortSignal.timeout(0);
    await Wisp.load({ model: "/tiny.gguf", cache: "none", signal });
    return { code: "none" };
  });
  assert.equal(got.code, "Aborted");
});

test("a load stops while the engine's module is fetched", async () => {
  site.server.state.fault = ({ path }) => (path.endsWith(".wasm") ? { delay: 1000 } : {});
  const { code, seconds } = await run(site.page, async ({ Wisp }) => {
    const controller = new AbortController();
    setTimeout(() => controller.abort(), 500);
    const start = performance.now();
    const { code } = await Wisp.load({ signal: controller.signal }).catch((error) => error);
    return { code, seconds: (performance.now() - start) / 1000 };
  });
  site.server.state.fault = undefined;
  assert.equal(code, "Aborted");
  assert.ok(seconds < 3, `${seconds} seconds`);
});

test("a load that fails on the page's thread frees its memory of the GPU", async () => {
  const got = await run(site.page, async ({ Wisp }) => {
    // The package wraps the same function at its first load.
    await Wisp.load({ worker: false, model: "/missing.gguf", cache: "none" }).catch(() => {});
    const devices = [];
    const request = GPUAdapter.prototype.requestDevice;
    GPUAdapter.prototype.requestDevice = async function (...args) {
      const device = await request.apply(this, args);
      devices.push(device);
      return device;
    };
    const controller = new AbortController();
    const onProgress = ({ loaded }) => loaded > 0 && controller.abort();
    const codes = [];
    for (const options of [{ model: "/odd.gguf" }, { onProgress, signal: controller.signal }]) {
      codes.push(await Wisp.load({ worker: false, cache: "none", ...options }).then(() => "none", ({ code }) => code));
    }
    GPUAdapter.prototype.requestDevice = request;
    return [...codes, ...(await Promise.all(devices.map(async ({ lost }) => (await lost).reason)))];
  });
  assert.deepEqual(got.slice(0, 2), ["ModelFormat", "Aborted"]);
  assert.ok(got.length > 2 && got.slice(2).every((reason) => reason === "destroyed"), JSON.stringify(got));
});

test("invalid requests are InvalidRequest errors", async () => {
  const got = await run(site.page, async ({ engine }) => {
    const wisp = await engine();
    const failures = [];
    for (const call of [
      () => wisp.completions.create({ prompt: "x", temperature: -1 }),
      () => wisp.completions.create({ prompt: "x", n: 2 }),
      () => wisp.completions.create({ prompt: [] }),
      () => wisp.completions.create({ prompt: [1e6] }),
      () => wisp.completions.create({ prompt: [-1] }),
      () => wisp.completions.create({ prompt: [1.5] }),
      () => wisp.completions.create({ prompt: [1, "x"] }),
      () => wisp.completions.create({ prompt: ["x", "y"] }),
      () => wisp.completions.create({ prompt: [[1], [2]] }),
      () => wisp.completions.create({}),
      () => wisp.completions.create({ prompt: "x", seed: 1.5 }),
      () => wisp.completions.create({ prompt: "a ".repeat(5000) }),
      () => wisp.embeddings.create({ input: "x" }),
      () => wisp.chat.completions.create({ messages: "hello" }),
      () => wisp.embeddings.create({}),
      () => wisp.chat.completions.create({ messages: [{ role: "user", content: [{ type: "image_url" }] }] }),
      () => wisp.chat.completions.create({ messages: [{ role: "user", content: "x", id: 1n }] }),
      () => wisp.tokenize(() => {}),
    ]) failures.push(await call().then(() => "none", (error) => error.code));
    return failures;
  });
  assert.deepEqual(got, Array(18).fill("InvalidRequest"));
});

test("parameters that are not supported are named, unless they change nothing", async () => {
  const wrong = { suffix: "x", min_tokens: 2, best_of: 3, guided_json: {}, thinking_budget: 0, continue_final_message: true, json_schema: {}, use_beam_search: true };
  const { refused, dimensions, text } = await run(site.page, async ({ engine }, wrong) => {
    const wisp = await engine();
    const outcome = (call) => call.then(() => "none", ({ code, message }) => `${code}: ${message}`);
    const ask = (more) => wisp.completions.create({ prompt: "Once", max_tokens: 2, ...more });
    const refused = [];
    for (const [name, value] of Object.entries(wrong)) refused.push(await outcome(ask({ [name]: value })));
    const dimensions = await outcome(wisp.embeddings.create({ input: "x", dimensions: 8 }));
    const { choices: [{ text }] } = await ask({ suffix: null, best_of: 1, min_tokens: 0, continue_final_message: false, functions: [], seed: -(2 ** 40) });
    return { refused, dimensions, text };
  }, wrong);
  assert.deepEqual(refused, Object.keys(wrong).map((name) => `InvalidRequest: ${name} is not supported`));
  assert.equal(dimensions, "InvalidRequest: dimensions is not supported");
  assert.ok(text.length > 0);
});

test("a stream's parameters are checked before it begins, and signals stop measurements", async () => {
  const got = await run(site.page, async ({ engine }) => {
    const wisp = await engine();
    const outcome = (call) => call.then(() => "none", ({ code }) => code);
    const streamed = await outcome(wisp.completions.create({ prompt: "x", n: 2, stream: true }));
    const controller = new AbortController();
    const measured = outcome(wisp.bench({ newTokens: 100, runs: 1000 }, { signal: controller.signal }));
    const tuned = outcome(wisp.tune({ seconds: 1 }, { signal: AbortSignal.abort() }));
    setTimeout(() => controller.abort(), 200);
    const got = [streamed, await measured, await tuned];
    // The model is free again, long before so many runs would have ended.
    const { choices: [{ text }] } = await wisp.completions.create({ prompt: "Once", max_tokens: 2 });
    return [...got, text.length > 0];
  });
  assert.deepEqual(got, ["InvalidRequest", "Aborted", "Aborted", true]);
});

test("requests after an unload are InvalidRequest errors, and a second unload resolves", async () => {
  const got = await run(site.page, async ({ Wisp, engine }) => {
    const codes = [];
    for (const wisp of [await engine(), await Wisp.load({ worker: false })]) {
      await wisp.unload();
      await wisp.unload();
      for (const call of [() => wisp.tokenize("x"), () => wisp.completions.create({ prompt: "x" })]) {
        codes.push(await call().then(() => "none", (error) => error.code));
      }
    }
    // The next test that shares the engine loads it again.
    globalThis.sharedEngine = undefined;
    return codes;
  });
  assert.deepEqual(got, Array(4).fill("InvalidRequest"));
});

test("a full storage is an error or a warning", async () => {
  const session = await site.context.newCDPSession(site.page);
  await session.send("Storage.overrideQuotaForOrigin", { origin: site.server.url, quotaSize: 1_000_000 });
  const got = await run(site.page, async ({ Wisp, models }) => {
    await models.clear();
    const required = await Wisp.load({ model: "/tiny.gguf", cache: "require" }).then(() => "none", (error) => error.code);
    const warnings = [];
    const wisp = await Wisp.load({ model: "/tiny.gguf", onWarning: ({ code }) => warnings.push(code) });
    await wisp.unload();
    return { required, warnings };
  });
  await session.send("Storage.overrideQuotaForOrigin", { origin: site.server.url });
  assert.deepEqual(got, { required: "QuotaExceeded", warnings: ["QuotaExceeded"] });
});

test("the engine can be loaded again after the GPU is lost", async () => {
  const got = await run(site.page, async ({ Wisp }) => {
    const devices = [];
    const request = GPUAdapter.prototype.requestDevice;
    GPUAdapter.prototype.requestDevice = async function (...args) {
      const device = await request.apply(this, args);
      devices.push(device);
      return device;
    };
    const wisp = await Wisp.load({ worker: false });
    const running = wisp.completions.create({ prompt: "Once upon a time", max_tokens: 200, ignore_eos: true }).then(() => ({ code: "none" }), ({ code, message }) => ({ code, message }));
    setTimeout(() => devices[0].destroy(), 300);
    const { code, message } = await running;
    const codes = [code, (await wisp.lost).code];
    await wisp.unload();
    const next = await Wisp.load({ worker: false });
    const { choices } = await next.completions.create({ prompt: "Once", max_tokens: 2 });
    await next.unload();
    GPUAdapter.prototype.requestDevice = request;
    return { codes, message, works: choices[0].text.length > 0 };
  });
  const { message, ...rest } = got;
  assert.deepEqual(rest, { codes: ["DeviceLost", "DeviceLost"], works: true });
  // The browser's message follows.
  assert.match(message, / was lost: ./);
});

test("a browser without a GPU runs models on the CPU with a warning, unless it must not", async () => {
  const onCpu = (page) =>
    run(page, async ({ Wisp }) => {
      const warnings = [];
      const wisp = await Wisp.load({ device: "auto", onWarning: ({ code, message }) => warnings.push(`${code}: ${message}`) });
      const { choices } = await wisp.completions.create({ prompt: "Once upon a time", max_tokens: 4 });
      const { api } = wisp.info.device;
      await wisp.unload();
      return { warnings, api, text: choices[0].text };
    });
  const check = ({ warnings, api, text }, reason) => {
    assert.equal(api, "host");
    assert.ok(text.length > 0);
    assert.equal(warnings.length, 1);
    assert.match(warnings[0], reason);
  };
  // The adapter of this browser is in software.
  check(await onCpu(site.page), /^NoWebGpu: .* one in software: the model runs on the CPU/);
  const without = await blank({ webgpu: false });
  try {
    check(await onCpu(without.page), /^NoWebGpu: .*: the model runs on the CPU/);
    const refused = await run(without.page, async ({ Wisp }) => {
      const outcome = (device) => Wisp.load({ device }).then(() => "none", ({ code, message, advice }) => `${code}: ${message}. ${advice}`);
      return [await outcome("webgpu"), await outcome("gpu")];
    });
    assert.match(refused[0], /^NoWebGpu: .* Use a browser with WebGPU/);
    assert.match(refused[1], /^InvalidRequest: device is "gpu": use "auto", "webgpu" or "cpu"/);
  } finally {
    await without.close();
  }
});

test("a status that is an error is named, and asked for again if it may pass", async () => {
  const tries = async (status) => {
    site.server.state.fault = ({ path }) => (path === "/tiny.gguf" ? { status } : {});
    site.server.state.requests.length = 0;
    await fails({ model: "/tiny.gguf", cache: "none" }, "Network", new RegExp(`answers with HTTP status ${status}$`));
    return site.server.state.requests.filter(({ path }) => path === "/tiny.gguf").length;
  };
  const counts = [await tries(403), await tries(503)];
  site.server.state.fault = undefined;
  assert.deepEqual(counts, [1, 3]);
});

test("a missing schema and inputs of two kinds are InvalidRequest errors", async () => {
  const { formats, input } = await run(site.page, async ({ engine }) => {
    const wisp = await engine();
    const outcome = (call) => call.then(() => "none", ({ code, message }) => `${code}: ${message}`);
    const formats = [];
    for (const more of [{}, { json_schema: null }, { json_schema: { name: "x" } }, { json_schema: { schema: "x" } }]) {
      formats.push(await outcome(wisp.completions.create({ prompt: "x", response_format: { type: "json_schema", ...more } })));
    }
    return { formats, input: await outcome(wisp.embeddings.create({ input: ["x", [1]] })) };
  });
  assert.deepEqual(formats, Array(4).fill("InvalidRequest: response_format.json_schema.schema must be a JSON Schema"));
  assert.match(input, /^InvalidRequest: input must be /);
});

test("a precision without effect is a warning with the code of its reason", async () => {
  const got = await run(site.page, async ({ Wisp }) => {
    const codes = [];
    // The weights of the built-in model are in F16, which is not multiplied with 8-bit activations.
    for (const options of [{ precision: "f16", baseline: true }, { precision: "int8" }]) {
      await (await Wisp.load({ ...options, onWarning: ({ code }) => codes.push(code) })).unload();
    }
    return codes;
  });
  assert.deepEqual(got, ["NoHalfPrecision", "NoEffect"]);
});
