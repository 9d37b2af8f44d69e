"""`wisp serve` behind Ray Serve: each replica runs a server of its own, and Ray chooses the replica of a request.

    serve run ray_serve:app

Needs `ray[serve]` and `httpx`. WISP_MODEL names the model (the one inside the program without it), WISP_BINARY the program, and
WISP_REPLICAS the number of replicas.
"""

import os
import subprocess

import httpx
from ray import serve
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

HOP_BY_HOP = {"connection", "content-length", "host", "transfer-encoding"}


@serve.deployment(num_replicas=int(os.environ.get("WISP_REPLICAS", "1")), max_ongoing_requests=64)
class Wisp:
    def __init__(self):
        model = os.environ.get("WISP_MODEL")
        flags = ["--model", model] if model else []
        command = [os.environ.get("WISP_BINARY", "wisp"), "serve", "--port", "0", *flags]
        self.server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        # The address is the first line of output, and comes before the models are loaded.
        address = self.server.stdout.readline().strip()
        if not address.startswith("http"):
            raise RuntimeError("wisp serve did not start")
        self.client = httpx.AsyncClient(base_url=address, timeout=None)

    async def check_health(self):
        answer = await self.client.get("/health")
        # While models are loaded, the replica is healthy, and its answers are 503.
        if self.server.poll() is not None or "model_lost" in answer.text:
            raise RuntimeError("wisp serve has ended, or lost its device")

    async def __call__(self, request: Request) -> Response:
        headers = {name: value for name, value in request.headers.items() if name not in HOP_BY_HOP}
        url = httpx.URL(path=request.url.path, query=request.url.query.encode())
        call = self.client.build_request(request.method, url, headers=headers, content=await request.body())
        answer = await self.client.send(call, stream=True)
        passed = {name: value for name, value in answer.headers.items() if name not in HOP_BY_HOP}
        return StreamingResponse(answer.aiter_raw(), answer.status_code, passed)

    def __del__(self):
        self.server.terminate()


app = Wisp.bind()
