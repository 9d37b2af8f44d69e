// Helpers of all tests: paths, and a page with the package.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { launch, open } from "./browser.mjs";
import { serve } from "./server.mjs";

export const REPOSITORY = join(import.meta.dirname, "../../..");
export const PACKAGE = join(REPOSITORY, "web-demo/dist/wisp-web");
/** How web-demo/build.sh has built them: `web`, or `dev` if quickly. */
export const PROFILE = readFileSync(join(REPOSITORY, "web-demo/dist/profile"), "utf8").trim();
export const PAGE = join(REPOSITORY, "web-demo/dist/page");
export const TINY = join(REPOSITORY, "native-demo/model/wisp-tiny.gguf");
const SHARED = process.env.WISP_SHARED ?? join(REPOSITORY, "../shared");

/** Returns the path of shared data. Tests that need it are skipped with a note if it is missing. */
export function shared(path) {
  const whole = join(SHARED, "data", path);
  return existsSync(whole) ? whole : undefined;
}

/** Whether all cases run; an ordinary run takes a sample of some tests, because the browser's software adapter is slow. */
export const ALL = process.env.WISP_TEST_ALL === "1";

/** Turns the samples: `run.sh` sets it to a number from the commit, so that runs of different commits take different cases. */
export const TURN = Number(process.env.WISP_TEST_TURN ?? 0);
if (!Number.isInteger(TURN) || TURN < 0) throw new Error("WISP_TEST_TURN is a number");

/** Returns whether this run takes case `i` of `n`, of which an ordinary run takes one. */
export const takes = (i, n) => ALL || (TURN + i) % n === 0;

/** The class of kernels that models run unless a test chooses one: `gpu`, `software`, or by default the adapter's own. */
const deviceClass = process.env.WISP_TEST_CLASS || undefined;
/** The page's address with that class, on WebGPU though its adapter is in software. */
export const PAGE_PATH = `/?device=webgpu${deviceClass ? `&deviceClass=${deviceClass}` : ""}`;

export const json = (path) => JSON.parse(readFileSync(path, "utf8"));

/** The built-in model with its results in float64 arithmetic, from the file that native tests use. */
export const golden = () => json(join(REPOSITORY, "native-demo/model/golden.json")).cases;

/** Starts a server with the package under /wisp-web/ and further mounts, a browser, and a blank page. */
export async function blank({ mounts = {}, virtual = {}, ...browser } = {}) {
  const server = await serve({
    mounts: { ...mounts, "/wisp-web/": PACKAGE, "/": join(import.meta.dirname, "blank") },
    virtual,
  });
  const context = await launch(browser);
  const page = await open(context, server.url + "/");
  const close = async () => {
    await context.close();
    await server.close();
  };
  return { server, context, page, close };
}

/**
 * Runs a function on the page with the package's exports. An error is returned as { code, message }. Models run on WebGPU, whose
 * adapter is in software, unless the function asks for another device, and have the KV cache with which every device gives the same tokens, unless the function asks for another. `engine` resolves to a
 * loaded built-in model that stays with the page: functions share it, because a load takes seconds, and do not unload it.
 */
export function run(page, body, argument) {
  return page.evaluate(
    async ([source, argument, deviceClass]) => {
      const package_ = await import("/wisp-web/index.js");
      const load = (options) => package_.Wisp.load({ device: "webgpu", deviceClass, kvCacheFormat: "float32", ...options });
      const Wisp = Object.assign(Object.create(package_.Wisp), { load });
      const engine = () => (globalThis.sharedEngine ??= load().catch((error) => {
        globalThis.sharedEngine = undefined;
        throw error;
      }));
      try {
        return await (0, eval)(`(${source})`)({ ...package_, Wisp, engine }, argument);
      } catch (error) {
        return { code: error.code ?? error.name, message: error.message, advice: error.advice };
      }
    },
    [body.toString(), argument, deviceClass],
  );
}
