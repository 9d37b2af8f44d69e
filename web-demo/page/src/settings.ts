import { byId } from "./dom.js";

/** The settings of the visitor. */
export interface Settings {
  system: string;
  temperature: number;
  topP: number;
  maxTokens: number;
  /** The seed; empty for a random one. */
  seed: string;
  theme: "" | "light" | "dark";
}

const DEFAULTS: Settings = { system: "", temperature: 0, topP: 1, maxTokens: 256, seed: "", theme: "" };
const KEY = "wisp-settings";

/** Settings are saved for the next visit if the browser allows it. */
function load(): Settings {
  try {
    return { ...DEFAULTS, ...JSON.parse(localStorage.getItem(KEY) ?? "{}") };
  } catch {
    return { ...DEFAULTS };
  }
}

export const settings: Settings = load();

function save(): void {
  try {
    localStorage.setItem(KEY, JSON.stringify(settings));
  } catch {
    // The settings still apply to this visit.
  }
}

function apply(): void {
  document.documentElement.dataset.theme = settings.theme;
}

const form = byId<HTMLFormElement>("settings-form");
type Field = HTMLInputElement | HTMLTextAreaElement | HTMLSelectElement;
const fields = () => [...form.elements].filter((field): field is Field => "name" in field && String(field.name) in DEFAULTS);

function show(): void {
  for (const field of fields()) {
    field.value = String(settings[field.name as keyof Settings]);
    const output = field.previousElementSibling;
    if (output instanceof HTMLOutputElement) output.value = field.value;
  }
}

export function setUpSettings(): void {
  const dialog = byId<HTMLDialogElement>("settings");
  byId("open-settings").addEventListener("click", () => dialog.showModal());
  form.addEventListener("input", (event) => {
    const field = event.target as Field;
    if (!field.checkValidity()) return;
    const name = field.name as keyof Settings;
    const value = typeof DEFAULTS[name] === "number" ? Number(field.value) : field.value;
    Object.assign(settings, { [name]: value });
    const output = field.previousElementSibling;
    if (output instanceof HTMLOutputElement) output.value = field.value;
    apply();
    save();
  });
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    Object.assign(settings, DEFAULTS);
    show();
    apply();
    save();
  });
  show();
  apply();
}
