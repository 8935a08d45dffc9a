"""server.py HTTP GRPC METRICS SCRATCH: a real Triton from the wheel of nvidia-pytriton, with the models beside this file.

Loopback only, no GPU, no root. Ends when its standard input closes, so that it never outlives the tests that
started it. Runs in Triton's own environment, which the models' processes take over by way of PATH.
`server.py --check` says whether it can run on this machine at all.
"""

import os
import signal
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path

HERE = Path(__file__).parent
SITE = Path(sysconfig.get_paths()["purelib"])
SERVER = SITE / "pytriton" / "tritonserver"
STOP_WITHIN_S = 8


STUB = SERVER / "python_backend_stubs" / f"{sys.version_info[0]}.{sys.version_info[1]}" / "triton_python_backend_stub"
ENVIRONMENT = {
    "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    "LD_LIBRARY_PATH": f"{SITE / 'nvidia_pytriton.libs'}:{sysconfig.get_config_var('LIBDIR')}",
    "PYTHONPATH": str(SITE),
    "PYTHONDONTWRITEBYTECODE": "1",
    "KNOWN_TOKENS": str(HERE),
}


def check() -> None:
    if not STUB.exists():
        sys.exit(f"no python backend for Python {sys.version_info[0]}.{sys.version_info[1]} in nvidia-pytriton's wheel")
    helped = subprocess.run(
        [SERVER / "bin" / "tritonserver", "--help"], env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    if "Usage: tritonserver" not in helped.stdout + helped.stderr:  # its exit code is 1 all the same
        sys.exit(helped.stderr.strip() or f"tritonserver ends with {helped.returncode}")


def main() -> None:
    http, grpc, metrics, scratch = sys.argv[1:5]
    python_backend = Path(scratch) / "backends" / "python"
    python_backend.mkdir(parents=True)
    for file in (STUB, *(SERVER / "backends" / "python").iterdir()):
        (python_backend / file.name).symlink_to(file)
    server = subprocess.Popen(
        [
            str(SERVER / "bin" / "tritonserver"),
            f"--model-repository={HERE / 'models'}",
            f"--backend-directory={python_backend.parent}",
            f"--cache-directory={SERVER / 'caches'}",
            *(f"--{kind}-address=127.0.0.1" for kind in ("http", "grpc", "metrics")),
            f"--http-port={http}",
            f"--grpc-port={grpc}",
            f"--metrics-port={metrics}",
            "--allow-gpu-metrics=false",
            "--exit-timeout-secs=2",
            f"--backend-config=python,shm-region-prefix-name=tokenswarm{os.getpid()}",
            "--backend-config=python,shm-default-byte-size=1048576",
        ],
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
    )
    threading.Thread(target=_end_with_input, args=(server,), daemon=True).start()
    sys.exit(server.wait())


def _end_with_input(server: "subprocess.Popen[bytes]") -> None:
    sys.stdin.read()
    server.send_signal(signal.SIGTERM)
    try:
        server.wait(STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        server.kill()


if __name__ == "__main__":
    check() if sys.argv[1:] == ["--check"] else main()
