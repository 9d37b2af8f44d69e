import { defineConfig } from "vite";
export default defineConfig({ base: "./", build: { outDir: "../dist/page", emptyOutDir: true, target: "es2022", assetsInlineLimit: 0 } });
