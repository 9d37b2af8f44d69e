// For pages without modules or bundlers: <script src="…/script.js"></script> makes `Wisp` known, whose
// `load` fetches the rest.
{
  const base = document.currentScript.src;
  const module = () => import(new URL("./index.js", base).href);
  globalThis.Wisp = { load: async (options) => (await module()).Wisp.load(options) };
}
