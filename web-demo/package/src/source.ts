import { CachedFile, models } from "./cache.js";
import { WispError } from "./errors.js";
import { type FetchOptions, HttpError, HttpFile, LocalFile, type SourceFile } from "./files.js";

/** The source of a model. */
export type ModelSource =
  /** `"inside"` (the built-in model of the package), the URL of a file, or a hub repository: `org/name`,
   *  `org/name:encoding` or `org/name:file`. */
  | string
  /** A file chosen by the visitor. */
  | File
  /** Several files: all parts of a GGUF model, or safetensors with their configuration files. */
  | readonly File[]
  /** The URLs of such files. */
  | { readonly urls: readonly string[] }
  /** A repository on a hub. */
  | HubSource;

/** A repository on a hub. */
export interface HubSource {
  /** `org/name`. */
  readonly repo: string;
  /** A file of the repository, or an encoding such as `q4_k`. Default: the smallest GGUF model, or safetensors. */
  readonly file?: string;
  /** A branch, tag or commit. Default: `main`. */
  readonly revision?: string;
  /** The address of the hub. Default: `https://huggingface.co`. */
  readonly endpoint?: string;
  /** The access token for repositories that are not public. */
  readonly token?: string;
}

/** The open files of a model. */
export interface OpenModel {
  name: string;
  weights: SourceFile[];
  /** The contents of configuration files, by name. */
  texts: Record<string, Uint8Array>;
}

/** The configuration files that may accompany safetensors. */
const TEXTS = [
  "config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
  "added_tokens.json", "generation_config.json", "chat_template.jinja", "chat_template.json",
  "hf_quant_config.json",
  "modules.json", "sentence_bert_config.json", "1_Pooling/config.json",
];
const INDEX = "model.safetensors.index.json";
const PART = /-(\d{5})-of-(\d{5})\.gguf$/;

const isWeights = (name: string) => /\.(gguf|safetensors)$/.test(name);

/** Returns the repository that a string names; `undefined` if it is an address. */
function repository(source: string): HubSource | undefined {
  const [, repo, file] = /^(?!\.\.?\/)([\w.-]+\/[\w.-]+)(?::(.+))?$/.exec(source) ?? [];
  if (!repo || isWeights(repo) || repo.endsWith(".json")) return undefined;
  return file ? { repo, file } : { repo };
}

/** Returns an address that may be relative to the page's as a whole one, or as it is if it is invalid. */
function absolute(address: string): string {
  try {
    return new URL(address, globalThis.document?.baseURI ?? globalThis.location?.href).href;
  } catch {
    return address;
  }
}

/** Returns a source with whole addresses: a worker resolves relative ones against its own address. */
export function resolved(source: ModelSource): ModelSource {
  if (typeof source === "string") return source === "inside" || repository(source) ? source : absolute(source);
  // Copies can be sent to the worker, unlike proxies of a framework's.
  if (source instanceof File) return source;
  if (Array.isArray(source)) return [...source];
  return "urls" in source ? { urls: source.urls.map(absolute) } : { ...(source as HubSource) };
}

/** The sizes of files, where they are known. */
type Sizes = readonly (number | undefined)[];

/** The names of all parts of a split GGUF file. */
function parts(name: string): string[] {
  const part = PART.exec(name);
  if (!part) return [name];
  const number = (i: number) => String(i + 1).padStart(5, "0");
  return Array.from({ length: Number(part[2]) }, (_, i) => name.replace(PART, `-${number(i)}-of-${part[2]}.gguf`));
}

/** The name of the first part of a split GGUF file. */
const firstPart = (name: string) => name.replace(PART, "-00001-of-$2.gguf");

/** Opens the files of a source. */
export async function open(source: ModelSource, options: FetchOptions): Promise<OpenModel> {
  if (source === "inside") {
    const url = new URL("./wisp-tiny.gguf", import.meta.url).href;
    return { ...(await openUrls([url], { ...options, cache: "none", httpCache: "default" })), name: "wisp-tiny" };
  }
  if (source instanceof File) return openFiles([source], options);
  if (Array.isArray(source)) return openFiles(source, options);
  if (typeof source !== "string") {
    return "urls" in source ? openUrls(source.urls, options) : openHub(source as HubSource, options);
  }
  const hub = repository(source);
  return hub ? openHub(hub, options) : openUrls([source], options);
}

/** The path of a file with that of the folder that the visitor chose, or its name. */
const pathOf = (file: File) => file.webkitRelativePath || file.name;

const folderOf = (file: File) => pathOf(file).slice(0, -file.name.length);

async function openFiles(files: readonly File[], options: FetchOptions): Promise<OpenModel> {
  const local = (file: File) => new LocalFile(file, options.onOrigin);
  const weights = files.filter((file) => isWeights(file.name));
  // The model's folder is the outermost with weights.
  const [folder = ""] = weights.map(folderOf).sort((a, b) => a.length - b.length);
  const texts: OpenModel["texts"] = {};
  for (const file of files) {
    const path = pathOf(file).startsWith(folder) ? pathOf(file).slice(folder.length) : file.name;
    if (!isWeights(file.name)) texts[path] = new Uint8Array(await file.arrayBuffer());
  }
  // A single file is opened whatever its name is; its contents determine the format.
  const chosen = files.length === 1 ? files : weights;
  if (chosen.length === 0) throw new WispError("ModelFormat", "none of these files is a .gguf or .safetensors file");
  return { name: chosen[0]!.name, weights: chosen.map(local), texts: files.length === 1 ? {} : texts };
}

/** Returns whether storage has all of these files whole, and with their sizes if those are known. */
async function areComplete(urls: readonly string[], { cache }: FetchOptions, sizes: Sizes = []): Promise<boolean> {
  if (cache === "none") return false;
  const found = await Promise.all(urls.map((url) => CachedFile.find(url)));
  return found.every((file, i) => file?.complete && file.size === (sizes[i] ?? file.size));
}

/** Returns whether storage has a file, or a part of it. */
async function isKnown(url: string, { cache }: FetchOptions): Promise<boolean> {
  return cache !== "none" && (await CachedFile.find(url)) !== undefined;
}

/** Opens files in order, and closes all if one fails. Verifies what is stored unless all files are complete, so that those
 *  that are missing are of the same version. */
async function openAll(urls: readonly string[], given: FetchOptions, sizes?: Sizes): Promise<HttpFile[]> {
  const verify = !(await areComplete(urls, given, sizes));
  const options = { ...given, receiving: new Set<HttpFile>() };
  const files: HttpFile[] = [];
  try {
    for (const url of urls) files.push(await HttpFile.open(url, options, Infinity, verify));
  } catch (error) {
    await Promise.all(files.map((file) => file.close()));
    throw error;
  }
  return files;
}

async function openUrls(given: readonly string[], options: FetchOptions): Promise<OpenModel> {
  let urls: string[];
  try {
    urls = given.map((url) => new URL(url, globalThis.location?.href).href);
  } catch {
    throw new WispError("Network", `${given.join(", ")} is neither an address nor a repository such as org/name`);
  }
  const [first] = urls;
  if (!first) throw new WispError("ModelFormat", "no address is given");
  const name = new URL(first).pathname.split("/").pop() || first;
  if (name === INDEX || urls.some((url) => new URL(url).pathname.endsWith(".safetensors"))) {
    return openLayout(name, urls, (file) => new URL(file, first).href, options);
  }
  if (urls.length === 1) urls = parts(first);
  return { name, weights: await openAll(urls, options), texts: {} };
}

/** Opens safetensors and those of the configuration files `optionals` that exist. */
async function openLayout(
  name: string,
  urls: readonly string[],
  beside: (file: string) => string,
  options: FetchOptions,
  optionals: readonly string[] = TEXTS,
): Promise<OpenModel> {
  const index = urls.find((url) => new URL(url).pathname.endsWith(INDEX));
  const all = async (verify: boolean) => (index ? (await shards(index, options, verify)).map(beside) : [...urls]);
  const isOld = index !== undefined && (await isKnown(index, options));
  let weights = await all(false);
  const verify = !(await areComplete(weights, options));
  if (verify && isOld) weights = await all(true);
  // Weights are stored after the other files, so those that are not stored then do not exist.
  const isStored = weights[0] !== undefined && (await isKnown(weights[0], options));
  const found = await Promise.all(optionals.map((file) => optional(beside(file), options, isStored, verify)));
  const texts: OpenModel["texts"] = {};
  optionals.forEach((file, i) => {
    if (found[i]) texts[file] = found[i];
  });
  return { name, weights: await openAll(weights, options), texts };
}

/** Returns the files that an index names. */
async function shards(index: string, options: FetchOptions, verify: boolean): Promise<string[]> {
  const file = await HttpFile.openText(index, options, verify);
  try {
    const { weight_map } = JSON.parse(new TextDecoder().decode(await file.text()));
    const names = [...new Set(Object.values(weight_map as Record<string, string>))].sort();
    if (!names.every((name) => /^[\w.-]+\.safetensors$/.test(name))) throw new Error("it names invalid files");
    return names;
  } catch (error) {
    if (error instanceof WispError) throw error;
    throw new WispError("ModelFormat", `${file.name} is not an index of safetensors`, error);
  } finally {
    await file.close();
  }
}

/** Reads a small optional file. One of a stored model is not missed without a network. */
async function optional(url: string, options: FetchOptions, isStored: boolean, verify: boolean): Promise<Uint8Array | undefined> {
  let file: HttpFile | undefined;
  try {
    file = await HttpFile.openText(url, options, verify);
    return await file.text();
  } catch (error) {
    if (error instanceof HttpError) {
      if ([401, 403, 404].includes(error.status)) return undefined;
    } else if (isStored && error instanceof WispError && error.code === "Network") return undefined;
    throw error;
  } finally {
    await file?.close();
  }
}

interface HubEntry {
  path: string;
  size: number;
  type: string;
}

/** The file of a repository that is meant: by name, by encoding, or the smallest. Split files count with all their parts. */
function choose(source: HubSource, entries: readonly HubEntry[]): string | undefined {
  const wanted = source.file?.toLowerCase();
  const files = entries.filter((entry) => isWeights(entry.path) && !/mmproj|imatrix/i.test(entry.path));
  const exact = files.find((entry) => entry.path.toLowerCase() === wanted);
  if (exact) return exact.path;
  const ggufs = files.filter((entry) => entry.path.endsWith(".gguf"));
  const sizes = new Map<string, number>();
  for (const { path, size } of ggufs) sizes.set(firstPart(path), (sizes.get(firstPart(path)) ?? 0) + size);
  const first = ggufs.map(({ path }) => path).filter((path) => path === firstPart(path));
  const named = first.filter((path) => !wanted || path.toLowerCase().includes(wanted));
  return named.sort((a, b) => sizes.get(a)! - sizes.get(b)! || (a < b ? -1 : 1))[0];
}

/** The file of a repository to open: the one that is meant, or else safetensors. */
function wanted(source: HubSource, entries: readonly HubEntry[]): string | undefined {
  return choose(source, entries) ?? [INDEX, "model.safetensors"].find((file) => entries.some(({ path }) => path === file));
}

/** Returns the files of a repository. */
async function list(url: string, options: FetchOptions): Promise<HubEntry[]> {
  const listing = await HttpFile.openText(url, options);
  try {
    const entries: HubEntry[] = JSON.parse(new TextDecoder().decode(await listing.text()));
    if (!Array.isArray(entries)) throw new TypeError("no list");
    return entries;
  } catch (error) {
    if (error instanceof WispError) throw error;
    // An invalid listing is not stored.
    if (options.cache !== "none") await models.remove(url).catch(() => {});
    throw new WispError("Network", `${new URL(url).origin} does not answer as a hub does`, error);
  } finally {
    await listing.close();
  }
}

/** Returns the files of a repository anew. What is stored stays if the hub cannot be reached. */
async function listAgain(url: string, options: FetchOptions): Promise<HubEntry[]> {
  await list(url, { ...options, cache: "none" });
  await models.remove(url).catch(() => {});
  return list(url, options);
}

async function openHub(source: HubSource, given: FetchOptions): Promise<OpenModel> {
  const endpoint = source.endpoint ?? "https://huggingface.co";
  const revision = source.revision ?? "main";
  const headers = source.token ? { Authorization: `Bearer ${source.token}` } : undefined;
  const options = { ...given, headers };
  const beside = (file: string) => `${endpoint}/${source.repo}/resolve/${revision}/${file.split("/").map(encodeURIComponent).join("/")}`;
  const url = `${endpoint}/api/models/${source.repo}/tree/${revision}?recursive=true`;
  const isOld = await isKnown(url, options);
  let entries = await list(url, options);
  let weights = wanted(source, entries);
  // A stored listing may be older than the files.
  if (isOld && !(weights && (await areComplete(parts(weights).map(beside), options)))) {
    const stored = entries;
    entries = await listAgain(url, options).catch((error: unknown) => {
      if (weights) return stored;
      throw error;
    });
    weights = wanted(source, entries);
  }
  if (!weights) {
    throw new WispError("ModelFormat", `${source.repo} has no model that Wisp reads: no GGUF${source.file ? ` of ${source.file}` : ""}, no safetensors`);
  }
  if (weights.endsWith(".gguf")) {
    const files = parts(weights);
    const sizes = files.map((file) => entries.find(({ path }) => path === file)?.size);
    return { name: source.repo, weights: await openAll(files.map(beside), options, sizes), texts: {} };
  }
  const texts = TEXTS.filter((file) => entries.some(({ path }) => path === file));
  return openLayout(source.repo, [beside(weights)], beside, options, texts);
}
