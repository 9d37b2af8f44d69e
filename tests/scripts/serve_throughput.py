#!/usr/bin/env python3
"""serve_throughput.py WISP MODEL [LLAMA_SERVER]: tokens per second of `wisp serve` on the host with 1 client and with 16, at both
precisions, and of llama.cpp's server with the same model; all in turn, several times, with medians. Servers that are not measured
are stopped. Prompts and answers are of one length, and no prompt begins like another."""

import http.client
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time

WISP, MODEL, *LLAMA = sys.argv[1:]
CLIENTS = (1, 16)
ROUNDS = int(os.environ.get("ROUNDS", "5"))
TOKENS = 64
THREADS = str(os.cpu_count())


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


class Server:
    def __init__(self, name, command):
        self.name, self.port = name, free_port()
        self.process = subprocess.Popen([*command, "--port", str(self.port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while True:
            try:
                if self.call("GET", "/health").status == 200:
                    break
            except ConnectionError:
                assert self.process.poll() is None, f"{name} does not start"
            time.sleep(0.1)
        self.rates = {clients: [] for clients in CLIENTS}
        self.round(0, 1)
        self.process.send_signal(signal.SIGSTOP)

    def call(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.text = answer.read()
        return answer

    def complete(self, number):
        prompt = f"{number} is the number of a story about the sea, which a fisherman told his children on a long evening. It began"
        body = {"prompt": prompt, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True, "cache_prompt": False}
        answer = self.call("POST", "/v1/completions", body)
        usage = json.loads(answer.text)["usage"]
        assert usage["completion_tokens"] == TOKENS, answer.text

    def round(self, first, clients):
        """Returns the tokens per second of some clients with one request each."""
        threads = [threading.Thread(target=self.complete, args=(first + number,)) for number in range(clients)]
        begin = time.monotonic()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return clients * TOKENS / (time.monotonic() - begin)

    def measure(self, first, clients):
        self.process.send_signal(signal.SIGCONT)
        self.rates[clients].append(self.round(first, clients))
        self.process.send_signal(signal.SIGSTOP)


wisp = [WISP, "serve", "--device", "host", "--model", MODEL, "--max-length", "512"]
servers = [Server("wisp, exact", wisp), Server("wisp, int8", [*wisp, "--precision", "int8"])]
if LLAMA:
    llama = [LLAMA[0], "--model", MODEL, "--parallel", "16", "--ctx-size", "8192", "--threads", THREADS, "--no-webui"]
    servers.append(Server("llama.cpp", llama))
try:
    for turn in range(ROUNDS):
        for clients in CLIENTS:
            for server in servers:
                server.measure(1000 * (turn + 1) + 100 * clients, clients)
finally:
    for server in servers:
        server.process.kill()
for server in servers:
    one, many = (statistics.median(server.rates[clients]) for clients in CLIENTS)
    ratio = statistics.median(b / a for a, b in zip(*(server.rates[clients] for clients in CLIENTS)))
    print(f"{server.name}: {one:.1f} tokens/s with 1 client, {many:.1f} with 16: {ratio:.2f} times")
for server in servers[:-1] if LLAMA else []:
    for clients in CLIENTS:
        pairs = [a / b for a, b in zip(server.rates[clients], servers[-1].rates[clients])]
        print(f"{server.name} / llama.cpp with {clients}: {statistics.median(pairs):.2f} (from {min(pairs):.2f} to {max(pairs):.2f})")
