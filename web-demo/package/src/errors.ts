/** The kind of an error. */
export type WispErrorCode =
  | "NoWebGpu"
  | "OutOfMemory"
  | "DeviceLost"
  | "ModelFormat"
  | "Network"
  | "Aborted"
  | "QuotaExceeded"
  | "NotResumable"
  | "NoHalfPrecision"
  | "NoEffect"
  | "InvalidRequest"
  | "Internal";

/** Advice for the visitor, for each kind of error. */
const ADVICE: Record<WispErrorCode, string> = {
  NoWebGpu: "Use a browser with WebGPU (a current Chrome, Edge, Safari or Firefox), on a page served over https or from localhost, and allow it hardware acceleration.",
  OutOfMemory: "Choose a smaller model or a shorter context, or close other tabs that use the GPU.",
  DeviceLost: "Load the model again; if it happens often, update the graphics driver or choose a smaller model.",
  ModelFormat: "Choose a model in GGUF or safetensors that Wisp supports, and make sure that the file is whole.",
  Network: "Check the address and the connection, and try again: what has arrived is kept.",
  Aborted: "It was stopped on request.",
  QuotaExceeded: "Delete models that are no longer needed, or make room on the disk.",
  NotResumable: "Keep the page open until the download ends.",
  NoHalfPrecision: "Nothing needs to be done: answers are exact, only slower.",
  NoEffect: "Nothing needs to be done: an option that was given changes nothing here.",
  InvalidRequest: "Change the request.",
  Internal: "Please report this, with what you did.",
};

/** The error that everything in this package throws. */
export class WispError extends Error {
  /** The kind of the error, which is also its name. */
  readonly code: WispErrorCode;
  /** Advice for the visitor. */
  readonly advice: string;

  constructor(code: WispErrorCode, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = code;
    this.code = code;
    this.advice = ADVICE[code];
  }

  /** Converts any error to a `WispError`. */
  static from(error: unknown): WispError {
    if (error instanceof WispError) return error;
    const { name, message } = error instanceof Error || error instanceof DOMException
      ? error
      : { name: "", message: String(error) };
    if (name in ADVICE) return new WispError(name as WispErrorCode, message, error);
    if (name === "AbortError") return new WispError("Aborted", "stopped", error);
    if (name === "QuotaExceededError") {
      return new WispError("QuotaExceeded", "the browser's storage for this page is full", error);
    }
    if (error instanceof RangeError && /memory|allocation/i.test(message)) {
      return new WispError("OutOfMemory", message, error);
    }
    return new WispError("Internal", message, error);
  }
}

/** Returns the JSON of a part of a request. Unlike the part, which may be a proxy of a framework's, it can be sent to a worker. */
export function json(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    throw new WispError("InvalidRequest", "the request is no JSON", error);
  }
}

/** Throws if the signal is aborted. */
export function check(signal?: AbortSignal): void {
  if (signal?.aborted) throw new WispError("Aborted", "stopped");
}
