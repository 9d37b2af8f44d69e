"""`wisp serve` behind Ray Serve: each replica runs a server of its own.

    serve run ray_serve:app model=HuggingFaceTB/SmolLM2-360M-Instruct min_replicas=1 max_replicas=4

Needs `ray[serve]`, `httpx` and the program. A request goes to the one of two random replicas that has fewer requests, and the
number of replicas follows the requests. A replica whose server ends is replaced. Its requests go to another one if their answer
has not begun; the others end with an error, in a stream as its last event. A client that goes away ends its texts.
"""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time

import httpx
from pydantic import BaseModel
from ray import serve
from ray.exceptions import RayActorError
from ray.serve.exceptions import BackPressureError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

# Headers of a connection, and those that Ray's own server sets.
OF_A_CONNECTION = {"connection", "content-length", "host", "keep-alive", "te", "transfer-encoding", "upgrade"}
OF_THE_PROXY = {"date", "server", "x-request-id"}
TRIES = 5


class Settings(BaseModel):
    """The arguments of `serve run`."""

    # The model; without one, the model inside the program.
    model: str | None = None
    # The program, and further flags of `wisp serve`.
    binary: str = "wisp"
    flags: str = ""
    min_replicas: int = 1
    max_replicas: int = 4
    # Requests of a replica above which another one is started, and the most that it takes.
    target_requests: int = 16
    max_requests: int = 64
    # Requests that may wait in an entry for a replica; further ones are refused.
    max_queue: int = 256
    upscale_delay_s: float = 30
    downscale_delay_s: float = 600
    # Of a replica, as Ray counts them.
    num_cpus: float = 1
    num_gpus: float = 0


@serve.deployment(health_check_period_s=5, health_check_timeout_s=30, graceful_shutdown_timeout_s=60)
class Wisp:
    """A server, and what passes requests on to it."""

    def __init__(self, settings: Settings):
        model = ["--model", settings.model] if settings.model else []
        command = [settings.binary, "serve", "--port", "0", *model, *settings.flags.split()]
        # The server ends with this process, however that ends.
        if setpriv := shutil.which("setpriv"):
            command = [setpriv, "--pdeathsig", "TERM", *command]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        # The address is the first line of output, and comes before the models are loaded.
        address = self.server.stdout.readline().strip()
        while address and httpx.get(f"{address}/health").status_code != 200 and self.server.poll() is None:
            time.sleep(0.1)
        if not address or self.server.poll() is not None:
            raise RuntimeError("wisp serve did not start: its message is in the log of this replica")
        self.client = httpx.AsyncClient(base_url=address, timeout=None, limits=httpx.Limits(max_connections=None))
        self.is_ending = False
        threading.Thread(target=self.end_with_server, daemon=True).start()

    def end_with_server(self):
        """Ends this process when the server ends, so that Ray starts another replica at once."""
        status = self.server.wait()
        if not self.is_ending:
            print(f"wisp serve ended with status {status}", file=sys.stderr, flush=True)
            os._exit(1)

    async def check_health(self):
        # 503 after a device was lost.
        answer = await self.client.get("/health")
        if answer.status_code != 200:
            raise RuntimeError(f"wisp serve is not healthy: {answer.text}")

    async def answer(self, method: str, url: str, headers: list, body: bytes):
        """Yields the status and headers of an answer, and then its body."""
        async with self.client.stream(method, url, headers=headers, content=body) as answer:
            replica = "x-wisp-replica", f"{socket.gethostname()}:{os.getpid()}"
            yield answer.status_code, [*passed(answer.headers.multi_items(), OF_A_CONNECTION | OF_THE_PROXY), replica]
            async for part in answer.aiter_raw():
                yield part

    def __del__(self):
        self.is_ending = True
        self.server.terminate()


@serve.deployment(num_replicas=2, max_ongoing_requests=4096, ray_actor_options={"num_cpus": 0.5})
class Entry:
    """Chooses the replica of each request, and another one if that has died."""

    def __init__(self, wisp):
        self.wisp = wisp.options(method_name="answer", stream=True)

    async def __call__(self, request: Request) -> Response:
        url = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        call = request.method, url, passed(request.headers.items(), OF_A_CONNECTION), await request.body()
        for wait in range(TRIES):
            # Ray forgets dead replicas after some time.
            await asyncio.sleep(wait * 0.5)
            parts = self.wisp.remote(*call)
            try:
                status, headers = await anext(parts)
            except (RayActorError, httpx.TransportError):
                continue
            except BackPressureError:
                return refusal(429, "queue_full", "all replicas are busy and the queue is full: send the request later")
            is_stream = ("content-type", "text/event-stream") in headers
            answer = StreamingResponse(whole_or_error(parts, is_stream), status)
            answer.raw_headers = [(name.encode(), value.encode()) for name, value in headers]
            return answer
        return refusal(503, *LOST)


LOST = "replica_lost", "the replica that computed the answer has ended: send the request again"


def error(code: str, message: str) -> dict:
    return {"error": {"message": message, "type": "server_error", "param": None, "code": code}}


def refusal(status: int, code: str, message: str) -> Response:
    return JSONResponse(error(code, message), status, {"Retry-After": "5"})


async def whole_or_error(parts, is_stream: bool):
    """Yields the parts of a body; if its replica dies, a last event with the error, or a connection that breaks."""
    try:
        async for part in parts:
            yield part
    except (RayActorError, httpx.TransportError):
        if not is_stream:
            raise
        yield f"data: {json.dumps(error(*LOST))}\n\n".encode()


def passed(headers, without: set) -> list:
    """Returns the headers that are passed on."""
    return [(name, value) for name, value in headers if name.lower() not in without]


def app(settings: Settings):
    """Builds the application."""
    scaling = {
        "min_replicas": settings.min_replicas,
        "max_replicas": settings.max_replicas,
        "target_ongoing_requests": settings.target_requests,
        "upscale_delay_s": settings.upscale_delay_s,
        "downscale_delay_s": settings.downscale_delay_s,
    }
    wisp = Wisp.options(
        autoscaling_config=scaling,
        max_ongoing_requests=settings.max_requests,
        max_queued_requests=settings.max_queue,
        ray_actor_options={"num_cpus": settings.num_cpus, "num_gpus": settings.num_gpus},
    )
    return Entry.bind(wisp.bind(settings))
