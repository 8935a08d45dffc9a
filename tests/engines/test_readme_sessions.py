"""The README's sessions that are only shown, since they name a host `gpu`: played against real engines here."""

from pathlib import Path

from tests.support import sessions
from tests.support.sessions import Command

ROOT = Path(__file__).parents[2]
SESSIONS = [block for block in sessions.read_blocks((ROOT / "README.md").read_text()) if "shown" in block.flags]
# small enough for a test; the models of the tests take 2,048 tokens
SHORT = (
    "--only-summary --set load.levels=2 --set load.warmup_s=0.2 --set load.measure_s=1"
    " --set workload.inputs=16 --set workload.output.tokens=8"
)


def play(line: str, folder: Path, hosts: dict[str, str], codes: tuple[int, ...] = (0,)) -> str:
    """Run a line of the README with the hosts of the test in it; what it prints."""
    for shown, real in hosts.items():
        line = line.replace(shown, real)
    assert "gpu:" not in line, line
    if "locust -f" in line:
        line = f"{line} {SHORT}"
    ran = sessions.run(Command(line), folder)
    assert ran.returncode in codes, f"$ {line}\n{ran.stdout}{ran.stderr}"
    return ran.stdout


def test_the_sessions_with_triton(triton, tmp_path):
    (session,) = (block for block in SESSIONS if "triton_grpc.py" in block.text)
    folder = sessions.make_scratch(tmp_path)
    hosts = {"grpc://gpu:8001": triton.grpc, "http://gpu:8000": triton.http, "http://gpu:8002/metrics": triton.metrics}
    printed = {}
    for command in session.commands:
        runs = sorted((folder / "runs").glob("*")) if (folder / "runs").exists() else []
        named = {"RUN_A": str(runs[0]), "RUN_B": str(runs[1])} if len(runs) == 2 else {}
        printed[command.line.split()[0] + command.line.split()[1]] = play(command.line, folder, hosts | named)
    compared = printed[".venv/bin/tokenswarmcompare"]
    assert "ensemble" in compared
    assert "vllm_model" in compared
    assert 'nv_inference_pending_request_count{model="vllm_model"' in "".join(printed.values())


def test_the_load_test_of_servers_that_speak_openai(dynamo, tmp_path):
    """Dynamo's frontend stands in for the two that need a GPU to start."""
    shown = ("trtllm-serve", "openai_frontend/main.py", "dynamo.frontend")
    lines = [block.commands[-1].line for server in shown for block in SESSIONS if server in block.text]
    assert len(lines) == len(shown)
    engine = dynamo(20.0, 5.0)
    hosts = {"http://gpu:8000": engine.url, "http://gpu:9000": engine.url, "llama-3.1-8b-instruct": engine.model}
    folder = sessions.make_scratch(tmp_path)
    for line in dict.fromkeys(lines):  # two are the same
        assert "0 failed" in play(line, folder, hosts)
