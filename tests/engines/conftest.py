"""Real engines as fixtures: started once a session on free loopback ports, stopped with it.

Installed by `make engines`; where they are not, tests that ask for one are skipped with the reason.
"""

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

HERE = Path(__file__).parent
INSTALLED = HERE.parents[1] / ".engines"
READY_WITHIN_S = 30
STOP_WITHIN_S = 10


@dataclass(frozen=True, slots=True)
class Engine:
    """A running server; `log` has what it printed."""

    url: str
    model: str
    pid: int
    log: Path

    def get(self, path: str) -> str:
        with urllib.request.urlopen(self.url + path, timeout=5) as response:
            return response.read().decode()


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """What the known-output model says to every chat; its thought comes as plain text in `<think>` tags."""

    text: str
    completion_tokens: int


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.engines)


@pytest.fixture(scope="session")
def engines_dir() -> Path:
    if (INSTALLED / "ready").is_file():
        return INSTALLED
    reason = INSTALLED / "unavailable"
    pytest.skip(reason.read_text().strip() if reason.is_file() else "no real engines here: run `make engines`")


@pytest.fixture(scope="session")
def known_answer(engines_dir: Path) -> KnownAnswer:
    expected = json.loads((engines_dir / "model" / "expected.json").read_text())
    text = f"<think>{expected['think']}</think>{expected['answer']}"
    return KnownAnswer(text, expected["completion_tokens"])


@pytest.fixture(scope="session")
def llamacpp(engines_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """llama.cpp's server with the known-output model: 16 slots, 1,024 tokens of context."""
    port = free_port()
    arguments = [port, engines_dir / "model" / "known.gguf"]
    scratch = tmp_path_factory.mktemp("llamacpp")
    with running("llamacpp_server.py", arguments, port, engines_dir, scratch) as engine:
        yield engine


@pytest.fixture(scope="session")
def dynamo(engines_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[float, float], Engine]]:
    """Starts Dynamo with these prefill and decode times in ms; one server for each pair."""
    servers: dict[tuple[float, float], Engine] = {}
    with ExitStack() as stack:

        def start(prefill_ms: float, decode_ms: float) -> Engine:
            if (prefill_ms, decode_ms) not in servers:
                port = free_port()
                arguments = [port, engines_dir / "model" / "hf", prefill_ms, decode_ms]
                scratch = tmp_path_factory.mktemp("dynamo")
                server = running("dynamo_server.py", arguments, port, engines_dir, scratch)
                servers[prefill_ms, decode_ms] = stack.enter_context(server)
            return servers[prefill_ms, decode_ms]

        yield start


@contextmanager
def running(script: str, arguments: list[object], port: int, engines_dir: Path, scratch: Path) -> Iterator[Engine]:
    """The server ends when its standard input closes: also when this process is killed."""
    command = [str(engines_dir / "venv" / "bin" / "python"), str(HERE / script), *map(str, arguments)]
    # HOME: Dynamo keeps a cache there, and tests leave the user's alone
    environment = {"HOME": str(scratch), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
    with (scratch / "log").open("w") as log:
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment)
    engine = Engine(f"http://127.0.0.1:{port}", "known", server.pid, scratch / "log")
    try:
        wait_until_ready(engine, server)
        yield engine
    finally:
        assert server.stdin
        server.stdin.close()
        try:
            server.wait(STOP_WITHIN_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        shutil.rmtree(scratch / ".cache", ignore_errors=True)


def wait_until_ready(engine: Engine, server: subprocess.Popen[bytes]) -> None:
    """Ready means that the model is listed: Dynamo answers /health before its mocker has registered."""
    give_up_s = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < give_up_s and server.poll() is None:
        try:
            if json.loads(engine.get("/v1/models"))["data"]:
                return
        except (OSError, ValueError):
            pass
        time.sleep(0.05)
    state = "did not get ready" if server.poll() is None else f"ended with {server.returncode}"
    pytest.fail(f"{engine.url} {state}: {engine.log.read_text()[-2000:]}", pytrace=False)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return probe.getsockname()[1]
