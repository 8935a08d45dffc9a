"""Real engines as fixtures: started once a session on free loopback ports, stopped with it.

Installed by `make engines`; where they are not, tests that ask for one are skipped with the reason.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
INSTALLED = HERE.parents[1] / ".engines" / "light"
TRITON = HERE.parents[1] / ".engines" / "triton"
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

    def chat(self, **options: Any) -> tuple[str, dict[str, Any]]:
        """Text and usage of one streamed chat, read with the standard library alone."""
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": "hi"}],
            "stream": True,
            "temperature": 0,
            "stream_options": {"include_usage": True},
            **options,
        }
        request = urllib.request.Request(
            self.url + "/v1/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
        )
        with urllib.request.urlopen(request, timeout=20) as response:
            lines = [line.removeprefix(b"data:").strip() for line in response if line.startswith(b"data:")]
        assert lines[-1] == b"[DONE]"
        events = [json.loads(line) for line in lines[:-1]]
        text = "".join(choice["delta"].get("content") or "" for event in events for choice in event["choices"])
        return text, events[-1]["usage"]


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
    return installed(INSTALLED)


def installed(folder: Path) -> Path:
    """The folder of an installed engine; skips the test where there is none."""
    if (folder / "ready").is_file():
        return folder
    reason = folder / "unavailable"
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


@dataclass(frozen=True, slots=True)
class Triton:
    """A running Triton: addresses as the load test takes them."""

    http: str
    grpc: str
    metrics: str
    pid: int
    log: Path


@pytest.fixture(scope="session")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Triton]:
    """Triton with the models of `triton/models`; skips where it can't start."""
    with running_triton(tmp_path_factory.mktemp("triton")) as server:
        yield server


@contextmanager
def running_triton(scratch: Path) -> Iterator[Triton]:
    """A Triton of one's own, for tests that kill it."""
    ports = [free_port() for _ in range(3)]
    python = installed(TRITON) / "venv" / "bin" / "python"
    command = [str(each) for each in (python, HERE / "triton" / "server.py", *ports, scratch)]
    log = scratch / "log"
    with log.open("w") as output:
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True)
    http, grpc, metrics = (f"127.0.0.1:{port}" for port in ports)
    try:
        await_triton(f"http://{http}/v2/health/ready", server, log)
        yield Triton(f"http://{http}", f"grpc://{grpc}", f"http://{metrics}/metrics", server.pid, log)
    finally:
        end(server, lambda: os.killpg(server.pid, signal.SIGKILL))


def await_triton(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    give_up_s = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < give_up_s and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=1):
                return
        except OSError:
            time.sleep(0.1)
    errors = [line for line in log.read_text().splitlines() if re.match(r"[EF]\d{4} |error", line)]
    pytest.skip(f"Triton can't start here: {errors[-1] if errors else log.read_text()[-300:]}")


@pytest.fixture(scope="session")
def drive() -> Callable[..., list[dict[str, Any]]]:
    """Requests to an engine by the load test's client, in a process that gevent has patched (this one is not)."""

    def send(engine: Engine, **job: Any) -> list[dict[str, Any]]:
        arguments = json.dumps({"url": engine.url, "model": engine.model, **job})
        sent = subprocess.run(
            [sys.executable, "-m", "tests.engines.drive", arguments],
            cwd=HERE.parents[1],
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert sent.returncode == 0, sent.stderr
        return [json.loads(line) for line in sent.stdout.splitlines()]

    return send


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
        end(server, server.kill)
        shutil.rmtree(scratch / ".cache", ignore_errors=True)


def end(server: subprocess.Popen[bytes], kill: Callable[[], None]) -> None:
    """Close the standard input of a server, on which it ends; kill it where it does not."""
    assert server.stdin
    server.stdin.close()
    try:
        server.wait(STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        kill()
        server.wait()


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
