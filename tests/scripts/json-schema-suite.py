#!/usr/bin/env python3
"""json-schema-suite.py: runs the JSON Schema Test Suite (draft 2020-12) through Wisp's grammars.

Every schema must be refused by the name of a keyword, or accept exactly the suite's valid instances; random texts of the
accepted schemas must be valid by Python's jsonschema, formats included. Run it in an environment with jsonschema
and its formats, such as:

    python3 -m venv venv && venv/bin/pip install 'jsonschema[format]'
    venv/bin/python tests/scripts/json-schema-suite.py

The suite is taken from jsonschema's source distribution, or from the folder given as an argument, such as
JSON-Schema-Test-Suite/tests/draft2020-12.
"""

import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile

import jsonpointer
import jsonschema

ROOT = pathlib.Path(__file__).resolve().parents[2]

# `format` is enforced, where the suite's default is that it says nothing.
FORMAT_ONLY_ANNOTATES = "is only an annotation by default"


def suite(folder):
    """Downloads the source of jsonschema, and returns its copy of the suite."""
    version = jsonschema.__version__
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
    subprocess.run([*command, "--dest", folder, f"jsonschema=={version}"], check=True)
    with tarfile.open(next(pathlib.Path(folder).glob("jsonschema-*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    return next(pathlib.Path(folder).glob("jsonschema-*/json/tests/draft2020-12"))


def report(tests, folder):
    """Runs the suite through Wisp, and returns what became of each schema."""
    path = os.path.join(folder, "report.jsonl")
    environment = {**os.environ, "WISP_SCHEMA_SUITE": str(tests), "WISP_SCHEMA_REPORT": path}
    command = ["cargo", "test", "--quiet", "-p", "wisp-text", "--lib", "suite::whole_suite", "--", "--ignored"]
    subprocess.run(command, check=True, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    with open(path, encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def is_relative_json_pointer(text):
    """As jsonschema's own check, which refuses a number like 601, in which a digit follows a 0."""
    parts = re.fullmatch(r"(?:0|[1-9][0-9]*)(.*)", text, re.DOTALL) if isinstance(text, str) else None
    return not isinstance(text, str) or bool(parts) and (parts[1] == "#" or bool(jsonpointer.JsonPointer(parts[1])))


def invalid_texts(schema, texts):
    """Returns the texts that the schema does not accept."""
    default = jsonschema.Draft202012Validator
    kind = jsonschema.validators.validator_for(schema, default)
    checkers = kind.FORMAT_CHECKER.checkers
    checkers["relative-json-pointer"] = (is_relative_json_pointer, jsonpointer.JsonPointerException)
    validator = kind(schema, format_checker=kind.FORMAT_CHECKER)
    for text in texts:
        try:
            validator.validate(json.loads(text))
        except (ValueError, jsonschema.ValidationError) as error:
            yield text, str(error).splitlines()[0]


def main():
    refused, honoured, texts, violations, formats = collections.Counter(), 0, 0, [], 0
    with tempfile.TemporaryDirectory() as folder:
        tests = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else suite(folder)
        groups = report(tests, folder)
    for group in groups:
        name = f"{group['file']}: {group['group']}"
        if "refused" in group:
            keyword, message = group["refused"]
            refused[keyword or message] += 1
            continue
        honoured += 1
        texts += len(group["texts"])
        for difference in group["differences"]:
            if FORMAT_ONLY_ANNOTATES in difference:
                formats += 1
            else:
                violations.append(f"{name}: {difference}")
        for text, problem in invalid_texts(group["schema"], group["texts"]):
            violations.append(f"{name}: generated {text}: {problem}")
    print(f"{len(groups)} schemas: {honoured} honoured, {refused.total()} refused, {len(violations)} violations")
    print(f"{texts} random texts; {formats} formats enforced that the suite does not")
    print("refused: " + ", ".join(f"{name} {count}" for name, count in refused.most_common()))
    for violation in violations:
        print(violation)
    sys.exit(bool(violations))


main()
