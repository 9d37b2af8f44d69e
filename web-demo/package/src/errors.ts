/** What went wrong, in one word. */
export type WispErrorCode =
  | "NoWebGpu"
  | "OutOfMemory"
  | "DeviceLost"
  | "ModelFormat"
  | "Network"
  | "Aborted"
  | "QuotaExceeded"
  | "InvalidRequest"
  | "Internal";

/** What a visitor can do about it. */
const ADVICE: Record<WispErrorCode, string> = {
  NoWebGpu: "Use a browser with WebGPU (a current Chrome, Edge, Safari or Firefox), on a page served over https or from localhost, and allow it hardware acceleration.",
  OutOfMemory: "Choose a smaller model or a shorter context, or close other tabs that use the GPU.",
  DeviceLost: "Load the model again; if it happens often, update the graphics driver or choose a smaller model.",
  ModelFormat: "Choose a model in GGUF or safetensors that Wisp supports, and make sure that the file is whole.",
  Network: "Check the address and the connection, and try again: what has arrived is kept.",
  Aborted: "It was stopped on request.",
  QuotaExceeded: "Delete models that are no longer needed, or make room on the disk.",
  InvalidRequest: "Change the request.",
  Internal: "Please report this, with what you did.",
};

/** The error that everything in this package throws. */
export class WispError extends Error {
  /** What went wrong, in one word; also the error's name. */
  readonly code: WispErrorCode;
  /** What the visitor can do about it. */
  readonly advice: string;

  constructor(code: WispErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = code;
    this.code = code;
    this.advice = ADVICE[code];
  }

  /** Any error as one of ours. */
  static from(error: unknown): WispError {
    if (error instanceof WispError) return error;
    const { name, message } = error instanceof Error || error instanceof DOMException
      ? error
      : { name: "", message: String(error) };
    if (name in ADVICE) return new WispError(name as WispErrorCode, message, error);
    if (name === "AbortError") return new WispError("Aborted", "stopped", error);
    if (name === "QuotaExceededError") {
      return new WispError("QuotaExceeded", "the browser gives this page no more storage", error);
    }
    if (error instanceof RangeError && /memory|allocation/i.test(message)) {
      return new WispError("OutOfMemory", message, error);
    }
    return new WispError("Internal", message, error);
  }
}

/** Throws if the signal says stop. */
export function check(signal?: AbortSignal): void {
  if (signal?.aborted) throw new WispError("Aborted", "stopped");
}
