"""dynamo_server.py PORT MODEL_DIR PREFILL_MS DECODE_MS: NVIDIA Dynamo's OpenAI frontend over its mocker.

Both in one process, without etcd or NATS, all of it on loopback. The mocker's times are fixed, and the
frontend keeps its own histograms of them (/metrics): a target whose truth is known from two sides.
Ends when its standard input closes. Runs in the engines' environment.
"""

import asyncio
import os
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress

# Read by the Rust runtime when it is imported. By default it binds 0.0.0.0 and the host's own address.
# The broker's ports are never used: naming them keeps the event plane from binding 0.0.0.0.
os.environ.update(
    {
        "HF_HUB_OFFLINE": "1",
        "DYN_LOG": "warn",
        "DYN_TCP_RPC_HOST": "127.0.0.1",
        "DYN_TCP_RESPONSE_STREAM_HOST": "127.0.0.1",
        "DYN_EVENT_PLANE_HOST": "127.0.0.1",
        "DYN_SYSTEM_HOST": "127.0.0.1",
        "DYN_SELF_HOST_METADATA": "0",
        "DYN_ZMQ_BROKER_ENABLED": "true",
        "DYN_ZMQ_BROKER_URL": "xsub=tcp://127.0.0.1:1 , xpub=tcp://127.0.0.1:2",
        "TOKIO_WORKER_THREADS": "2",
    }
)

import uvloop
from dynamo.llm import EngineType, EntrypointArgs, make_engine, run_input
from dynamo.mocker.config import build_runtime_config, normalize_mocker_config
from dynamo.runtime import DistributedRuntime

CONTEXT_TOKENS = 1024
ENDPOINT = "dyn://dynamo.backend.generate"


async def main() -> None:
    port, model_dir, prefill_ms, decode_ms = sys.argv[1:]
    loop = asyncio.get_running_loop()
    with tempfile.TemporaryDirectory(prefix="dynamo-discovery-") as discovery:
        os.environ["DYN_FILE_KV"] = discovery
        backend = DistributedRuntime(loop, "file", "tcp", event_plane="zmq")
        frontend = DistributedRuntime(loop, "file", "tcp", event_plane="zmq")
        engine = await make_engine(backend, mocker(model_dir, float(prefill_ms), float(decode_ms)))
        http = await make_engine(
            frontend, EntrypointArgs(EngineType.Dynamic, http_host="127.0.0.1", http_port=int(port))
        )

        def stop() -> None:
            backend.shutdown()
            frontend.shutdown()

        threading.Thread(target=call_at_end_of_input, args=(loop, stop), daemon=True).start()
        with suppress(Exception):  # both end in an error of their own when shut down
            await asyncio.gather(run_input(backend, ENDPOINT, engine), run_input(frontend, "http", http))


def mocker(model_dir: str, prefill_ms: float, decode_ms: float) -> EntrypointArgs:
    config = normalize_mocker_config(
        {
            "engine": {
                "backend": "vllm",
                "max_model_len": CONTEXT_TOKENS,
                "max_num_seqs": 256,
                "timing_model": {"type": "fixed", "prefill_ms": prefill_ms, "decode_ms": decode_ms},
            },
            "dynamo": {},
        }
    )
    block_size, runtime = build_runtime_config(config)
    return EntrypointArgs(
        engine_type=EngineType.Mocker,
        model_path=model_dir,
        model_name="known",
        endpoint_id=ENDPOINT,
        mocker_engine_args=config,
        runtime_config=runtime,
        kv_cache_block_size=block_size,
    )


def call_at_end_of_input(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    sys.stdin.read()
    loop.call_soon_threadsafe(stop)


if __name__ == "__main__":
    uvloop.run(main())
