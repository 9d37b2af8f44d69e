// Runs every kernel on the browser's adapter and on the CPU with the cases of the native tests, and compares the outputs with
// those of the host twins. `WISP_KERNEL_RECORDS=FOLDER cargo test -p wisp-tests --test kernels` writes the cases.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { closeSync, openSync, readdirSync, readFileSync, readSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { ALL, blank, TURN } from "./lib/setup.mjs";

const folder = process.env.WISP_KERNEL_RECORDS;
const names = folder ? readdirSync(folder).filter((name) => name.endsWith(".case")).sort() : [];
const options = { skip: names.length === 0 && "WISP_KERNEL_RECORDS names no folder with records" };

let site;
before(async () => names.length > 0 && (site = await blank({ mounts: { "/records/": folder } })));
after(() => site?.close());

const ops = [...new Set(names.map((name) => name.replace(/-[0-9a-f]{16}\.case$/, "")))];

// An ordinary run takes some cases of each op and some kernels, because the browser takes a second to compile one: the
// products of one encoding, attention over one format of the cache, and all other kernels but those of rare encodings; of these
// a sixth, and of those that are left a twentieth. Runs of other commits take others.
const MAX_RECORDS = ALL ? Infinity : 8;
// Formats of the KV cache.
const CACHES = ["f32", "f16", "q8_0"];
const RARE = ["bf16", "f8_e4m3", "iq2", "iq3", "iq4_nl", "iq4_xs", "mxfp4", "nf4", "nvfp4", "q2_k", "q3_k", "q4_1", "q5_0", "q5_1", "q5_k", "tq2_0",
  "uint4", "uint8"];
const digest = (name) => createHash("sha256").update(name).digest()[0];
const isTaken = (kernel) => {
  const [op, encoding] = kernel.split(".");
  const chosen = op.startsWith("matmul") ? "q4_0" : op.includes("attention") && CACHES.includes(encoding) ? "f16" : undefined;
  const isCommon = chosen ? encoding === chosen : !RARE.includes(encoding);
  return ALL || (digest(kernel) + TURN) % (isCommon ? 6 : 20) === 0;
};

const kernelsByRecord = new Map();
/** The kernels of a record's runs. */
function kernelsOf(name) {
  if (!kernelsByRecord.has(name)) kernelsByRecord.set(name, readHead(name).runs.map(({ kernel }) => kernel));
  return kernelsByRecord.get(name);
}

/** Reads the head of a record, which is short: its length in a u32, and JSON. */
function readHead(name) {
  const file = openSync(join(folder, name));
  try {
    const length = Buffer.alloc(4);
    readSync(file, length, 0, length.length, 0);
    const head = Buffer.alloc(length.readUInt32LE(0));
    readSync(file, head, 0, head.length, length.length);
    return JSON.parse(head.toString());
  } finally {
    closeSync(file);
  }
}

/** At most `most` of some names, spread over all of them. */
const spread = (names, most) => names.filter((_, i) => Math.floor((i * most) / names.length) !== Math.floor(((i - 1) * most) / names.length) || names.length <= most);

// The kernels that are not run: those that are not taken, and with all features those that need none of them.
const left = new Set(names.flatMap(kernelsOf).filter((kernel) => !isTaken(kernel)));

for (const [name, mode] of Object.entries({
  "on WebGPU with default limits": { baseline: true },
  "on WebGPU with all features of the adapter": { baseline: false },
  "on the CPU": { cpu: true },
})) {
  test(`kernels match the host twins ${name}`, options, async () => {
    const outcome = { runs: 0, kernels: new Set(), unmet: new Set(), failures: [] };
    await site.page.reload();
    await site.page.evaluate(prepare, mode);
    // One op at a time, so that a hanging op is identified.
    for (const op of ops) {
      const ofOp = names.filter((name) => name.startsWith(`${op}-`) && name.length === op.length + 22);
      const sampled = spread(ofOp, MAX_RECORDS);
      const records = sampled.filter((name) => mode.cpu || kernelsOf(name).some((kernel) => !left.has(kernel)));
      if (records.length === 0) continue;
      // On the CPU the kernels of a case are one function.
      const { runs, kernels, unmet, failures } = await site.page.evaluate(check, { names: records, left: [...left], first: mode.cpu });
      outcome.runs += runs;
      kernels.forEach((kernel) => outcome.kernels.add(kernel));
      unmet.forEach((kernel) => outcome.unmet.add(kernel));
      outcome.failures.push(...failures);
    }
    console.log(`${outcome.runs} runs of ${outcome.kernels.size} kernels; not run: ${[...outcome.unmet].join(", ") || "none"}`);
    // Kernels do nothing for an index that is out of range; the CPU refuses it.
    const isRefusal = (failure) => mode.cpu && / must be .*, it is \d+$/.test(failure);
    assert.deepEqual(outcome.failures.filter((failure) => !isRefusal(failure)), []);
    assert.ok(!mode.baseline || outcome.kernels.size > (ALL ? 400 : 25), "every kernel that is taken and needs no feature runs");
    assert.ok(!mode.cpu || new Set([...outcome.kernels].map((kernel) => kernel.split(".")[0])).size > 25, "every op runs");
    if (!mode.cpu) outcome.kernels.forEach((kernel) => left.add(kernel));
  });
}

test("custom ops run and can be debugged", options, async () => {
  const example = (ending) => readFileSync(new URL(`../../engine/examples/custom_op.${ending}`, import.meta.url), "utf8");
  const [declaration, source] = [example("toml"), example("wgsl")];
  const [rows, cols] = [3, 21];
  const heat = Array.from({ length: rows * cols }, (_, i) => Math.fround(Math.sin(i)));
  await site.page.reload();
  await site.page.evaluate(prepare, { baseline: true });
  const run = async (source, heat, { debug = "", again = false } = {}) =>
    site.page.evaluate(
      async ([declaration, source, shape, heat, debug, again]) => {
        const { kernels, compiled } = globalThis;
        const op = await kernels.custom("spread", declaration, source, new Uint32Array(shape), debug);
        await compiled();
        const result = [...(await op.run(new Float32Array(heat)))];
        if (again) op.submit();
        return result;
      },
      [declaration, source, [rows, cols], heat, debug, again],
    );
  const at = (y, x) => heat[y * cols + x];
  const spread = (y, x) => {
    const near = [[y - 1, x], [y, x - 1], [y + 1, x], [y, x + 1]].filter(([y, x]) => y >= 0 && x >= 0 && y < rows && x < cols);
    return at(y, x) + 0.1 * near.reduce((more, [v, u]) => more + at(v, u) - at(y, x), 0);
  };
  const actual = await run(source, heat, { again: true });
  assert.equal(actual.length, heat.length);
  actual.forEach((value, i) => assert.ok(Math.abs(value - spread(Math.floor(i / cols), i % cols)) < 1e-6, `element ${i} is ${value}`));
  // The browser reports the error to the device and to the pipeline; the load fails only if the device has it before its end.
  const refusals = await site.page.evaluate(
    async ([declaration, source, shape]) => {
      const message = (call) => call.then(() => "", (error) => String(error));
      const load = await message(globalThis.kernels.custom("spread", declaration, source, new Uint32Array(shape), ""));
      return { load, compilation: await message(globalThis.compiled()) };
    },
    [declaration, source.replace("var more = 0.0;", "var more = nothing;"), [rows, cols]],
  );
  assert.match(refusals.load, /^$|refused [\s\S]*var more = nothing;/);
  assert.match(refusals.compilation, /refused spread\.custom\.[\s\S]*nothing[\s\S]*var more = nothing;/);
  await site.page.evaluate(prepare, { baseline: true });
  // Debugging waits for results during a run, which only asynchronous calls can do in a browser.
  const debug = "nan-check,sync";
  assert.deepEqual(await run(source, heat, { debug }), actual);
  const holed = heat.with(5, Infinity);
  await assert.rejects(run(source, holed, { debug }), /custom: spread made (NaN|inf): element \d+ of 63 of spread/);
  await assert.rejects(run(source, heat, { debug, again: true }), /a browser cannot wait: with debugging, run models by Model::execute/);
  await assert.rejects(run(source, heat, { debug: "fast" }), /the debug setting "fast": there are nan-check/);
});

/** Opens the device on the page, and requests subgroups as the package does. */
async function prepare({ baseline = false, cpu = false }) {
  const wasm = await import("/wisp-web/wisp_web.js");
  const gpu = await import("/wisp-web/gpu.js");
  await wasm.default();
  await gpu.prepare(baseline, true);
  globalThis.kernels = await wasm.Kernels.open(cpu, baseline);
  globalThis.compiled = gpu.compiled;
}

/** Runs records on the page, several at a time: while a kernel is compiled, others run and are compared. */
async function check({ names, left, first }) {
  const LANES = 8;
  const kernels = globalThis.kernels;
  const outcome = { runs: 0, kernels: [], unmet: [], failures: [] };
  const floats = (bytes) => new Float32Array(bytes.slice().buffer);
  /** `|a - b| / |b|`; NaN if either contains a NaN. */
  const error = (a, b) => {
    const [x, y] = [floats(a), floats(b)];
    let [off, norm] = [0, 0];
    for (let i = 0; i < y.length; i++) {
      off += (x[i] - y[i]) ** 2;
      norm += y[i] ** 2;
    }
    return Math.sqrt(off / Math.max(norm, 1e-30));
  };
  const differs = (actual, expected, bound) => {
    // Buffers are allocated in multiples of 16 bytes, whatever size a case has.
    const padded = Math.ceil(expected.length / 16) * 16;
    if (actual.length === padded) actual = actual.subarray(0, expected.length);
    if (actual.length !== expected.length) return `${actual.length} bytes, not ${expected.length}`;
    if (actual.length === 0 || bound === "any") return undefined;
    if (bound === "exact") {
      const at = actual.findIndex((byte, i) => byte !== expected[i]);
      return at < 0 ? undefined : `byte ${at} is ${actual[at]}, the twin's ${expected[at]}`;
    }
    const off = error(actual, expected);
    return off <= bound ? undefined : `error ${off} of ${bound}`;
  };
  const runOne = async (head, kernel, workgroups, memory, expected) => {
    const unmet = kernels.unmet(kernel);
    if (unmet) {
      // The device may compile kernels that it cannot run.
      if (unmet === "subgroup size" && !outcome.unmet.some((known) => known.startsWith(kernel))) await kernels.compile(kernel);
      outcome.unmet.push(`${kernel} (${unmet})`);
      return globalThis.compiled();
    }
    await kernels.compile(kernel);
    await globalThis.compiled();
    const actual = await kernels.run(kernel, memory, new Uint32Array(workgroups), head.dispatches);
    outcome.runs += 1;
    outcome.kernels.push(kernel);
    head.bounds.forEach((bound, i) => {
      const problem = differs(actual[i], expected[i], bound);
      if (problem) outcome.failures.push(`${kernel}, ${head.label}, binding ${i + 1}: ${problem}`);
    });
  };
  const runRecord = async (name) => {
    const record = new Uint8Array(await (await fetch(`/records/${encodeURIComponent(name)}`)).arrayBuffer());
    const length = new DataView(record.buffer).getUint32(0, true);
    const head = JSON.parse(new TextDecoder().decode(record.subarray(4, 4 + length)));
    let at = 4 + length;
    const parts = head.sizes.map((size) => record.slice(at, (at += size)));
    const memory = parts.slice(0, 1 + head.bounds.length);
    const expected = parts.slice(memory.length);
    const runs = first ? head.runs.slice(0, 1) : head.runs.filter(({ kernel }) => !left.includes(kernel));
    for (const { kernel, workgroups } of runs) {
      await runOne(head, kernel, workgroups, memory, expected).catch((failure) => outcome.failures.push(`${kernel}, ${head.label}: ${failure.message}`));
    }
  };
  const lane = async () => {
    for (let name; (name = names.shift()); ) await runRecord(name);
  };
  await Promise.all(Array.from({ length: LANES }, lane));
  outcome.kernels = [...new Set(outcome.kernels)];
  outcome.unmet = [...new Set(outcome.unmet)];
  return outcome;
}
