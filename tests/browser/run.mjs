// Runs the files of tests, or those that are named: two at a time, and the longest first, so that none runs alone at the end.
import { readdirSync } from "node:fs";
import { join } from "node:path";
import process from "node:process";
import { run } from "node:test";
import { spec } from "node:test/reporters";
import { ALL } from "./lib/setup.mjs";

const LONGEST_FIRST = ["weights", "page", "package", "kernels"].map((name) => `${name}.test.mjs`);

const given = process.argv.slice(2);
const found = readdirSync(import.meta.dirname).filter((name) => name.endsWith(".test.mjs")).sort();
const ordered = [...new Set([...LONGEST_FIRST, ...found])];
const files = (given.length > 0 ? given : ordered).map((name) => join(import.meta.dirname, name));

// Node limits either a file or a test to this time, by its version. All cases of the kernels alone take up to 20 minutes.
const timeout = (ALL ? 7200 : 900) * 1000;

run({ files, concurrency: 2, timeout })
  .on("test:fail", ({ todo }) => {
    if (!todo) process.exitCode = 1;
  })
  .compose(new spec())
  .pipe(process.stdout);
