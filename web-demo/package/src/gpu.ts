import { WispError } from "./errors.js";

/** The device that was opened last: Wisp's own, because nothing else runs while it opens one. */
let opened: GPUDevice | undefined;
let baselineOnly = false;
let wrapped = false;

/**
 * wgpu asks the browser for no subgroups, even where there are some. This asks for them, and keeps the
 * device at hand, which tells when it is lost.
 */
function wrapRequestDevice(): void {
  if (wrapped) return;
  wrapped = true;
  const request = GPUAdapter.prototype.requestDevice;
  GPUAdapter.prototype.requestDevice = async function (descriptor) {
    if (descriptor?.label !== "wisp") return request.call(this, descriptor);
    const features = [...(descriptor.requiredFeatures ?? [])];
    if (!baselineOnly && this.features.has("subgroups")) features.push("subgroups");
    opened = await request.call(this, { ...descriptor, requiredFeatures: features });
    return opened;
  };
}

/** Makes sure that there is a WebGPU adapter, and prepares for the engine's device. */
export async function prepare(baseline: boolean): Promise<void> {
  const gpu = globalThis.navigator?.gpu;
  if (!gpu) throw new WispError("NoWebGpu", "this browser has no WebGPU");
  const adapter = await gpu.requestAdapter({ powerPreference: "high-performance" }).catch(() => null);
  if (!adapter) throw new WispError("NoWebGpu", "this browser's WebGPU finds no GPU that it may use");
  wrapRequestDevice();
  baselineOnly = baseline;
  opened = undefined;
}

/** The engine's device, once it is open. */
export function device(): GPUDevice | undefined {
  return opened;
}
