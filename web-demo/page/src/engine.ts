import { type LoadProgress, type ModelSource, Wisp, WispError } from "wisp-web";
import { announce, byId, hide, make, size } from "./dom.js";

const PHASES: Record<LoadProgress["phase"], string> = {
  starting: "Starting", opening: "Opening the model", downloading: "Downloading", reading: "Loading the weights",
  compiling: "Preparing the kernels", ready: "Ready",
};

/** A parameter of the page's address that has one of some values. */
function parameter<T extends string>(name: string, values: readonly T[]): T | undefined {
  const given = new URLSearchParams(location.search).get(name);
  return values.find((value) => value === given);
}

/** For tests: `?device=webgpu&deviceClass=gpu` runs the kernels for GPUs on any adapter. */
const device = parameter("device", ["webgpu", "cpu"]);
const deviceClass = parameter("deviceClass", ["gpu", "software"]);

let current: Wisp | undefined;
let loading: AbortController | undefined;
let last: { model: ModelSource; title: string } | undefined;
const listeners: (() => void)[] = [];

/** The bytes of a download after which the browser is asked to keep the storage. */
const LARGE = 100e6;

/** What the current load has announced: a phase and a quarter of it. */
let announced = "";
let isLarge = false;

/** The loaded model. */
export const engine = () => current;
/** Called when a model is loaded or unloaded. */
export const onChange = (listener: () => void) => void listeners.push(listener);
const changed = () => listeners.forEach((listener) => listener());

/** Shows an error with its advice. */
export function complain(error: unknown, retry = false): void {
  const { code, message, advice } = WispError.from(error);
  const notice = byId("notice");
  const text = make("p", {}, make("strong", { textContent: `${code}: ` }), `${message}. ${advice}`);
  const close = make("button", { className: "quiet", textContent: "Dismiss" });
  close.addEventListener("click", () => hide(notice, byId("open-models")));
  notice.replaceChildren(text);
  if (retry && last) {
    const again = make("button", { className: "quiet", textContent: "Load again" });
    again.addEventListener("click", () => last && load(last.model, last.title));
    notice.append(again);
  }
  notice.append(close);
  notice.dataset.code = code;
  notice.hidden = false;
}

function show({ phase, loaded, total }: LoadProgress): void {
  const bar = byId<HTMLProgressElement>("loading-bar");
  const counted = total > 0 && phase !== "compiling";
  if (counted) {
    bar.max = total;
    bar.value = loaded;
  } else {
    bar.removeAttribute("value");
  }
  const received = phase === "downloading" && loaded > 0 ? `: ${size(loaded)} of an unknown size` : "";
  const text = counted ? `${PHASES[phase]}: ${size(loaded)} of ${size(total)}` : PHASES[phase] + received;
  byId("loading-text").textContent = text;
  isLarge ||= phase === "downloading" && total > LARGE;
  const step = `${phase} ${counted ? Math.floor((4 * loaded) / total) : 0}`;
  if (step !== announced) announce(text);
  announced = step;
}

/** Loads a model and replaces the current one. Shows an error and returns false if that fails. */
export async function load(model: ModelSource, title: string): Promise<boolean> {
  loading?.abort();
  const controller = (loading = new AbortController());
  last = { model, title };
  byId("loading").hidden = false;
  hide(byId("notice"), byId("loading-stop"));
  isLarge = false;
  show({ phase: "starting", loaded: 0, total: 0 });
  await unload();
  // Another model may have been chosen meanwhile.
  if (loading !== controller) return false;
  byId("model-name").textContent = title;
  try {
    const wisp = await Wisp.load({ model, device, deviceClass, onProgress: show, onWarning: complain, signal: controller.signal });
    if (controller.signal.aborted) {
      await wisp.unload();
      return false;
    }
    current = wisp;
    void wisp.lost.then((error) => {
      if (current !== wisp) return;
      complain(error, true);
      void unload();
    });
    announce(`${title} is loaded`);
    // Otherwise the browser may delete the model when the disk is full.
    if (isLarge) void navigator.storage?.persist?.();
    return true;
  } catch (error) {
    if (loading === controller) {
      byId("model-name").textContent = "Choose a model";
      complain(error, true);
    }
    return false;
  } finally {
    if (loading === controller) {
      loading = undefined;
      hide(byId("loading"), byId("open-models"));
    }
    changed();
  }
}

async function unload(): Promise<void> {
  const old = current;
  current = undefined;
  changed();
  await old?.unload();
}

export function setUpLoading(): void {
  byId("loading-stop").addEventListener("click", () => loading?.abort());
}
