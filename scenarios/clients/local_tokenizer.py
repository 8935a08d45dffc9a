"""Output tokens by a local tokenizer, where the engine tells no count.

Needs the extra `tokenizer`. Only answer text is kept of a stream, so one with reasoning or tool calls stays
estimated by its events.
"""

import importlib
from collections.abc import Callable
from pathlib import Path

from analysis.schema import ANSWER, ESTIMATED, TOKENIZER
from scenarios.clients.call import Call, Client, LLMRequest, RequestResult, TokenEvent


def load_counter(path: str) -> Callable[[str], int]:
    """Counts the tokens of a text by a tokenizer.json, or by the one in a model's folder. Raises `ValueError`."""
    file = Path(path) / "tokenizer.json" if Path(path).is_dir() else Path(path)
    try:
        library = importlib.import_module("tokenizers")
    except ImportError:
        raise ValueError("engine.tokenizer needs a library: pip install tokenizers") from None
    try:
        tokenizer = library.Tokenizer.from_file(str(file))
    except Exception as error:  # noqa: BLE001  (the library raises plain Exception)
        raise ValueError(f"engine.tokenizer: {file} is no tokenizer.json: {error}") from None
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


class CountingClient:
    """A client whose results get a count by `count` where they have none of the engine's."""

    def __init__(self, client: Client, count: Callable[[str], int]) -> None:
        self._client = client
        self._count = count

    def call(self, request: LLMRequest, on_token: Callable[[TokenEvent], None] | None = None) -> "CountingCall":
        return CountingCall(self._client.call(request, on_token), self._count)

    def close(self) -> None:
        self._client.close()


class CountingCall:
    """One request of a `CountingClient`."""

    def __init__(self, call: Call, count: Callable[[str], int]) -> None:
        self._call = call
        self._count = count
        if hasattr(call, "events_before"):  # a stream that the live view can look into
            self.events_before: Callable[[float], int] = call.events_before

    def run(self) -> None:
        self._call.run()

    def result(self) -> RequestResult:
        result = self._call.result()
        told = result.output_tokens_source not in (None, ESTIMATED)
        if result.text and not told and set(result.token_channels) <= {ANSWER}:
            result.output_tokens = self._count(result.text)
            result.output_tokens_source = TOKENIZER
        return result
