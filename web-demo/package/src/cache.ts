import { WispError } from "./errors.js";

/** A model file in the browser's storage. */
export interface StoredFile {
  /** The address of the file, which `remove` takes. */
  url: string;
  /** The size of the file in bytes; 0 while it is downloaded as a whole, which cannot be resumed. */
  size: number;
  /** The number of stored bytes. */
  stored: number;
  /** The server's tag for this version of the file. */
  etag: string | null;
  /** The time of the first download, in milliseconds since 1970. */
  added: number;
}

/** Bytes per piece of a file. Each piece is stored in a separate file, after its digest. */
export const CHUNK = 4 << 20;
const DIGEST = 32;
const FOLDER = "wisp-models";
const ABOUT = "about.json";

type About = Omit<StoredFile, "stored">;

const absent = (error: unknown) => error instanceof DOMException && error.name === "NotFoundError";

async function root(create: boolean): Promise<FileSystemDirectoryHandle> {
  const storage = await navigator.storage.getDirectory();
  return storage.getDirectoryHandle(FOLDER, { create });
}

async function digest(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}

async function folderName(url: string): Promise<string> {
  const bytes = await digest(new TextEncoder().encode(url));
  return Array.from(bytes.slice(0, 16), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** Writes a file atomically: it is complete, or as it was before. */
async function write(folder: FileSystemDirectoryHandle, name: string, parts: BlobPart[]): Promise<void> {
  const handle = await folder.getFileHandle(name, { create: true });
  const stream = await handle.createWritable();
  try {
    for (const part of parts) await stream.write(part);
    await stream.close();
  } catch (error) {
    await stream.abort().catch(() => {});
    await folder.removeEntry(name).catch(() => {});
    // Chromium also reports a full storage this way.
    const full = error instanceof DOMException && error.name === "AbortError";
    throw full ? new WispError("QuotaExceeded", "the browser's storage for this page is full", error) : WispError.from(error);
  }
}

async function readAbout(folder: FileSystemDirectoryHandle): Promise<About | undefined> {
  try {
    const file = await (await folder.getFileHandle(ABOUT)).getFile();
    return JSON.parse(await file.text());
  } catch (error) {
    if (absent(error) || error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/** The indexes of the pieces in a folder. */
async function readChunks(folder: FileSystemDirectoryHandle): Promise<Set<number>> {
  const chunks = new Set<number>();
  for await (const name of folder.keys()) if (/^\d+$/.test(name)) chunks.add(Number(name));
  return chunks;
}

/** The name of a folder's lock, which all tabs share that use the folder. */
const lockOf = (name: string) => `${FOLDER}/${name}`;

/** Deletes a folder without a description, or with that of an interrupted download as a whole, unless a tab uses it. */
async function sweep(name: string): Promise<void> {
  await navigator.locks.request(lockOf(name), { ifAvailable: true }, async (lock) => {
    if (!lock) return;
    try {
      const home = await root(false);
      const about = await readAbout(await home.getDirectoryHandle(name));
      if (!about?.size) await home.removeEntry(name, { recursive: true });
    } catch (error) {
      if (!absent(error)) throw error;
    }
  });
}

/** Acquires a lock together with others. Returns the function that releases it. */
async function share(lock: string): Promise<() => Promise<void>> {
  return new Promise((taken, fail) => {
    const released = navigator.locks.request(lock, { mode: "shared" }, () => new Promise<void>((end) => {
      taken(() => (end(), released));
    }));
    released.catch(fail);
  });
}

/** The stored pieces of one file. */
export class CachedFile {
  private constructor(
    private readonly folder: FileSystemDirectoryHandle,
    private about: About | undefined,
    private readonly chunks: Set<number>,
    private readonly url: string,
    private readonly release: () => Promise<void>,
  ) {}

  /** Opens the stored pieces of a file; `undefined` if the browser has no storage. */
  static async open(url: string): Promise<CachedFile | undefined> {
    let release: (() => Promise<void>) | undefined;
    try {
      const name = await folderName(url);
      release = await share(lockOf(name));
      const folder = await (await root(true)).getDirectoryHandle(name, { create: true });
      return new CachedFile(folder, await readAbout(folder), await readChunks(folder), url, release);
    } catch {
      await release?.();
      return undefined;
    }
  }

  /** Returns the size of a stored file and whether all its pieces are stored; `undefined` if no visit can use it. */
  static async find(url: string): Promise<{ size: number; complete: boolean } | undefined> {
    try {
      const folder = await (await root(false)).getDirectoryHandle(await folderName(url));
      const { size = 0 } = (await readAbout(folder)) ?? {};
      return size ? { size, complete: (await readChunks(folder)).size >= Math.ceil(size / CHUNK) } : undefined;
    } catch {
      return undefined;
    }
  }

  /** Ends the use of the file. Deletes what no later visit can use. */
  async close(): Promise<void> {
    await this.release();
    if (!this.known) await sweep(this.folder.name);
  }

  /** The description of the file, if a later visit can use what is stored. */
  get known(): { size: number; etag: string | null } | undefined {
    return this.about?.size ? this.about : undefined;
  }

  has(index: number): boolean {
    return this.about !== undefined && this.chunks.has(index);
  }

  /** Sets the description of the file, and deletes pieces of other versions. */
  async describe(size: number, etag: string | null): Promise<void> {
    if (this.about?.size === size && this.about.etag === etag) return;
    for (const index of this.chunks) await this.folder.removeEntry(String(index)).catch(() => {});
    this.chunks.clear();
    await this.finish(size, etag);
  }

  /** Prepares for pieces of a file whose size is not known yet, and deletes those of earlier downloads. Until `finish`, the
   *  file is listed with the size 0. */
  async begin(): Promise<void> {
    for (const name of [ABOUT, ...[...this.chunks].map(String)]) await this.folder.removeEntry(name).catch(() => {});
    this.chunks.clear();
    await this.finish(0, null);
  }

  /** Stores a description of the file. One that was downloaded as a whole gets its size after its last piece. */
  async finish(size: number, etag: string | null): Promise<void> {
    this.about = { url: this.url, size, etag, added: Date.now() };
    await write(this.folder, ABOUT, [JSON.stringify(this.about)]);
  }

  /** Returns a piece if it is stored and its digest is correct. */
  async get(index: number): Promise<Uint8Array<ArrayBuffer> | undefined> {
    if (!this.has(index)) return undefined;
    try {
      const file = await (await this.folder.getFileHandle(String(index))).getFile();
      const bytes = new Uint8Array(await file.arrayBuffer());
      const data = bytes.subarray(DIGEST);
      const found = await digest(data);
      if (bytes.length > DIGEST && found.every((byte, i) => byte === bytes[i])) return data;
    } catch (error) {
      if (!absent(error)) throw error;
    }
    this.chunks.delete(index);
    await this.folder.removeEntry(String(index)).catch(() => {});
    return undefined;
  }

  async put(index: number, data: Uint8Array<ArrayBuffer>): Promise<void> {
    await write(this.folder, String(index), [await digest(data), data]);
    this.chunks.add(index);
  }
}

/** The model files in the browser's storage. */
export const models = {
  /** Lists all stored files. Deletes the rest of interrupted downloads that cannot be resumed. */
  async list(): Promise<StoredFile[]> {
    const files: StoredFile[] = [];
    try {
      const home = await root(false);
      const names: string[] = [];
      for await (const name of home.keys()) names.push(name);
      for (const name of names) await sweep(name).catch(() => {});
      for await (const folder of home.values()) {
        if (folder.kind !== "directory") continue;
        const about = await readAbout(folder);
        if (!about) continue;
        let stored = 0;
        for await (const entry of folder.values()) {
          if (entry.kind === "file" && /^\d+$/.test(entry.name)) stored += (await entry.getFile()).size - DIGEST;
        }
        files.push({ ...about, stored });
      }
    } catch (error) {
      if (!absent(error)) throw WispError.from(error);
    }
    return files.sort((a, b) => a.added - b.added);
  },

  /** Deletes a file by its address. Returns false if it is not stored. */
  async remove(url: string): Promise<boolean> {
    try {
      await (await root(false)).removeEntry(await folderName(url), { recursive: true });
      return true;
    } catch (error) {
      if (absent(error)) return false;
      throw WispError.from(error);
    }
  },

  /** Deletes all stored files. */
  async clear(): Promise<void> {
    const storage = await navigator.storage.getDirectory();
    await storage.removeEntry(FOLDER, { recursive: true }).catch((error: unknown) => {
      if (!absent(error)) throw WispError.from(error);
    });
  },
};
