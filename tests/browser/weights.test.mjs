// Weights: streaming in bounded memory over bad connections, storage, and models in several files.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { llama, llamaParts } from "./lib/gguf.mjs";
import { ALL, REPOSITORY, blank, json, run, shared, takes, TINY } from "./lib/setup.mjs";

const tiny = readFileSync(TINY);
/** A model that is larger than the module's memory may become, and the bytes after which its connections break. */
const [LAYERS, LEAST, BREAK] = ALL ? [32, 600e6, 97e6] : [12, 280e6, 44e6];
const big = llama({ layers: LAYERS, width: 1024, hidden: 4096, heads: 16, vocab: 32_000 });
const middle = llama({ layers: 4, width: 512, hidden: 2048, heads: 8, vocab: 8000 });
const small = { layers: 2, width: 64, hidden: 128, heads: 2, vocab: 256 };
const CHUNK = 4 << 20;
const MOST_WASM = 200e6;

let site;
before(async () => {
  const virtual = { "/big.gguf": big, "/middle.gguf": middle, "/small.gguf": llama(small) };
  llamaParts(small, 3).forEach((part, i) => (virtual[`/small-0000${i + 1}-of-00003.gguf`] = part));
  site = { ...(await blank({ virtual })), virtual };
});
after(() => site.close());

/** Loads a model and samples a few tokens. Returns time, memory and requests. */
const loadOnce = async ({ Wisp }, { new_tokens = 1, prompt = [1, 2, 3], ...options }) => {
  const phases = new Set();
  const wisp = await Wisp.load({ ...options, onProgress: ({ phase }) => phases.add(phase) });
  const { choices: [{ token_ids }] } = await wisp.completions.create({ prompt, max_tokens: new_tokens, return_token_ids: true, ignore_eos: true });
  const memory = await wisp.memory();
  await wisp.unload();
  return { tokens: token_ids, memory, phases: [...phases] };
};

/** Returns where the requests for a file since the last call began, without the one that checks its version. */
function requests(path) {
  const found = site.server.state.requests.filter((request) => request.path === path && request.range !== "bytes=0-0");
  site.server.state.requests.length = 0;
  return found.map(({ range }) => Number(/^bytes=(\d+)-/.exec(range)[1]));
}

test(`${LEAST / 1e6} MB load in bounded memory over slow and broken connections, then without a network`, async () => {
  assert.ok(big.size > LEAST, `${big.size}`);
  let broken = 0;
  // The first connection is slow, and waits in the middle of a piece before it breaks; the others break later.
  site.server.state.fault = ({ path, range }) => {
    if (path !== "/big.gguf") return {};
    broken += 1;
    return Number(range?.[1] ?? 0) === 0 ? { breakAfter: 2.5 * CHUNK, delay: 20, linger: 2000 } : { breakAfter: BREAK };
  };
  const first = await run(site.page, loadOnce, { model: "/big.gguf", maxSteps: 1, maxStepTokens: 4 });
  assert.ok(first.memory, JSON.stringify(first));
  assert.ok(first.memory.wasm < MOST_WASM, `${first.memory.wasm} bytes of wasm memory`);
  assert.ok(first.memory.gpu > LEAST);
  const starts = requests("/big.gguf");
  assert.ok(broken >= 6, `${broken} connections`);
  // Received bytes are not requested again. (Chromium drops what it received before a connection broke and the page had
  // not read yet, so this is exact only for the connection that waits.)
  assert.deepEqual(starts.slice(0, 2), [0, 2.5 * CHUNK]);
  site.server.state.fault = ({ path }) => (path === "/big.gguf" ? { status: 503 } : {});
  const second = await run(site.page, loadOnce, { model: "/big.gguf", maxSteps: 1, maxStepTokens: 4 });
  assert.deepEqual(second.tokens, first.tokens);
  assert.ok(second.memory.wasm < MOST_WASM);
  assert.deepEqual(requests("/big.gguf"), [], "the second load needs no network");
});

test("a stopped load resumes", async () => {
  site.server.state.fault = undefined;
  await run(site.page, ({ models }) => models.clear());
  const stopped = await run(site.page, async ({ Wisp }) => {
    const controller = new AbortController();
    const onProgress = ({ loaded }) => loaded > 12e6 && controller.abort();
    await Wisp.load({ model: "/middle.gguf", onProgress, signal: controller.signal });
  });
  assert.equal(stopped.code, "Aborted");
  requests("/middle.gguf");
  const whole = await run(site.page, loadOnce, { model: "/middle.gguf" });
  assert.ok(whole.tokens, JSON.stringify(whole));
  const starts = requests("/middle.gguf");
  assert.ok(Math.min(...starts) >= 2 * CHUNK, `asked for again from ${starts}`);
});

test("stored models are verified, listed and deleted", async () => {
  const out = await run(site.page, async ({ models }) => {
    const listed = await models.list();
    const folder = await (await navigator.storage.getDirectory()).getDirectoryHandle("wisp-models");
    for await (const model of folder.values()) {
      const handle = await model.getFileHandle("1");
      const stream = await handle.createWritable({ keepExistingData: true });
      await stream.write({ type: "write", position: 5000, data: new Uint8Array([1, 2, 3]) });
      await stream.close();
    }
    return listed;
  });
  assert.equal(out.length, 1);
  assert.equal(out[0].size, middle.size);
  assert.equal(out[0].stored, middle.size);
  requests("/middle.gguf");
  const got = await run(site.page, loadOnce, { model: "/middle.gguf" });
  assert.deepEqual(got.phases.includes("downloading"), true);
  assert.deepEqual(requests("/middle.gguf"), [CHUNK], "only the damaged piece");
  const left = await run(site.page, async ({ models }, url) => [await models.remove(url), await models.remove(url), await models.list()], out[0].url);
  assert.deepEqual(left, [true, false, []]);
});

/** Loads a model, and returns its tokens, the codes of warnings, and what was received and of how much. */
const loadWhole = async ({ Wisp }, options) => {
  const [warnings, received, totals] = [[], [], new Set()];
  const wisp = await Wisp.load({
    ...options,
    onWarning: ({ code }) => warnings.push(code),
    onProgress: ({ phase, loaded, total }) => {
      if (phase !== "downloading" || loaded === 0) return;
      received.push(loaded);
      totals.add(total);
    },
  });
  const { choices: [{ token_ids }] } = await wisp.completions.create({ prompt: [1, 2, 3], max_tokens: 4, return_token_ids: true, ignore_eos: true });
  await wisp.unload();
  return { tokens: token_ids, warnings, most: Math.max(0, ...received), totals: [...totals] };
};

let known;
/** Returns the tokens of /middle.gguf over a good connection. */
async function middleTokens() {
  if (!known) {
    const got = await run(site.page, loadWhole, { model: "/middle.gguf", cache: "none" });
    assert.ok(got.tokens, JSON.stringify(got));
    known = got.tokens;
  }
  return known;
}

// An ordinary run takes two of the servers, one with each storage.
for (const [i, [name, fault, knowsLength]] of [
  ["without ranges", { ignoreRange: true }, true],
  ["without a length and ranges", { ignoreRange: true, noLength: true }, false],
  ["that compresses", { compress: true }, false],
  ["that compresses in chunks", { compress: true, noLength: true }, false],
].entries()) {
  for (const cache of ["prefer", "none"].filter((_, j) => takes(i + 2 * j, 4))) {
    test(`a model loads from a server ${name}, with storage "${cache}"`, async () => {
      await run(site.page, ({ models }) => models.clear());
      const tokens = await middleTokens();
      site.server.state.requests.length = 0;
      site.server.state.fault = ({ path }) => (path === "/middle.gguf" ? fault : {});
      const got = await run(site.page, loadWhole, { model: "/middle.gguf", cache });
      site.server.state.fault = undefined;
      assert.deepEqual(got.tokens, tokens, JSON.stringify(got));
      assert.deepEqual(got.warnings, ["NotResumable"]);
      assert.equal(got.most, middle.size);
      assert.deepEqual(got.totals, [knowsLength ? middle.size : 0]);
      // Chromium refuses a compressed answer to a request for a range, so that the one after the second asks for the whole file.
      const asked = site.server.state.requests.filter(({ path }) => path === "/middle.gguf");
      assert.ok(asked.length <= (fault.compress ? 3 : 1), JSON.stringify(asked));
      const stored = await run(site.page, ({ models }) => models.list());
      assert.deepEqual(stored.map(({ size, stored }) => [size, stored]), cache === "none" ? [] : [[middle.size, middle.size]]);
      if (cache === "none") return;
      // What is stored needs no server.
      site.server.state.fault = ({ path }) => (path === "/middle.gguf" ? { status: 500 } : {});
      const again = await run(site.page, loadWhole, { model: "/middle.gguf" });
      site.server.state.fault = undefined;
      assert.deepEqual([again.tokens, again.warnings], [tokens, []]);
      await run(site.page, ({ models }) => models.clear());
    });
  }
}

test("a server whose headers other sites cannot read, and that refuses ranges to them, is enough", async () => {
  const tokens = await middleTokens();
  const { serve } = await import("./lib/server.mjs");
  const other = await serve({ virtual: { "/middle.gguf": middle } });
  const hidden = { "Access-Control-Allow-Origin": "*", "Access-Control-Expose-Headers": "" };
  other.state.headers = hidden;
  const faults = [{}, { ignoreRange: true }, { noLength: true }, { ignoreRange: true, noLength: true }, { compress: true }];
  for (const fault of faults.filter((_, i) => takes(i, 5) || takes(i + 2, 5))) {
    other.state.fault = ({ request }) => (request.method === "OPTIONS" ? { status: 204, headers: { "Access-Control-Allow-Origin": "*" } } : fault);
    const got = await run(site.page, loadWhole, { model: `${other.url}/middle.gguf`, cache: "none" });
    assert.deepEqual(got.tokens, tokens, `${JSON.stringify(fault)}: ${JSON.stringify(got)}`);
  }
  await other.close();
});

test("a whole download that breaks begins again, and one that always breaks is a Network error", async () => {
  let count = 0;
  const fault = { ignoreRange: true, noLength: true, breakAfter: 9_000_000 };
  site.server.state.fault = ({ path }) => (path === "/middle.gguf" && (count += 1) === 1 ? fault : { ...fault, breakAfter: undefined });
  const got = await run(site.page, loadWhole, { model: "/middle.gguf" });
  assert.ok(got.tokens, JSON.stringify(got));
  assert.deepEqual(got.warnings, ["NotResumable"]);
  await run(site.page, ({ models }) => models.clear());
  site.server.state.fault = ({ path }) => (path === "/middle.gguf" ? fault : {});
  const failed = await run(site.page, loadWhole, { model: "/middle.gguf" });
  site.server.state.fault = undefined;
  assert.equal(failed.code, "Network", JSON.stringify(failed));
  const stored = await run(site.page, ({ models }) => models.list());
  assert.deepEqual(stored, [], "a part of a file is no model");
  assert.deepEqual(await folders(), [], "and takes no storage");
});

/** Returns the names of the folders of stored models. */
const folders = () => site.page.evaluate(async () => {
  const names = [];
  const storage = await navigator.storage.getDirectory();
  for await (const name of (await storage.getDirectoryHandle("wisp-models", { create: true })).keys()) names.push(name);
  return names;
});

test("a whole download is listed while it arrives, and deleted after it was stopped", async () => {
  await run(site.page, ({ models }) => models.clear());
  site.server.state.fault = ({ path }) => (path === "/middle.gguf" ? { ignoreRange: true, delay: 20 } : {});
  const { code, listed } = await run(site.page, async ({ Wisp, models }) => {
    const controller = new AbortController();
    let listed;
    const onProgress = ({ loaded }) => {
      if (loaded > 9e6) listed ??= models.list().finally(() => controller.abort());
    };
    const { code } = await Wisp.load({ model: "/middle.gguf", onProgress, signal: controller.signal }).catch((error) => error);
    return { code, listed: await listed };
  });
  site.server.state.fault = undefined;
  assert.equal(code, "Aborted");
  assert.equal(listed.length, 1);
  assert.ok(listed[0].size === 0 && listed[0].stored >= 2 * CHUNK, JSON.stringify(listed));
  for (let tries = 0; tries < 20 && (await folders()).length > 0; tries++) {
    assert.deepEqual(await run(site.page, ({ models }) => models.list()), []);
    await site.page.waitForTimeout(100);
  }
  assert.deepEqual(await folders(), []);
});

test("requests for a part that fail twice do not end resumability", async () => {
  let asked = 0;
  // Chromium refuses a compressed answer to such a request.
  site.server.state.fault = ({ path, range }) => (path === "/middle.gguf" && range && ++asked <= 2 ? { compress: true } : {});
  const got = await run(site.page, loadWhole, { model: "/middle.gguf", cache: "none" });
  site.server.state.fault = undefined;
  assert.ok(got.tokens, JSON.stringify(got));
  assert.deepEqual(got.warnings, []);
  assert.ok(asked > 2, `${asked} requests`);
});

test("an incomplete model is of one version, and a complete one is checked on demand", async () => {
  await run(site.page, ({ models }) => models.clear());
  let version = "1";
  site.server.state.fault = ({ path }) => (path.startsWith("/small-") ? { headers: { ETag: `"${version}"` } } : {});
  const urls = [1, 2, 3].map((part) => `/small-0000${part}-of-00003.gguf`);
  const load = (options) => run(site.page, loadOnce, { model: urls[0], ...options });
  const tags = () => run(site.page, async ({ models }) => (await models.list()).map(({ etag }) => etag));
  assert.ok((await load()).tokens);
  await run(site.page, ({ models }, url) => models.remove(new URL(url, location.href).href), urls[2]);
  version = "2";
  assert.ok((await load()).tokens);
  assert.deepEqual(await tags(), Array(3).fill('"2"'), "the stored parts are those of the missing one");
  version = "3";
  // An ordinary run takes one of two loads that change nothing.
  if (takes(0, 2)) {
    assert.ok((await load()).tokens);
    assert.deepEqual(await tags(), Array(3).fill('"2"'), "a complete model needs no network");
  }
  assert.ok((await load({ cache: "check" })).tokens);
  assert.deepEqual(await tags(), Array(3).fill('"3"'));
  if (takes(1, 2)) {
    site.server.state.fault = ({ path }) => (path.startsWith("/small-") ? { status: 503 } : {});
    assert.ok((await load({ cache: "check" })).tokens, "without an answer the stored model is used");
  }
  site.server.state.fault = undefined;
  await run(site.page, ({ models }) => models.clear());
});

test("the model of the page loads from a server without a length", async () => {
  site.server.state.fault = ({ path }) => (path.endsWith(".gguf") ? { ignoreRange: true, noLength: true } : {});
  const got = await run(site.page, loadWhole, {});
  site.server.state.fault = undefined;
  assert.ok(got.tokens, JSON.stringify(got));
  assert.deepEqual(got.warnings, [], "nothing is lost with a file of one piece");
});

test("a model that changes during its download is a Network error", async () => {
  let count = 0;
  site.server.state.fault = ({ path }) => {
    if (path !== "/middle.gguf") return {};
    count += 1;
    return { breakAfter: 6_000_000, headers: { ETag: `"${count}"` } };
  };
  const got = await run(site.page, loadOnce, { model: "/middle.gguf" });
  site.server.state.fault = undefined;
  assert.equal(got.code, "Network");
  assert.match(got.message, /has changed/);
  await run(site.page, ({ models }) => models.clear());
});

test("a model in more files than a browser opens connections is opened", async () => {
  // Chromium buffers the first 100 MB of what is not read.
  for (let i = 1; i <= 8; i++) site.virtual[`/many-0000${i}-of-00008.gguf`] = { size: 300e6, read: (start, end) => Buffer.alloc(end - start) };
  const opened = await run(site.page, ({ Wisp }) => Wisp.load({ model: "/many-00001-of-00008.gguf", cache: "none", signal: AbortSignal.timeout(30_000) }));
  assert.equal(opened.code, "ModelFormat", opened.message);
});

test("a GGUF model in several files loads", async () => {
  // Addresses are relative to the page's, and the URL of any part names all of them.
  for (const model of [{ urls: ["small.gguf"] }, "small-00002-of-00003.gguf"]) {
    const got = await run(site.page, loadOnce, { model, cache: "none" });
    assert.ok(got.tokens, JSON.stringify(got));
  }
  const alone = await run(site.page, async ({ Wisp }) => {
    const part = new File([await (await fetch("/small-00001-of-00003.gguf")).blob()], "small-00001-of-00003.gguf");
    await Wisp.load({ model: part });
  });
  assert.equal(alone.code, "ModelFormat");
  assert.match(alone.message, /one of 3 parts/);
});

/** Starts a hub. `publish` sets the files of its repository org/tiny. */
async function serveHub() {
  const { serve } = await import("./lib/server.mjs");
  const virtual = {};
  const hub = await serve({ virtual });
  hub.state.headers = { "Access-Control-Allow-Origin": "*" };
  hub.state.fault = ({ request }) => (request.method === "OPTIONS" ? { status: 204, headers: { "Access-Control-Allow-Origin": "*", "Access-Control-Allow-Headers": "Range" } } : {});
  const put = (path, bytes) => (virtual[path] = { size: bytes.length, read: (start, end) => bytes.subarray(start, end) });
  const publish = (files) => {
    const listing = Object.entries(files).map(([path, { length: size }]) => ({ type: "file", path, size }));
    put("/api/models/org/tiny/tree/main", Buffer.from(JSON.stringify(listing)));
    for (const [path, bytes] of Object.entries(files)) put(`/org/tiny/resolve/main/${path}`, bytes);
  };
  return { ...hub, publish };
}

test("a hub repository loads by encoding, then without a network", async () => {
  const hub = await serveHub();
  const files = { "README.md": Buffer.alloc(10), "tiny-Q4_K_M.gguf": Buffer.alloc(1) };
  hub.publish({ ...files, "tiny-F16.gguf": tiny });
  const model = { repo: "org/tiny", file: "f16", endpoint: hub.url };
  const first = await run(site.page, loadOnce, { model, new_tokens: 4 });
  assert.ok(first.tokens, JSON.stringify(first));
  // A file that is newer than the stored listing is found.
  const newer = { model: { ...model, file: "q8_0" }, new_tokens: 4 };
  assert.equal((await run(site.page, loadOnce, newer)).code, "ModelFormat");
  hub.publish({ ...files, "tiny-F16.gguf": tiny, "tiny-Q8_0.gguf": tiny });
  assert.deepEqual((await run(site.page, loadOnce, newer)).tokens, first.tokens);
  await hub.close();
  const second = await run(site.page, loadOnce, { model, new_tokens: 4 });
  assert.deepEqual(second.tokens, first.tokens);
  await run(site.page, ({ models }) => models.clear());
});

for (const name of ["llama", "qwen3"].filter((_, i) => takes(i, 2))) {
  test(`safetensors of ${name} load from two files with their configuration`, async (t) => {
    const folder = shared(`goldens/${name}`);
    if (!folder) return t.skip("no ../shared");
    const { tokens, greedy } = json(join(folder, "golden.json"));
    const files = shards(readFileSync(join(folder, "model.safetensors")));
    files["config.json"] = readFileSync(join(folder, "config.json"));
    for (const [file, bytes] of Object.entries(files)) {
      site.virtual[`/${name}/${file}`] = { size: bytes.length, read: (start, end) => bytes.subarray(start, end) };
    }
    const model = `/${name}/model.safetensors.index.json`;
    const got = await run(site.page, loadOnce, { model, cache: "none", prompt: tokens, new_tokens: greedy.length });
    assert.deepEqual(got.tokens, greedy, JSON.stringify(got));
  });
}

if (takes(1, 2)) test("safetensors of a hub repository load, then without a network", async (t) => {
  const folder = shared("goldens/llama");
  if (!folder) return t.skip("no ../shared");
  const hub = await serveHub();
  hub.publish(Object.fromEntries(["config.json", "model.safetensors"].map((file) => [file, readFileSync(join(folder, file))])));
  const { tokens, greedy } = json(join(folder, "golden.json"));
  const options = { model: { repo: "org/tiny", endpoint: hub.url }, prompt: tokens, new_tokens: greedy.length };
  const first = await run(site.page, loadOnce, options);
  await hub.close();
  const second = await run(site.page, loadOnce, options);
  await run(site.page, ({ models }) => models.clear());
  for (const got of [first, second]) assert.deepEqual(got.tokens, greedy, JSON.stringify(got));
});

if (takes(0, 2)) test("safetensors at an address load, then without a network", async () => {
  const folder = join(REPOSITORY, "tests/fixtures/goldens/olmo3");
  const hub = await serveHub();
  hub.publish(Object.fromEntries(["config.json", "model.safetensors"].map((file) => [file, readFileSync(join(folder, file))])));
  const { tokens, greedy } = json(join(folder, "golden.json"));
  const options = { model: `${hub.url}/org/tiny/resolve/main/model.safetensors`, prompt: tokens, new_tokens: greedy.length };
  const first = await run(site.page, loadOnce, options);
  await hub.close();
  const second = await run(site.page, loadOnce, options);
  await run(site.page, ({ models }) => models.clear());
  for (const got of [first, second]) assert.deepEqual(got.tokens, greedy, JSON.stringify(got));
});

test("safetensors load from a folder that is within the chosen one", async () => {
  const folder = join(REPOSITORY, "tests/fixtures/goldens/olmo3");
  for (const file of ["config.json", "model.safetensors"]) {
    const bytes = readFileSync(join(folder, file));
    site.virtual[`/olmo3/${file}`] = { size: bytes.length, read: (start, end) => bytes.subarray(start, end) };
  }
  const { tokens, greedy } = json(join(folder, "golden.json"));
  const got = await run(site.page, async ({ Wisp }, { prompt, max_tokens }) => {
    const at = (path, parts) => Object.defineProperty(new File(parts, path.split("/").at(-1)), "webkitRelativePath", { value: path });
    const served = async (file) => at(`models/main/${file}`, [await (await fetch(`/olmo3/${file}`)).blob()]);
    // Another configuration of the same name is no model's.
    const model = [await served("config.json"), at("models/main/1_Pooling/config.json", ["{}"]), await served("model.safetensors")];
    // What a page sets on a file does not reach a worker.
    const wisp = await Wisp.load({ model, worker: false });
    const { choices: [{ token_ids }] } = await wisp.completions.create({ prompt, max_tokens, return_token_ids: true, ignore_eos: true });
    await wisp.unload();
    return token_ids;
  }, { prompt: tokens, max_tokens: greedy.length });
  assert.deepEqual(got, greedy);
});

/** Splits a checkpoint into two files with an index. */
function shards(bytes) {
  const end = 8 + Number(bytes.readBigUInt64LE(0));
  const header = JSON.parse(bytes.subarray(8, end));
  const names = Object.keys(header).filter((name) => name !== "__metadata__");
  const files = {};
  const weight_map = {};
  for (const part of [0, 1]) {
    const file = `model-0000${part + 1}-of-00002.safetensors`;
    const own = {};
    const data = [];
    let at = 0;
    for (const name of names.filter((_, i) => i % 2 === part)) {
      const [from, to] = header[name].data_offsets;
      data.push(bytes.subarray(end + from, end + to));
      own[name] = { ...header[name], data_offsets: [at, at + to - from] };
      at += to - from;
      weight_map[name] = file;
    }
    const text = Buffer.from(JSON.stringify(own));
    const length = Buffer.alloc(8);
    length.writeBigUInt64LE(BigInt(text.length));
    files[file] = Buffer.concat([length, text, ...data]);
  }
  files["model.safetensors.index.json"] = Buffer.from(JSON.stringify({ metadata: {}, weight_map }));
  return files;
}

test("the smallest model of a hub repository is that of the smallest sum of parts", async () => {
  const hub = await serveHub();
  const parts = llamaParts(small, 3).map(({ size, read }) => read(0, size));
  const whole = parts.reduce((sum, { length }) => sum + length, 0);
  hub.publish({
    "larger-00001-of-00002.gguf": Buffer.alloc(whole), "larger-00002-of-00002.gguf": Buffer.alloc(1),
    "single.gguf": Buffer.alloc(whole + 1),
    ...Object.fromEntries(parts.map((bytes, i) => [`small-0000${i + 1}-of-00003.gguf`, bytes])),
  });
  const got = await run(site.page, loadOnce, { model: { repo: "org/tiny", endpoint: hub.url }, cache: "none" });
  await hub.close();
  assert.ok(got.tokens, JSON.stringify(got));
});
