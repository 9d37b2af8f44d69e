#!/usr/bin/env python3
"""Compares what `wisp convert` writes with llama.cpp: the tokens that follow a golden's, or an encoder's hidden
states (within 2e-2: llama.cpp rounds the table of its GELU to F16), in F32, F16 and Q8_0.

    llama_cpp.py LLAMA_CPP BUILD [NAME or FOLDER...]

LLAMA_CPP is its source folder, BUILD where cmake built its static libraries (-DBUILD_SHARED_LIBS=OFF), or a folder of
its shared libraries of the same version, as the Python package llama-cpp-python installs them.
Needs g++ and Python's standard library, and `wisp` from the target folder. The goldens are those of the repository and of
the shared data; without names, all but the quantised ones.
A difference in F32 fails. In F16 and Q8_0 llama.cpp rounds activations too, so a token may differ where the
two best logits are nearly equal; the table says how near they are in the reference.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SHARED = Path(os.environ.get("WISP_SHARED", ROOT.parent / "shared"))
GOLDENS = [ROOT / "tests" / "fixtures" / "goldens", SHARED / "data" / "goldens"]
WISP = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "debug" / "wisp"


def build(source, libraries, out):
    """Links the runner with llama.cpp's libraries."""
    archives = [str(path) for path in sorted(libraries.rglob("*.a"))]
    vulkan = ["-lvulkan"] if any("vulkan" in path for path in archives) else []
    linked = ["-Wl,--start-group", *archives, "-Wl,--end-group", *vulkan, "-lgomp", "-lpthread", "-ldl"]
    if not archives:
        linked = [f"-L{libraries}", f"-Wl,-rpath,{libraries.resolve()}", "-lllama", "-lggml", "-lggml-base", "-lggml-cpu"]
    subprocess.run(
        ["g++", "-O1", "-o", out, Path(__file__).with_suffix(".cpp"), f"-I{source}/include", f"-I{source}/ggml/include",
         *linked], check=True)


def run(*args, text=""):
    """Standard output, or the last line of what went wrong."""
    done = subprocess.run([str(arg) for arg in args], input=text, capture_output=True, text=True)
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line] or [f"status {done.returncode}"]
        return None, next((line for line in lines if line.startswith("error")), lines[0])
    return done.stdout, ""


def compare(runner, directory, folder, encoding):
    """One cell of the table: "equal", or what is different."""
    golden = json.loads((directory / "golden.json").read_text())
    out = folder / f"{directory.name}-{encoding}.gguf"
    done, problem = run(WISP, "convert", "--model", directory, "--out", out, "--encoding", encoding)
    if done is None:
        return f"not written: {problem}"
    ids = ",".join(map(str, golden["tokens"]))
    if "scores" in golden:
        scores, problem = run(runner, "scores", out, ids)
        if scores is None:
            return f"not read: {problem}"
        off = max(abs(a - b) for a, b in zip(map(float, scores.split()), golden["scores"]))
        return f"scores {'equal' if off <= 2e-2 else 'differ'} ({off:.0e})"
    if "last_hidden_state" in golden:
        states, problem = run(runner, "hidden", out, ids)
        if states is None:
            return f"not read: {problem}"
        expected = [value for row in golden["last_hidden_state"] for value in row]
        states = list(map(float, states.split()))
        assert len(states) == len(expected)
        off = max(abs(a - b) for a, b in zip(states, expected))
        return f"states {'equal' if off <= 2e-2 else 'differ'} ({off:.0e})"
    greedy, problem = run(runner, "greedy", out, ids, len(golden["greedy"]))
    if greedy is None:
        return f"not read: {problem}"
    logits = list(map(float, run(runner, "logits", out, ids)[0].split()))
    off = max(abs(a - b) for a, b in zip(logits, golden["logits"][-1]))
    greedy = list(map(int, greedy.split()))
    if greedy == golden["greedy"]:
        return f"equal ({off:.0e})"
    at = next(i for i, (a, b) in enumerate(zip(greedy, golden["greedy"])) if a != b)
    with tempfile.TemporaryDirectory() as spare:
        # The gap of the two best logits where they part, in our reading of the reference.
        before = ",".join(map(str, golden["tokens"] + golden["greedy"][:at]))
        best, second = gap(directory, before, Path(spare))
    return f"token {at} differs ({off:.0e}; gap {best - second:.0e})"


def gap(directory, ids, folder):
    """The two best logits after some tokens, by Wisp in F32."""
    out = folder / "logits.safetensors"
    run(WISP, "logits", "--device", "host", "--model", directory, "--tokens", ids, "--out", out)
    data = out.read_bytes()
    head = int.from_bytes(data[:8], "little")
    shape = json.loads(data[8:8 + head])["logits"]["shape"]
    row = memoryview(data[8 + head:]).cast("f")[-shape[1]:]
    return sorted(row)[:-3:-1]


def find_goldens():
    """The folders of all goldens whose weights are not quantised, by their names."""
    found = {}
    for path in (path for folder in GOLDENS if folder.is_dir() for path in folder.iterdir()):
        config = path / "config.json"
        if (path / "golden.json").exists() and "quantization_config" not in json.loads(config.read_text()):
            found.setdefault(path.name, path)
    return dict(sorted(found.items()))


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    goldens = find_goldens()
    names = sys.argv[3:] or list(goldens)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        runner = folder / "llama_cpp"
        build(Path(sys.argv[1]), Path(sys.argv[2]), runner)
        for name in names:
            cells = [compare(runner, goldens.get(name, Path(name)), folder, encoding) for encoding in ["f32", "f16", "q8_0"]]
            failed |= "differ" in cells[0]
            print(f"{Path(name).name:24} " + " | ".join(f"{cell:34}" for cell in cells), flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
