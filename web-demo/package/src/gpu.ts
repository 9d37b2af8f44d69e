import { WispError } from "./errors.js";

// What wgpu's WebGPU does not pass through: subgroups, and pipelines that are compiled asynchronously.

/** The device that was opened last: Wisp's own, because nothing else runs while it opens one. */
let opened: GPUDevice | undefined;
let baselineOnly = false;
let wrapped = false;

/** A pipeline that the browser compiles, several at a time. */
interface Coming {
  pipeline: GPUComputePipeline | undefined;
  /** Compiles it at once: for whoever cannot wait. */
  now: () => GPUComputePipeline;
}

/** By what wgpu holds in their places. */
const coming = new WeakMap<object, Coming>();
/** Those that nobody has waited for to the end. */
const compiling = new Set<Promise<void>>();

/** Lets a device compile pipelines asynchronously, and gives wgpu what stands for them until they are needed. */
function compileAsynchronously(device: GPUDevice): void {
  const now = device.createComputePipeline.bind(device);
  device.createComputePipeline = (descriptor) => {
    const place = {} as GPUComputePipeline;
    const one: Coming = { pipeline: undefined, now: () => now(descriptor) };
    coming.set(place, one);
    const done = device.createComputePipelineAsync(descriptor).then((pipeline) => void (one.pipeline = pipeline));
    // A failure is for whoever waits.
    done.catch(() => {});
    compiling.add(done);
    return place;
  };
}

function wrapSetPipeline(): void {
  const set = GPUComputePassEncoder.prototype.setPipeline;
  GPUComputePassEncoder.prototype.setPipeline = function (pipeline) {
    const one = coming.get(pipeline);
    set.call(this, one ? (one.pipeline ??= one.now()) : pipeline);
  };
}

/** Waits for the pipelines that are being compiled. */
export async function compiled(): Promise<void> {
  const waited = [...compiling];
  const ended = await Promise.allSettled(waited);
  for (const one of waited) compiling.delete(one);
  const failed = ended.find((one) => one.status === "rejected");
  if (failed) throw new WispError("Internal", `the browser cannot compile a kernel: ${failed.reason.message}`, failed.reason);
}

/** wgpu asks the browser for no subgroups, even where there are some. This asks for them. */
function wrapRequestDevice(): void {
  const request = GPUAdapter.prototype.requestDevice;
  GPUAdapter.prototype.requestDevice = async function (descriptor) {
    if (descriptor?.label !== "wisp") return request.call(this, descriptor);
    const features = [...(descriptor.requiredFeatures ?? [])];
    if (!baselineOnly && this.features.has("subgroups")) features.push("subgroups");
    opened = await request.call(this, { ...descriptor, requiredFeatures: features });
    compileAsynchronously(opened);
    return opened;
  };
}

/** Makes sure that there is a WebGPU adapter, and prepares for the engine's device. */
export async function prepare(baseline: boolean): Promise<void> {
  const gpu = globalThis.navigator?.gpu;
  if (!gpu) throw new WispError("NoWebGpu", "this browser has no WebGPU");
  const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" }).catch(() => null);
  if (!adapter) throw new WispError("NoWebGpu", "this browser's WebGPU finds no GPU that it may use");
  if (!wrapped) {
    wrapped = true;
    wrapRequestDevice();
    wrapSetPipeline();
  }
  baselineOnly = baseline;
  opened = undefined;
  compiling.clear();
}

/** The engine's device, once it is open. */
export function device(): GPUDevice | undefined {
  return opened;
}
