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

async function choose(model: ModelSource, title: string): Promise<void> {
  dialog.close();
  loaded = (await load(model, title)) ? title : "";
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

async function showStored(): Promise<void> {
  const files = await models.list().catch(() => []);
  byId("stored").hidden = files.length === 0;
  byId("stored-list").replaceChildren(
    ...files.map(({ url, stored }) => {
      const name = decodeURIComponent(new URL(url).pathname.split("/").pop() || url);
      const remove = make("button", { type: "button", className: "quiet", textContent: "Delete", ariaLabel: `Delete ${name}` });
      remove.addEventListener("click", () => models.remove(url).then(showStored, complain));
      return make("li", { title: url }, make("span", { textContent: `${name}, ${size(stored)}` }), remove);
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

/** Loads the model that the page starts with. */
export const loadInside = () => choose("inside", "wisp-tiny");
