"""A Triton of scripts: KServe's gRPC service that plays `tests/cases/grpc.yaml` at precise times.

`python -m tests.support.scripted_grpc [STREAMS_PER_CONNECTION]` prints its port, serves until standard input
ends, then prints what it saw. A request's model names the case; a model `fixed-TTFT-GAP-TOKENS` (in ms) plays
that, and `dies` ends the server. It runs on asyncio in a process of its own and shares no code with what it tests.
"""

import asyncio
import json
import os
import struct
import sys
import time
from pathlib import Path
from typing import Any

import grpc
import yaml
from tritonclient.grpc import model_config_pb2, service_pb2, service_pb2_grpc

CASES = {case["id"]: case for case in yaml.safe_load((Path(__file__).parents[1] / "cases" / "grpc.yaml").read_text())}

INPUTS = {"text_input": "BYTES", "stream": "BOOL", "sampling_parameters": "BYTES", "exclude_input_in_output": "BOOL"}
OUTPUTS = {
    "text_output": "BYTES",
    "num_input_tokens": "UINT32",
    "num_output_tokens": "UINT32",
    "finish_reason": "BYTES",
}


def steps_of(model: str) -> list[list[Any]]:
    if model == "dies":
        return [[50, {"id": "1", "text": " t0"}], [400, {"dies": True}]]
    if model in CASES:
        return CASES[model]["script"]
    ttft_ms, gap_ms, tokens = (int(part) for part in model.split("-")[1:])
    return [[gap_ms if n else ttft_ms, {"id": "1", "text": f" t{n}", "final": n == tokens - 1}] for n in range(tokens)]


class Service(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]  # generated without types
    def __init__(self) -> None:
        self.seen: list[dict[str, Any]] = []
        self.in_flight = self.peak = self.played = 0
        self.peers: set[str] = set()
        self.waiting: dict[str, list[tuple[str, asyncio.Queue[Any]]]] = {}
        self.sent_s: dict[str, list[float]] = {}  # by request id, on time.perf_counter's clock

    async def ServerLive(self, request, context):
        return service_pb2.ServerLiveResponse(live=True)

    async def ServerReady(self, request, context):
        return service_pb2.ServerReadyResponse(ready=True)

    async def ModelMetadata(self, request, context):
        def tensors(named):
            return [{"name": name, "datatype": datatype, "shape": [1]} for name, datatype in named.items()]

        return service_pb2.ModelMetadataResponse(name=request.name, inputs=tensors(INPUTS), outputs=tensors(OUTPUTS))

    async def ModelConfig(self, request, context):
        config = model_config_pb2.ModelConfig(model_transaction_policy={"decoupled": True})
        for name in INPUTS:
            config.input.add(name=name, optional=name != "text_input")
        return service_pb2.ModelConfigResponse(config=config)

    async def ModelStreamInfer(self, requests, context):
        request = await requests.__aiter__().__anext__()
        received_s = asyncio.get_running_loop().time()
        self.peers.add(context.peer())
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        seen = {"id": request.id, "model": request.model_name, "metadata": dict(context.invocation_metadata())}
        self.seen.append(seen | {"inputs": [each.name for each in request.inputs]})
        try:
            ids, played_from_s = await self.meet(request, received_s)
            async for response in self.play(request.model_name, ids, played_from_s, context):
                yield response
            self.played += 1
        finally:
            self.in_flight -= 1
        if not any(step.get("status") for _, step in steps_of(request.model_name)):
            await asyncio.sleep(30)  # it stays open for more requests: the client has to know the end by its mark

    async def meet(self, request, received_s):
        """Request ids by their names in the script, once all requests of the script are there."""
        names = CASES.get(request.model_name, {}).get("requests", ["1"])
        if len(names) == 1:
            return {"1": request.id}, received_s
        waiting = self.waiting.setdefault(request.model_name, [])
        waiting.append((request.id, asyncio.Queue()))
        mine = waiting[-1][1]
        if len(waiting) == len(names):
            together = dict(zip(names, sorted(each for each, _ in waiting), strict=True)), received_s
            for _, queue in waiting:
                queue.put_nowait(together)
        return await mine.get()

    async def play(self, model, ids, due_s, context):
        loop = asyncio.get_running_loop()
        sent_s = self.sent_s.setdefault(ids.get("1", ""), [])
        for delay_ms, step in steps_of(model):
            due_s += delay_ms / 1000
            await asyncio.sleep(due_s - loop.time())
            if step.get("dies"):
                os._exit(1)
            if status := step.get("status"):
                if status != "OK":
                    await context.abort(grpc.StatusCode[status], step["message"])
                return
            response = response_of(step, ids)
            sent_s.append(time.perf_counter())
            yield response


def response_of(step, ids):
    name = step.get("id", "")
    response = service_pb2.ModelInferResponse(id=name[1:] if name.startswith("=") else ids.get(name, name))
    if step.get("mark", True):
        response.parameters["triton_final_response"].bool_param = bool(step.get("final"))
    if error := step.get("error_message"):
        return service_pb2.ModelStreamInferResponse(error_message=error, infer_response=response)
    if step.get("empty"):
        return service_pb2.ModelStreamInferResponse(infer_response=response)
    raw = bytes.fromhex(step["raw_hex"]) if "raw_hex" in step else string(step["text"])
    outputs = [("text_output", raw)]
    outputs += [(name, struct.pack("<I", step[key])) for name, key in COUNTS if key in step]
    if "reason" in step:
        outputs.append(("finish_reason", string(step["reason"])))
    for name, raw in outputs:
        response.outputs.add(name=name, datatype=OUTPUTS[name], shape=[1])
        response.raw_output_contents.append(raw)
    return service_pb2.ModelStreamInferResponse(infer_response=response)


COUNTS = (("num_output_tokens", "tokens"), ("num_input_tokens", "input_tokens"))


def string(text):
    return struct.pack("<I", len(text.encode())) + text.encode()


async def serve(streams_per_connection: int) -> None:
    server = grpc.aio.server(options=[("grpc.max_concurrent_streams", streams_per_connection)])
    service = Service()
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(service, server)
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    told = {
        "seen": service.seen,
        "peak": service.peak,
        "played": service.played,
        "peers": len(service.peers),
        "sent_s": service.sent_s,
    }
    await server.stop(None)
    print(json.dumps(told | {"left_in_flight": service.in_flight}), flush=True)


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
