import { WispError } from "./errors.js";

// WebGPU features that wgpu does not expose: subgroups and asynchronous compilation of pipelines.

/** The device that was opened last. It is the loading model's, because loads do not overlap. */
let opened: GPUDevice | undefined;
let baselineOnly = false;
let wrapped = false;

/** A pipeline that the browser compiles asynchronously. */
interface PendingPipeline {
  pipeline: GPUComputePipeline | undefined;
  /** Compiles the pipeline synchronously, for calls that cannot wait. */
  compile: () => GPUComputePipeline;
}

/** Pending pipelines by the placeholder that wgpu holds. */
const pendingByPlaceholder = new WeakMap<object, PendingPipeline>();
/** Pipelines whose compilation was not awaited yet. */
const compiling = new Set<Promise<void>>();
/** The sources of modules, which the messages of compilers refer to by line. */
const sourceByModule = new WeakMap<GPUShaderModule, string>();

/** Makes a device compile pipelines asynchronously. wgpu gets placeholders until they are needed. */
function compileAsynchronously(device: GPUDevice): void {
  const createModule = device.createShaderModule.bind(device);
  device.createShaderModule = (descriptor) => {
    const module = createModule(descriptor);
    sourceByModule.set(module, descriptor.code);
    return module;
  };
  const compile = device.createComputePipeline.bind(device);
  device.createComputePipeline = (descriptor) => {
    const placeholder = {} as GPUComputePipeline;
    const pending: PendingPipeline = { pipeline: undefined, compile: () => compile(descriptor) };
    pendingByPlaceholder.set(placeholder, pending);
    const done = device.createComputePipelineAsync(descriptor).then(
      (pipeline) => void (pending.pipeline = pipeline),
      async (error: Error) => {
        // A lost device may have nothing to say about the module.
        const messages = (await compilerErrors(descriptor.compute.module).catch(() => "")) || error.message;
        throw new Error(`${descriptor.label ?? "a kernel"}: ${messages}`, { cause: error });
      },
    );
    // The error is reported to the call that waits.
    done.catch(() => {});
    compiling.add(done);
    return placeholder;
  };
}

/** What the browser's compiler says against a module, each message above the line that it is about; empty without errors. */
async function compilerErrors(module: GPUShaderModule): Promise<string> {
  const lines = (sourceByModule.get(module) ?? "").split("\n");
  const { messages } = await module.getCompilationInfo();
  return messages
    .filter(({ type }) => type === "error")
    .map(({ message, lineNum, linePos }) => `${lineNum}:${linePos}: ${message}\n${lines[lineNum - 1] ?? ""}`)
    .join("\n");
}

function wrapSetPipeline(): void {
  const set = GPUComputePassEncoder.prototype.setPipeline;
  GPUComputePassEncoder.prototype.setPipeline = function (pipeline) {
    const pending = pendingByPlaceholder.get(pipeline);
    set.call(this, pending ? (pending.pipeline ??= pending.compile()) : pipeline);
  };
}

/** Waits until all pipelines are compiled. */
export async function compiled(): Promise<void> {
  const waited = [...compiling];
  const ended = await Promise.allSettled(waited);
  for (const one of waited) compiling.delete(one);
  const failed = ended.find((one) => one.status === "rejected");
  if (failed) throw new WispError("Internal", `the browser refused ${failed.reason.message}`, failed.reason);
}

/** Requests subgroups if the adapter has them, which wgpu does not do. */
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

/** Checks that a WebGPU adapter exists, and prepares the creation of the engine's device. A software adapter, which is several
 *  times slower than the engine on the CPU, will do if it is `wanted`. */
export async function prepare(baseline: boolean, wanted: boolean): Promise<void> {
  const gpu = globalThis.navigator?.gpu;
  if (!gpu) throw new WispError("NoWebGpu", "this browser does not support WebGPU");
  const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" }).catch(() => null);
  if (!adapter) throw new WispError("NoWebGpu", "WebGPU found no usable GPU in this browser");
  if (!wanted && adapter.info?.isFallbackAdapter) throw new WispError("NoWebGpu", "WebGPU found no GPU in this browser but one in software");
  if (!wrapped) {
    wrapped = true;
    wrapRequestDevice();
    wrapSetPipeline();
  }
  baselineOnly = baseline;
  opened = undefined;
  compiling.clear();
}

/** Returns the engine's device after it is opened. */
export function device(): GPUDevice | undefined {
  return opened;
}
