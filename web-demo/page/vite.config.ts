import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { createHash } from "node:crypto";
import { join } from "node:path";
import { defineConfig, type Plugin } from "vite";

const out = join(import.meta.dirname, "../dist/page");

/** Inserts the list of files into the service worker, and gives each build a separate cache. */
function listFiles(): Plugin {
  return {
    name: "list-files",
    apply: "build",
    closeBundle() {
      const entries = readdirSync(out, { recursive: true, withFileTypes: true });
      const files = entries
        .filter((entry) => entry.isFile() && entry.name !== "sw.js")
        .map((entry) => join(entry.parentPath, entry.name).slice(out.length + 1).replaceAll("\\", "/"));
      const hash = createHash("sha256");
      for (const file of files.sort()) hash.update(file).update(readFileSync(join(out, file)));
      const sw = join(out, "sw.js");
      const text = readFileSync(sw, "utf8")
        .replace("__FILES__", JSON.stringify(files))
        .replace("__VERSION__", hash.digest("hex").slice(0, 12));
      writeFileSync(sw, text);
    },
  };
}

export default defineConfig({
  root: import.meta.dirname,
  base: "./",
  resolve: { alias: { "wisp-web": join(import.meta.dirname, "../dist/wisp-web/index.js") } },
  worker: { format: "es" },
  build: { outDir: out, emptyOutDir: true, target: "es2022", assetsInlineLimit: 0, modulePreload: { polyfill: false } },
  plugins: [listFiles()],
});
