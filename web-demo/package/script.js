// For pages without modules or bundlers: <script src="…/script.js"></script> defines `Wisp`, whose `load` and
// `models` fetch the rest of the package.
{
  const base = document.currentScript.src;
  const module = () => import(new URL("./index.js", base).href);
  const models = (call) => async (...args) => (await module()).models[call](...args);
  globalThis.Wisp = {
    load: async (options) => (await module()).Wisp.load(options),
    models: { list: models("list"), remove: models("remove"), clear: models("clear") },
  };
}
