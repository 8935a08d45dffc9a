"""What the models of this repository share: tokens at known times, made on one event loop a model.

A model's times are parameters in its config.pbtxt. They count from the moment the model gets the request, by
an absolute schedule, so that one late token delays no other.
"""

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Coroutine
from typing import Any

import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class KnownTokens:
    """A model with known times; `serve(request)`, its interface, sends the responses to one request."""

    def initialize(self, args: dict[str, str]) -> None:
        self.timing = Timing(args["model_config"])
        self.loop = Loop()

    def execute(self, requests: list[Any]) -> None:
        for request in requests:
            self.loop.submit(self.serve(request))

    def finalize(self) -> None:
        self.loop.stop()

    async def serve(self, request: Any) -> None:
        raise NotImplementedError


class Timing:
    """Milliseconds by the model's own configuration."""

    def __init__(self, model_config: str) -> None:
        parameters = json.loads(model_config)["parameters"]
        self.ttft_s, self.gap_s = (float(parameters[name]["string_value"]) / 1000 for name in ("ttft_ms", "gap_ms"))

    async def tokens(self, count: int) -> AsyncIterator[tuple[int, str]]:
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        for index in range(count):
            await asyncio.sleep(begin_s + self.ttft_s + index * self.gap_s - loop.time())
            yield index, text_of(index)


def text_of(index: int) -> str:
    return f" tok{index}"


class Loop:
    """An event loop in a thread of its own, as the real vLLM backend has one."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def submit(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop)

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


def read_input(request: Any, name: str, default: Any = None) -> Any:
    """First element of an input tensor."""
    tensor = pb_utils.get_input_tensor_by_name(request, name)
    return default if tensor is None else tensor.as_numpy().reshape(-1)[0]
