"""A real vLLM on the CPU, and what it measured itself."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

OFFLINE = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
SERVER = {**OFFLINE, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1"}
READY_WITHIN_S = 300
HISTOGRAMS = ("vllm:time_to_first_token_seconds", "vllm:request_time_per_output_token_seconds")


@contextmanager
def serving(vllm: Path, model: Path, scratch: Path) -> Iterator[str]:
    """Its address. It has no prefix cache: the second client must not profit from the first one."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    command = [vllm / "venv" / "bin" / "vllm", "serve", model, "--served-model-name", "known", "--port", port]
    command += ["--host", "127.0.0.1", "--max-model-len", 1024, "--max-num-seqs", 64, "--enforce-eager"]
    command += ["--no-enable-prefix-caching"]
    url = f"http://127.0.0.1:{port}"
    print(f"--> starting vLLM at {url}", flush=True)
    with (scratch / "server.log").open("w") as log:
        server = subprocess.Popen(
            list(map(str, command)), env={**os.environ, **SERVER}, stdout=log, stderr=log, start_new_session=True
        )
        try:
            wait_until_ready(url, server, scratch / "server.log")
            yield url
        finally:
            if server.poll() is None:
                os.killpg(server.pid, signal.SIGTERM)
                server.wait(timeout=60)


def wait_until_ready(url: str, server: "subprocess.Popen[bytes]", log: Path) -> None:
    give_up_s = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < give_up_s and server.poll() is None:
        try:
            with urllib.request.urlopen(url + "/health", timeout=2):
                return
        except OSError:
            time.sleep(0.5)
    sys.exit(f"vLLM did not get ready: {errors_of(log)}")


def errors_of(log: Path) -> str:
    lines = log.read_text().splitlines()
    return "\n".join([line for line in lines if "Error" in line][:10] or lines[-10:])


def scrape(url: str) -> list[tuple[float, float]]:
    """Sum and count of its TTFT and of its TPOT so far, in seconds."""
    with urllib.request.urlopen(url + "/metrics", timeout=10) as response:
        text = response.read().decode()

    def total(name: str) -> float:
        return sum(float(value) for value in re.findall(rf"^{name}{{.*}} (\S+)$", text, re.MULTILINE))

    return [(total(name + "_sum"), total(name + "_count")) for name in HISTOGRAMS]
