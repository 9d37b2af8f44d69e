import { CachedFile, CHUNK } from "./cache.js";
import { check, WispError } from "./errors.js";

/** An answer of a server with a status that is an error. */
export class HttpError extends WispError {
  constructor(url: string, readonly status: number) {
    super("Network", `${url}: the server answers with HTTP status ${status}`);
  }

  /** Whether the same request may succeed later. */
  get isTransient(): boolean {
    return this.status >= 500 || this.status === 429;
  }
}

/** A file that the engine reads in pieces. */
export interface SourceFile {
  readonly name: string;
  readonly size: number;
  read(start: number, end: number): Promise<Uint8Array<ArrayBuffer>>;
  close(): Promise<void>;
}

/** The origin of the last bytes. */
export type Origin = "network" | "storage" | "file";

/** The options of fetching a file. */
export interface FetchOptions {
  signal?: AbortSignal | undefined;
  /** `prefer`: store the file if there is room; `require`: fail otherwise; `none`: do not store it; `check`: as `prefer`, and
   *  ask the server whether a stored file is current. */
  cache: "prefer" | "require" | "none" | "check";
  /** The mode of the browser's own cache. Default: `no-store`. */
  httpCache?: RequestCache | undefined;
  /** The files of the same model that are being received, the one that was read last at the end. */
  receiving?: Set<HttpFile> | undefined;
  headers?: Record<string, string> | undefined;
  onOrigin: (origin: Origin) => void;
  onWarning: (warning: WispError) => void;
  /** Called while a file is downloaded as a whole, because the server sends no parts of it, with the bytes so far and the
   *  bytes in all, which are 0 if they are unknown. */
  onWhole?: ((received: number, total: number) => void) | undefined;
}

/** A file that the visitor chose. */
export class LocalFile implements SourceFile {
  constructor(private readonly file: File, private readonly onOrigin: (origin: Origin) => void) {}

  get name(): string {
    return this.file.name;
  }

  get size(): number {
    return this.file.size;
  }

  async read(start: number, end: number): Promise<Uint8Array<ArrayBuffer>> {
    this.onOrigin("file");
    try {
      return new Uint8Array(await this.file.slice(start, end).arrayBuffer());
    } catch (error) {
      throw new WispError("ModelFormat", `${this.name} can no longer be read: was it moved or changed?`, error);
    }
  }

  async close(): Promise<void> {}
}

/** Consecutive attempts without data before a download fails. */
const TRIES = 6;
const TRIES_TO_OPEN = 3;
/** Milliseconds before the second attempt, doubled before each further one. */
const PAUSE = 250;
/** Maximum bytes of a read that is fetched by a separate request if nothing is stored. */
const SMALL = 256 << 10;
/** Maximum number of pieces to read and discard instead of starting a new request. */
const NEAR = 2;
/** Maximum files of a model that are received at a time: browsers open six connections to a server with HTTP/1.1. */
const MOST_RECEIVED = 2;

const pause = (milliseconds: number, signal?: AbortSignal) =>
  new Promise<void>((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });

/** A body that is being received. */
interface Stream {
  reader: ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>;
  /** The position of the first byte of `rest`, or of the next byte. */
  at: number;
  rest: Uint8Array<ArrayBuffer>;
}

/** The decoded file name of a URL, or the name as it is if it is malformed. */
function plain(name: string): string {
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

/** The server's tag for this version of a file. */
const tag = ({ headers }: Response) => headers.get("ETag") ?? headers.get("Last-Modified");

/** The start of a part of a file and the size of the file, if the server tells them. */
function partOf({ headers }: Response): { start: number; size: number } | undefined {
  const [, start, size] = /^bytes (\d+)-\d+\/(\d+)$/.exec(headers.get("Content-Range") ?? "") ?? [];
  return size === undefined ? undefined : { start: Number(start), size: Number(size) };
}

/** Maximum bytes of a file that is read at once. */
const MOST_TEXT = 256 << 20;

/** A file at a URL: fetched by ranges, resumed after broken connections, and stored. Where the server sends no ranges or
 *  does not say how long the file is, it is downloaded as a whole before it is read. */
export class HttpFile implements SourceFile {
  readonly name: string;
  size = 0;
  private etag: string | null = null;
  private stream: Stream | undefined;
  private recent = new Map<number, Uint8Array<ArrayBuffer>>();
  /** Whether the file was downloaded as a whole. */
  private whole = false;
  /** The number of requests for parts of the file that failed before its size was known. */
  private refusals = 0;
  /** The pieces of a whole file for which there is no storage. The browser may keep blobs on its disk. */
  private held = new Map<number, Blob>();

  private constructor(
    readonly url: string,
    private readonly options: FetchOptions,
    private cached: CachedFile | undefined,
    /** Maximum bytes of the file. */
    private readonly most: number,
  ) {
    this.name = plain(new URL(url).pathname.split("/").pop() || url);
  }

  /** Opens a small file. */
  static openText(url: string, options: FetchOptions, verify = false): Promise<HttpFile> {
    return HttpFile.open(url, { ...options, onWhole: undefined }, MOST_TEXT, verify);
  }

  /** Opens a file, without a request if storage has its description, unless `verify` asks the server whether it is current. */
  static async open(url: string, options: FetchOptions, most = Infinity, verify = false): Promise<HttpFile> {
    const cached = options.cache === "none" ? undefined : await CachedFile.open(url);
    if (!cached && options.cache !== "none") {
      const refused = new WispError("QuotaExceeded", "the browser has no storage for this page");
      if (options.cache === "require") throw refused;
      options.onWarning(refused);
    }
    const file = new HttpFile(url, options, cached, most);
    const known = cached?.known;
    try {
      if (known && !((verify || options.cache === "check") && (await file.isOutdated(known)))) {
        file.size = known.size;
        file.etag = known.etag;
      } else {
        await file.retrying(() => file.connect(0));
      }
      return file;
    } catch (error) {
      await file.close();
      throw error;
    }
  }

  /** Reads a small file. */
  async text(): Promise<Uint8Array<ArrayBuffer>> {
    if (this.size > MOST_TEXT) throw new WispError("ModelFormat", `${this.name} is too large for a text file`);
    return this.read(0, this.size);
  }

  async read(start: number, end: number): Promise<Uint8Array<ArrayBuffer>> {
    check(this.options.signal);
    const first = Math.floor(start / CHUNK);
    const last = Math.floor((end - 1) / CHUNK);
    if (end - start <= SMALL && !this.isNear(first)) return this.range(start, end);
    const out = new Uint8Array(end - start);
    for (let index = first; index <= last; index++) {
      const chunk = await this.chunk(index);
      const from = Math.max(start - index * CHUNK, 0);
      const part = chunk.subarray(from, end - index * CHUNK);
      out.set(part, index * CHUNK + from - start);
    }
    return out;
  }

  /** Cancels the current download. */
  async close(): Promise<void> {
    this.disconnect();
    this.recent.clear();
    this.held.clear();
    await this.stopStoring();
  }

  private disconnect(): void {
    this.stream?.reader.cancel().catch(() => {});
    this.stream = undefined;
    this.options.receiving?.delete(this);
  }

  private async stopStoring(): Promise<void> {
    const cached = this.cached;
    this.cached = undefined;
    await cached?.close().catch(() => {});
  }

  /** Asks the server whether it has another version than the stored one, which remains in use if there is no answer. */
  private async isOutdated({ size, etag }: { size: number; etag: string | null }): Promise<boolean> {
    const response = await this.retrying(() => this.request("bytes=0-0")).catch(() => undefined);
    check(this.options.signal);
    if (!response) return false;
    response.body?.cancel().catch(() => {});
    return tag(response) !== etag || (partOf(response)?.size ?? size) !== size;
  }

  private isNear(index: number): boolean {
    if (this.cached || this.whole || this.recent.has(index)) return true;
    const next = this.stream ? Math.floor(this.stream.at / CHUNK) : -1;
    return index >= next && index <= next + NEAR;
  }

  private async chunk(index: number): Promise<Uint8Array<ArrayBuffer>> {
    const recent = this.recent.get(index);
    if (recent) return recent;
    const held = this.held.get(index);
    let chunk = held ? new Uint8Array(await held.arrayBuffer()) : await this.cached?.get(index);
    if (chunk) {
      this.options.onOrigin("storage");
    } else {
      this.options.onOrigin("network");
      const next = this.stream ? this.stream.at / CHUNK : -1;
      const through = next >= 0 && next <= index && index - next <= NEAR;
      for (let i = through ? next : index; i <= index; i++) chunk = await this.download(i);
    }
    this.remember(index, chunk!);
    return chunk!;
  }

  private remember(index: number, chunk: Uint8Array<ArrayBuffer>): void {
    this.recent.set(index, chunk);
    if (this.recent.size > 2) this.recent.delete(this.recent.keys().next().value!);
  }

  /** Receives one piece and stores it. */
  private async download(index: number): Promise<Uint8Array<ArrayBuffer>> {
    const start = index * CHUNK;
    const chunk = new Uint8Array(Math.min(CHUNK, this.size - start));
    let have = 0;
    this.receivedLast();
    await this.retrying(async (progress) => {
      if (this.stream?.at !== start + have) await this.connect(start + have);
      while (have < chunk.length) {
        const part = await this.receive(chunk.length - have);
        chunk.set(part, have);
        have += part.length;
        progress();
      }
    });
    try {
      await this.cached?.put(index, chunk);
    } catch (error) {
      // The download continues without storing.
      this.refused(error);
      await this.stopStoring();
    }
    return chunk;
  }

  /** Ends the connections of the files of this model that were read before, except the last ones. */
  private receivedLast(): void {
    const { receiving } = this.options;
    if (!receiving) return;
    receiving.delete(this);
    receiving.add(this);
    for (const file of [...receiving].slice(0, -MOST_RECEIVED)) file.disconnect();
  }

  /** Fetches a few bytes by a separate request. */
  private async range(start: number, end: number): Promise<Uint8Array<ArrayBuffer>> {
    return this.retrying(async () => {
      const response = await this.request(`bytes=${start}-${end - 1}`);
      if (response.status !== 206) throw new WispError("Network", `${this.url}: the server does not support ranges`);
      const from = /^bytes (\d+)-/.exec(response.headers.get("Content-Range") ?? "");
      const bytes = new Uint8Array(await response.arrayBuffer());
      if ((from && Number(from[1]) !== start) || bytes.length !== end - start) throw new TypeError("the server sent another range");
      return bytes;
    });
  }

  /** Reads the next bytes of the stream, up to a maximum. */
  private async receive(most: number): Promise<Uint8Array<ArrayBuffer>> {
    const stream = this.stream!;
    if (stream.rest.length === 0) {
      const { done, value } = await stream.reader.read();
      if (done) throw new TypeError(`the connection ended at byte ${stream.at}`);
      stream.rest = value;
    }
    const part = stream.rest.subarray(0, most);
    stream.rest = stream.rest.subarray(part.length);
    stream.at += part.length;
    return part;
  }

  private async request(range?: string): Promise<Response> {
    const { signal, headers } = this.options;
    const get = (more: Record<string, string>) => fetch(this.url, {
      headers: { ...headers, ...more },
      credentials: "same-origin",
      cache: this.options.httpCache ?? "no-store",
      ...(signal ? { signal } : {}),
    });
    const response = await get(range ? { Range: range } : {}).catch(async (error: unknown) => {
      // The connection may have failed, or the server allows other sites to read its files, but not to ask for parts of them.
      if (!range || this.size || signal?.aborted || ++this.refusals === 1) throw error;
      const whole = await get({});
      if (this.refusals > 2 || whole.headers.get("Accept-Ranges") !== "bytes") return whole;
      whole.body?.cancel().catch(() => {});
      throw error;
    });
    if (response.status === 416) {
      throw new WispError("ModelFormat", `${this.name} is empty or shorter than it was`);
    }
    if (!response.ok) throw new HttpError(this.url, response.status);
    return response;
  }

  /** Opens a stream at a position. */
  private async connect(start: number): Promise<void> {
    this.disconnect();
    const response = await this.request(`bytes=${start}-`);
    const part = partOf(response);
    const partial = response.status === 206;
    if (partial && part && part.start !== start) throw new TypeError("the server sent another range");
    let size = part ? part.size : Number(response.headers.get("Content-Length") ?? 0) + (partial ? start : 0);
    if (!this.size && (!partial || !size)) return this.receiveWhole(response);
    // The length of a compressed answer is not that of the file.
    if (!size || (this.whole && !partial)) size = this.size;
    if (!response.body) throw new TypeError("the answer has no body");
    const etag = tag(response);
    if (this.size && (this.size !== size || this.etag !== etag)) {
      await this.cached?.describe(size, etag).catch(() => {});
      throw new WispError("Network", `${this.name} has changed on the server since its download began: load it again`);
    }
    this.size = size;
    this.etag = etag;
    await this.keep();
    const reader = response.body.getReader() as Stream["reader"];
    this.stream = { reader, at: partial ? start : 0, rest: new Uint8Array(0) };
    this.receivedLast();
    // A server without ranges sends the file from the start.
    while (this.stream.at < start) await this.receive(start - this.stream.at);
  }

  /** Receives the whole file, piece by piece. */
  private async receiveWhole(response: Response): Promise<void> {
    await this.cached?.begin().catch(async (error: unknown) => {
      await this.stopStoring();
      this.refused(error);
    });
    this.held.clear();
    // The browser hides whether the answer of another site is compressed.
    const length = response.headers.has("Content-Encoding") ? 0 : Number(response.headers.get("Content-Length") ?? 0);
    const reader = response.body?.getReader() as Stream["reader"] | undefined;
    let piece = new Uint8Array(CHUNK);
    let received = 0;
    this.options.onOrigin("network");
    for (let next = await reader?.read(); next && !next.done; next = await reader!.read()) {
      for (let rest = next.value; rest.length > 0; ) {
        const part = rest.subarray(0, CHUNK - (received % CHUNK));
        piece.set(part, received % CHUNK);
        rest = rest.subarray(part.length);
        received += part.length;
        if (received % CHUNK > 0) continue;
        await this.hold(received / CHUNK - 1, piece);
        piece = new Uint8Array(CHUNK);
      }
      if (received > this.most) {
        await reader!.cancel().catch(() => {});
        throw new WispError("ModelFormat", `${this.name} is too large for a text file`);
      }
      this.options.onWhole?.(received, length >= received ? length : 0);
      check(this.options.signal);
    }
    if (received === 0) throw new WispError("ModelFormat", `${this.name} is empty`);
    if (received % CHUNK > 0) await this.hold(Math.floor(received / CHUNK), piece.slice(0, received % CHUNK));
    this.size = received;
    this.etag = tag(response);
    this.whole = true;
    if (this.held.size === 0) await this.cached?.finish(this.size, this.etag).catch((error: unknown) => this.refused(error));
  }

  /** Stores a piece of a whole file, or keeps it in memory. */
  private async hold(index: number, piece: Uint8Array<ArrayBuffer>): Promise<void> {
    if (this.cached && this.held.size === 0) {
      try {
        return await this.cached.put(index, piece);
      } catch (error) {
        this.refused(error);
      }
    }
    this.held.set(index, new Blob([piece]));
  }

  /** Reports that the browser does not store the file. */
  private refused(error: unknown): void {
    const warning = WispError.from(error);
    if (this.options.cache === "require") throw warning;
    this.options.onWarning(warning);
  }

  private async keep(): Promise<void> {
    try {
      await this.cached?.describe(this.size, this.etag);
    } catch (error) {
      this.refused(error);
      await this.stopStoring();
    }
  }

  /** Retries after broken connections and transient errors of the server as long as data arrives. */
  private async retrying<T>(run: (progress: () => void) => Promise<T>): Promise<T> {
    for (let failures = 0; ; ) {
      try {
        return await run(() => (failures = 0));
      } catch (error) {
        check(this.options.signal);
        if (error instanceof WispError && !(error instanceof HttpError && error.isTransient)) throw error;
        this.disconnect();
        failures += 1;
        // A server that never responded is not retried.
        if (failures >= (this.size ? TRIES : TRIES_TO_OPEN)) throw this.explain(error);
        await pause(PAUSE * 2 ** (failures - 1), this.options.signal);
      }
    }
  }

  private explain(error: unknown): WispError {
    if (error instanceof HttpError) return error;
    const other = new URL(this.url).origin !== globalThis.location?.origin;
    const hint = other && this.size === 0
      ? " (it cannot be reached, or it does not allow other sites to read it: CORS)"
      : "";
    const { message } = WispError.from(error);
    return new WispError("Network", `${this.url} cannot be fetched${hint}: ${message}`, error);
  }
}
