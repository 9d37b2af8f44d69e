#!/usr/bin/env python3
"""Runs native-demo/deploy/ray_serve.py on a Ray of its own: serve_ray.py WISP, the path of the program.

Three replicas answer clients that never pause, while servers and replicas are killed: only the streams that the killed one was
sending may end early, and with an error that says so; all other answers are those of a request that runs alone. Then replicas
are started and ended as requests come and go."""

import asyncio
import json
import logging
import os
import pathlib
import random
import signal
import socket
import sys
import time

DEPLOY = pathlib.Path(__file__).parents[2] / "native-demo/deploy"
# The replicas import the application too.
os.environ["PYTHONPATH"] = str(DEPLOY)
sys.path.insert(0, str(DEPLOY))

import httpx
import ray
from ray import serve
from ray_serve import Settings, app

WISP = sys.argv[1]
ADDRESS = "http://127.0.0.1:{}"
CLIENTS = 30
SEEDS = 12
# About as many streams as other requests; a stream takes a second or so.
STREAM = {"prompt": "Once upon a time", "max_tokens": 500, "ignore_eos": True, "temperature": 1, "stream": True}
WHOLE = {"prompt": "The dog", "max_tokens": 60, "temperature": 1}
PATIENCE = 60


class Answer:
    """What a client saw of a request."""

    def __init__(self):
        self.begin = time.monotonic()
        self.end = self.replica = self.error = self.text = None


async def ask(client: httpx.AsyncClient, body: dict, answer: Answer, characters: int | None = None) -> Answer:
    """Sends a request and reads its answer, or its first characters."""
    texts = []
    try:
        async with client.stream("POST", "/v1/completions", json=body) as response:
            answer.replica = int(response.headers.get("x-wisp-replica", ":0").rsplit(":", 1)[1])
            if response.status_code != 200:
                answer.error = f"{response.status_code} {(await response.aread()).decode()}"
            elif not body.get("stream"):
                texts.append(json.loads(await response.aread())["choices"][0]["text"])
            else:
                is_complete = False
                async for line in response.aiter_lines():
                    if characters is not None and sum(map(len, texts)) >= characters:
                        break
                    data = line.removeprefix("data: ")
                    is_complete = data == "[DONE]"
                    event = json.loads(data) if data and not is_complete else {"choices": []}
                    if "error" in event:
                        answer.error = event["error"]["code"]
                        break
                    texts += [choice["text"] for choice in event["choices"]]
                    if is_complete:
                        break
                if not is_complete and answer.error is None and characters is None:
                    answer.error = "the stream ended early"
    except httpx.HTTPError as error:
        answer.error = f"{type(error).__name__}: {error}"
    answer.text = "".join(texts)
    answer.end = time.monotonic()
    return answer


class Load:
    """Clients that never pause."""

    def __init__(self, address: str, expected: dict):
        self.address, self.expected = address, expected
        self.answers, self.is_over = [], False

    async def run(self, clients: int):
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=0)
        async with httpx.AsyncClient(base_url=self.address, timeout=PATIENCE, limits=limits) as http:
            await asyncio.gather(*(self.client(http, number) for number in range(clients)))

    async def client(self, http: httpx.AsyncClient, number: int):
        choose = random.Random(number)
        while not self.is_over:
            seed, is_stream = choose.randrange(SEEDS), choose.random() < 0.5
            body = {**(STREAM if is_stream else WHOLE), "seed": seed}
            # One of eight clients goes away after some of the stream.
            characters = choose.randrange(200) if is_stream and choose.random() < 0.125 else None
            answer = Answer()
            self.answers.append((answer, body, characters))
            await ask(http, body, answer, characters)

    def check(self, killed: dict):
        """Checks all answers: those that failed were streams of a replica that was killed while it sent them."""
        failed = {pid: 0 for pid in killed}
        for answer, body, characters in self.answers:
            expected = self.expected[body.get("stream", False), body["seed"]]
            if answer.error is None:
                whole = expected if characters is None else expected[: len(answer.text)]
                assert answer.text == whole, f"another text: {answer.text!r}, not {whole!r}"
                continue
            assert answer.error == "replica_lost" and body.get("stream"), f"failed: {answer.error} {answer.replica}"
            assert answer.replica in killed, f"failed, but was not killed: {answer.replica}"
            when = killed[answer.replica]
            assert answer.begin < when < answer.end, "failed before or after the kill"
            assert expected.startswith(answer.text), f"another text before the error: {answer.text!r}"
            failed[answer.replica] += 1
        return failed

    def running(self, replica: int) -> int:
        """Returns the number of streams that a replica is sending."""
        return sum(answer.replica == replica and answer.end is None for answer, _, _ in self.answers)


def children(parent: int, name: str) -> list:
    """Returns the processes of this name below a process."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            status = (path / "status").read_text()
            command = (path / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if f"\nPPid:\t{parent}\n" in status and command[0].decode().endswith(name):
            found.append(int(path.name))
    return found


def is_alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def running_replicas(deployment: str) -> int:
    status = serve.status().applications["default"].deployments[deployment]
    return status.replica_states.get("RUNNING", 0)


async def until(what: str, holds, patience: float = PATIENCE) -> float:
    """Waits until a condition holds, and returns the seconds that it took."""
    begin = time.monotonic()
    while not holds():
        assert time.monotonic() - begin < patience, f"not in time: {what}"
        await asyncio.sleep(0.1)
    return time.monotonic() - begin


async def texts_on(pid: int) -> float:
    """Returns the number of texts that a server generates or that wait there."""
    sockets = {os.readlink(link) for link in pathlib.Path(f"/proc/{pid}/fd").iterdir() if link.is_symlink()}
    lines = [line.split() for line in pathlib.Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    (port,) = [int(line[1].split(":")[1], 16) for line in lines if line[3] == "0A" and f"socket:[{line[9]}]" in sockets]
    async with httpx.AsyncClient() as client:
        metrics = (await client.get(f"http://127.0.0.1:{port}/metrics")).text
    names = ("wisp_texts_running{", "wisp_texts_queued{")
    return sum(float(line.rsplit(" ", 1)[1]) for line in metrics.splitlines() if line.startswith(names))


async def check_kills(address: str):
    async with httpx.AsyncClient(base_url=address, timeout=PATIENCE) as client:
        expected = {}
        for body in (STREAM, WHOLE):
            for seed in range(SEEDS):
                answer = await ask(client, {**body, "seed": seed}, Answer())
                assert answer.error is None, answer.error
                expected[body.get("stream", False), seed] = answer.text
    load = Load(address, expected)
    task = asyncio.create_task(load.run(CLIENTS))
    await asyncio.sleep(5)
    served = {}
    for answer, _, _ in load.answers:
        if answer.end is not None:
            served[answer.replica] = served.get(answer.replica, 0) + 1
    shares = sorted(count / sum(served.values()) for count in served.values())
    print(f"three replicas answered {sum(served.values())} requests: shares {[f'{share:.2f}' for share in shares]}")
    assert len(shares) == 3 and shares[0] > 0.2, "requests are not spread by the lengths of queues"

    killed = {}
    for what in ("server", "replica", "server", "replica"):
        # The one with the most streams.
        replica = max((pid for pid in served if pid not in killed and is_alive(pid)), key=load.running)
        (server,) = children(replica, WISP)
        await until("the replica sends streams", lambda: load.running(replica) >= 3)
        count = load.running(replica)
        killed[replica] = time.monotonic()
        os.kill(server if what == "server" else replica, signal.SIGKILL)
        await until("both processes end", lambda: not is_alive(server) and not is_alive(replica))
        noticed = await until("Ray sees the end", lambda: running_replicas("Wisp") < 3)
        back = noticed + await until("the replica is back", lambda: running_replicas("Wisp") == 3)
        known = set(served)

        def is_new_used():
            served.update((answer.replica, 0) for answer, _, _ in load.answers if answer.replica)
            return set(served) - known

        back += await until("the new replica answers", is_new_used)
        print(f"killed a {what} that sent {count} streams; another replica answered after {back:.1f} s")
    await asyncio.sleep(2)
    load.is_over = True
    await task
    failed = load.check(killed)
    complete = sum(answer.error is None for answer, _, _ in load.answers)
    print(f"{complete} answers as when they run alone, of clients that went away too; failed streams by kill: {list(failed.values())}")
    assert all(failed.values()), "a kill ended no stream"

    servers = [server for replica in served if is_alive(replica) for server in children(replica, WISP)]
    assert len(servers) == 3, servers
    begin = time.monotonic()
    while any([await texts_on(server) for server in servers]):
        assert time.monotonic() - begin < 5, "texts still run"
        await asyncio.sleep(0.05)
    print("no server generates or queues a text when all clients have gone")


async def check_scaling(address: str):
    await until("one replica is left", lambda: running_replicas("Wisp") == 1)
    load = Load(address, {})
    task = asyncio.create_task(load.run(CLIENTS))
    up = await until("three replicas run", lambda: running_replicas("Wisp") == 3)
    load.is_over = True
    await task
    errors = [answer.error for answer, _, _ in load.answers if answer.error]
    assert not errors, errors
    down = await until("one replica is left", lambda: running_replicas("Wisp") == 1)
    print(f"{CLIENTS} clients: from one replica to three in {up:.1f} s; without clients: back to one in {down:.1f} s; no request failed")


async def check_limits(address: str):
    limits = httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=address, timeout=PATIENCE, limits=limits) as client:
        answers = await asyncio.gather(*(ask(client, {**STREAM, "seed": seed}, Answer()) for seed in range(CLIENTS)))
    refused = [answer.error for answer in answers if answer.error]
    assert 0 < len(refused) < CLIENTS and all(error.startswith("429 ") and "queue_full" in error for error in refused), refused
    print(f"{CLIENTS} requests at once for a replica that takes 2, and entries where 4 wait each: {len(refused)} refused with 429")


def main():
    ray.init(num_cpus=8, include_dashboard=False, logging_level="ERROR", log_to_driver=False)
    logging.getLogger("ray.serve").setLevel(logging.WARNING)
    print(f"Ray {ray.__version__}")
    try:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        serve.start(http_options={"host": "127.0.0.1", "port": port})
        fixed = {"binary": WISP, "flags": "--device host --threads 1", "num_cpus": 0.5, "max_replicas": 3}
        serve.run(app(Settings(**fixed, min_replicas=3)))
        asyncio.run(check_kills(ADDRESS.format(port)))
        serve.run(app(Settings(**fixed, target_requests=4, upscale_delay_s=1, downscale_delay_s=3)))
        asyncio.run(check_scaling(ADDRESS.format(port)))
        serve.run(app(Settings(**{**fixed, "max_replicas": 1}, max_requests=2, max_queue=4)))
        asyncio.run(check_limits(ADDRESS.format(port)))
    finally:
        ray.shutdown()


main()
