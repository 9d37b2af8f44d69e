// Caches the page for visits without a network. The build inserts the list of files and the version.
// A version waits until no page of the one before is open: such a page still needs its files, which the server may no longer have.
const FILES = __FILES__;
// Another page of this origin has caches of its own.
const PREFIX = `wisp-page ${registration.scope} `;
const CACHE = `${PREFIX}__VERSION__`;

addEventListener("install", (event) => {
  const fill = async () => {
    const cache = await caches.open(CACHE);
    await cache.addAll(["./", ...FILES].map((file) => new Request(file, { cache: "reload" })));
  };
  event.waitUntil(fill());
});

addEventListener("activate", (event) => {
  const clean = async () => {
    for (const name of await caches.keys()) if (name.startsWith(PREFIX) && name !== CACHE) await caches.delete(name);
    await clients.claim();
  };
  event.waitUntil(clean());
});

addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET" || new URL(request.url).origin !== location.origin) return;
  event.respondWith(answer(request));
});

/** Responds from the cache if possible, with a part of the file if a range is requested. */
async function answer(request) {
  const cache = await caches.open(CACHE);
  const kept = await cache.match(request.url, { ignoreSearch: true, ignoreVary: true });
  if (!kept) return fetch(request);
  const range = /^bytes=(\d+)-(\d*)$/.exec(request.headers.get("Range") ?? "");
  if (!range) return kept;
  const body = await kept.blob();
  const start = Number(range[1]);
  const end = Math.min(range[2] ? Number(range[2]) + 1 : body.size, body.size);
  return new Response(body.slice(start, end), {
    status: 206,
    headers: { "Content-Range": `bytes ${start}-${end - 1}/${body.size}`, "Content-Length": String(end - start) },
  });
}
