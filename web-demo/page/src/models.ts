import { models, type ModelSource } from "wisp-web";
import { byId, make, size } from "./dom.js";
import { complain, engine, load, onChange } from "./engine.js";

/** The offered models: source, bytes of the download, and a description. */
const CHOICES: { title: string; model: ModelSource; bytes: number; about: string }[] = [
  { title: "wisp-tiny", model: "inside", bytes: 3_903_488, about: "Comes with this page: little stories and small talk, at once" },
  { title: "SmolLM2 135M", model: "bartowski/SmolLM2-135M-Instruct-GGUF:Q8_0", bytes: 145e6, about: "Simple conversations on any computer" },
  { title: "SmolLM2 360M", model: "bartowski/SmolLM2-360M-Instruct-GGUF:Q8_0", bytes: 386e6, about: "Better answers, still small" },
  { title: "Qwen3 0.6B", model: "Qwen/Qwen3-0.6B-GGUF:Q8_0", bytes: 639e6, about: "Thinks before it answers, in many languages" },
  { title: "Llama 3.2 1B", model: "bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M", bytes: 808e6, about: "Good answers on a good GPU" },
];

const dialog = byId<HTMLDialogElement>("models");
let loaded = "";

/** Where the last model is remembered that was loaded by its address. */
const LAST = "wisp-model";

/** Remembers a model for the next visit, or forgets it, if the browser allows it. */
function remember(last?: { model: string; title: string }): void {
  try {
    if (last) localStorage.setItem(LAST, JSON.stringify(last));
    else localStorage.removeItem(LAST);
  } catch {
    // The next visit starts with the built-in model.
  }
}

async function choose(model: ModelSource, title: string): Promise<void> {
  dialog.close();
  // A model that ends the page does not end the next visit too.
  remember();
  loaded = (await load(model, title)) ? title : "";
  if (loaded && typeof model === "string" && model !== "inside") remember({ model, title });
  showChoices();
}

function showChoices(): void {
  byId("choices").replaceChildren(
    ...CHOICES.map(({ title, model, bytes, about }) => {
      const button = make("button", { type: "button" },
        make("strong", { textContent: title }), make("span", { textContent: size(bytes) }), make("small", { textContent: about }));
      if (engine() && title === loaded) button.setAttribute("aria-current", "true");
      button.addEventListener("click", () => void choose(model, title));
      return make("li", {}, button);
    }),
  );
}

/** A name that may be encoded for a URL. */
function decoded(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** The address and the name of the model that a stored file belongs to: its repository on a hub, the folder of safetensors
 *  and their configuration, or all parts of a GGUF file. */
function modelOf(address: string): { key: string; name: string } {
  const { origin, host, pathname, search } = new URL(address);
  const [, repository] = /\/(?:api\/models\/)?([\w.-]+\/[\w.-]+)\/(?:tree|resolve)\//.exec(pathname) ?? [];
  if (repository) return { key: `${origin}/${repository}`, name: repository };
  const isInFolder = /\.(json|jinja|safetensors)$/.test(pathname);
  const path = isInFolder ? pathname.replace(/(\/1_Pooling)?\/[^/]*$/, "") : pathname.replace(/-\d{5}-of-\d{5}(?=\.gguf$)/, "");
  return { key: origin + path + (isInFolder ? "" : search), name: decoded(path.split("/").pop() || host) };
}

async function showStored(): Promise<void> {
  const files = await models.list().catch(() => []);
  const groups = Map.groupBy(files, ({ url }) => modelOf(url).key);
  byId("stored").hidden = files.length === 0;
  byId("stored-list").replaceChildren(
    ...[...groups].map(([key, files]) => {
      const { name } = modelOf(files[0]!.url);
      const sum = (key: "stored" | "size") => files.reduce((sum, file) => sum + file[key], 0);
      // A file whose size is not known yet has the size 0.
      const more = files.some((file) => file.size === 0) ? " so far" : sum("stored") < sum("size") ? ` of ${size(sum("size"))}` : "";
      const remove = make("button", { type: "button", className: "quiet", textContent: "Delete", ariaLabel: `Delete ${name}` });
      remove.addEventListener("click", () => {
        remember();
        Promise.all(files.map(({ url }) => models.remove(url))).then(showStored, complain).then(() => dialog.querySelector("button")?.focus());
      });
      return make("li", { title: key }, make("span", { textContent: `${name}, ${size(sum("stored"))}${more}` }), remove);
    }),
  );
}

function chosen(files: FileList | null | undefined): void {
  const list = [...(files ?? [])];
  const [first] = list;
  if (first) void choose(list.length === 1 ? first : list, first.name);
}

function setUpDrop(): void {
  const hint = byId("drop-hint");
  const hasFiles = (event: DragEvent) => event.dataTransfer?.types.includes("Files") ?? false;
  addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    hint.hidden = false;
  });
  addEventListener("dragleave", (event) => {
    if (event.relatedTarget === null) hint.hidden = true;
  });
  addEventListener("drop", (event) => {
    hint.hidden = true;
    if (!hasFiles(event)) return;
    event.preventDefault();
    chosen(event.dataTransfer?.files);
  });
}

export function setUpModels(): void {
  byId("open-models").addEventListener("click", () => {
    void showStored();
    dialog.showModal();
  });
  byId<HTMLFormElement>("other").addEventListener("submit", (event) => {
    event.preventDefault();
    const address = byId<HTMLInputElement>("address").value.trim();
    void choose(address, address.split("/").pop() || address);
  });
  byId<HTMLInputElement>("file").addEventListener("change", (event) => {
    const input = event.target as HTMLInputElement;
    chosen(input.files);
    input.value = "";
  });
  setUpDrop();
  onChange(showChoices);
  showChoices();
}

/** Returns the last model, if storage still has files of it: a visit downloads none by itself. */
async function lastStored(): Promise<{ model: string; title: string } | undefined> {
  try {
    const last = JSON.parse(localStorage.getItem(LAST) ?? "null");
    const address = last.model.replace(/^([\w.-]+\/[\w.-]+):.*/, "/$1/");
    return (await models.list()).some(({ url }) => url.includes(address)) ? last : undefined;
  } catch {
    return undefined;
  }
}

/** Loads the model that the page starts with: the last one, or the built-in one. */
export async function loadFirst(): Promise<void> {
  const { model, title } = (await lastStored()) ?? { model: "inside", title: "wisp-tiny" };
  await choose(model, title);
}
