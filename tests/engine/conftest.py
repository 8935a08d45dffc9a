"""Practice engines to ask: one for a whole test file, or one with options of its own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from scenarios.engine.embedded import EmbeddedEngine, start_embedded_engine

Start = Callable[..., EmbeddedEngine]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """An engine at speed 20."""
    engine = start_embedded_engine(["--speed", "20"])
    yield engine.url
    engine.stop()


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts engines that end with the test."""
    engines = []

    def start_one(*arguments: str) -> EmbeddedEngine:
        engines.append(start_embedded_engine(arguments))
        return engines[-1]

    yield start_one
    for engine in engines:
        engine.stop()


@pytest.fixture
def truth(tmp_path: Path) -> Path:
    return tmp_path / "truth.jsonl"
