"""What requests of any source may get on top: one of several models, images, a planned cancellation."""

import base64
import mimetypes
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from random import Random
from typing import Any

from scenarios.clients.call import LLMRequest
from scenarios.spec import WorkloadSpec
from scenarios.spec.images import image_files
from scenarios.workload.lengths import WeightedChoice

IMAGES_KEPT = 64  # as the text of their data URLs


class Extras:
    """The choices of one worker."""

    def __init__(self, spec: WorkloadSpec, seed: int, worker: int) -> None:
        self._models = list(spec.models)
        self._next_model = WeightedChoice(list(spec.models.values()), Random(f"{seed}/{worker}/models"))
        self._cancel = spec.cancel
        share = spec.cancel.share if spec.cancel else 0.0
        self._next_cancelled = WeightedChoice([share, 1 - share], Random(f"{seed}/{worker}/cancel"))
        self._per_request = spec.images.per_request if spec.images else 0
        self._images = image_files(spec.images.folder) if spec.images else []
        self._rng = Random(f"{seed}/{worker}/images")

    def next_model(self) -> str | None:
        """One of the scenario's model names by their weights; None where it is the run's only one."""
        return self._models[self._next_model.next()] if self._models else None

    def on(self, request: LLMRequest, model: str | None) -> LLMRequest:
        """The request with all that it gets."""
        if model:
            request = replace(request, extra_body={**request.extra_body, "model": model})
        if self._cancel and self._next_cancelled.next() == 0:
            request = replace(
                request, cancel_after_tokens=self._cancel.after_tokens, cancel_after_ms=self._cancel.after_ms
            )
        if self._images:
            chosen = [_data_url(self._rng.choice(self._images)) for _ in range(self._per_request)]
            request = _with_images(request, chosen)
        return request


def _with_images(request: LLMRequest, urls: list[str]) -> LLMRequest:
    """The images before the text of the last message. How many tokens they are, only the engine knows."""
    messages = [*(request.messages or [{"role": "user", "content": request.prompt}])]
    parts: list[dict[str, Any]] = [{"type": "image_url", "image_url": {"url": url}} for url in urls]
    content = messages[-1]["content"]
    text = content if isinstance(content, list) else [{"type": "text", "text": content}]
    messages[-1] = {**messages[-1], "content": [*parts, *text]}
    return replace(request, messages=messages, input_tokens_requested=None)


@lru_cache(IMAGES_KEPT)
def _data_url(path: Path) -> str:
    kind = mimetypes.guess_type(path.name)[0]
    return f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
