// A local server that serves folders with the page's headers, supports ranges and injects faults.
import { createServer } from "node:http";
import { createReadStream, statSync } from "node:fs";
import { extname, join, normalize } from "node:path";
import { pipeline } from "node:stream/promises";
import { setTimeout } from "node:timers/promises";
import { gzipSync } from "node:zlib";

const TYPES = {
  ".html": "text/html; charset=utf-8", ".js": "text/javascript", ".css": "text/css", ".json": "application/json",
  ".wasm": "application/wasm", ".svg": "image/svg+xml", ".webmanifest": "application/manifest+json",
};

/** Starts a server. `mounts`: folders by path; `virtual`: files by path, `{ size, read(start, end) }`. */
export async function serve({ mounts = {}, virtual = {} }) {
  const state = { requests: [], fault: undefined, headers: {} };
  const server = createServer(async (request, response) => {
    const path = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
    const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.range ?? "");
    state.requests.push({ method: request.method, path, range: request.headers.range });
    const file = virtual[path] ?? onDisk(mounts, path);
    const fault = state.fault?.({ path, range, request, count: state.requests.length }) ?? {};
    if (!file && !fault.status) return void response.writeHead(404, state.headers).end("not here");
    if (fault.status) return void response.writeHead(fault.status, { "Content-Type": "text/plain", ...fault.headers }).end(fault.body ?? "");
    const headers = {
      "Content-Type": file.type ?? "application/octet-stream", ETag: `"${file.size}"`,
      "Accept-Ranges": "bytes", "Access-Control-Expose-Headers": "Content-Range, ETag",
      ...state.headers, ...fault.headers,
    };
    const ranged = range && !fault.ignoreRange;
    const start = ranged ? Number(range[1]) : 0;
    const end = Math.min(ranged && range[2] ? Number(range[2]) + 1 : file.size, file.size);
    if (start >= file.size && file.size > 0) return void response.writeHead(416).end();
    if (fault.compress) {
      headers["Content-Encoding"] = "gzip";
      delete headers["Accept-Ranges"];
      const bytes = gzipSync(file.read ? file.read(0, file.size) : await whole(file.stream(0, file.size)));
      if (!fault.noLength) headers["Content-Length"] = bytes.length;
      return void response.writeHead(200, headers).end(bytes);
    }
    if (!fault.noLength) headers["Content-Length"] = end - start;
    if (ranged) headers["Content-Range"] = `bytes ${start}-${end - 1}/${file.size}`;
    response.writeHead(ranged ? 206 : 200, headers);
    if (request.method === "HEAD") return void response.end();
    await send(response, file, start, end, fault);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  return {
    state, port, url: `http://localhost:${port}`,
    close: () => new Promise((resolve) => (server.closeAllConnections(), server.close(resolve))),
  };
}

function onDisk(mounts, path) {
  for (const [prefix, folder] of Object.entries(mounts)) {
    if (!path.startsWith(prefix)) continue;
    let file = join(folder, normalize("/" + path.slice(prefix.length)));
    try {
      if (statSync(file).isDirectory()) file = join(file, "index.html");
      const { size } = statSync(file);
      return { size, type: TYPES[extname(file)], stream: (start, end) => createReadStream(file, { start, end: end - 1 }) };
    } catch {
      // The file may be in the next mount.
    }
  }
  return undefined;
}

const PIECE = 256 << 10;

/** Sends bytes. Closes the connection `linger` milliseconds after `breakAfter` bytes, and waits `delay` milliseconds
 *  between pieces. */
async function send(response, file, start, end, { breakAfter = Infinity, linger = 0, delay = 0 }) {
  const stop = Math.min(end, start + breakAfter);
  const pieces = async function* () {
    for (let at = start; at < stop; at += PIECE) {
      const to = Math.min(at + PIECE, stop);
      yield file.read ? file.read(at, to) : await whole(file.stream(at, to));
      if (delay) await setTimeout(delay);
    }
    if (stop < end && linger) await setTimeout(linger);
  };
  // The client may close the connection too.
  await pipeline(pieces, response, { end: stop === end }).catch(() => {});
  if (stop < end) response.destroy();
}

async function whole(stream) {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return Buffer.concat(parts);
}
