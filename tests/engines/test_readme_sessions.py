"""The README's sessions with Triton and with servers that speak OpenAI's API, played against real engines."""

from tests.support import sessions

SESSIONS = sessions.shown_sessions()


def test_the_sessions_with_triton(triton, tmp_path):
    (session,) = (block for block in SESSIONS if "triton_grpc.py" in block.text)
    folder = sessions.make_scratch(tmp_path)
    hosts = {"grpc://gpu:8001": triton.grpc, "http://gpu:8000": triton.http, "http://gpu:8002/metrics": triton.metrics}
    printed = {}
    for command in session.commands:
        runs = sorted((folder / "runs").glob("*")) if (folder / "runs").exists() else []
        named = {"RUN_A": str(runs[0]), "RUN_B": str(runs[1])} if len(runs) == 2 else {}
        printed[command.line] = sessions.play(command, folder, hosts | named)
    *_, compared, metrics = printed.values()
    assert "ensemble" in compared
    assert "vllm_model" in compared
    assert 'nv_inference_pending_request_count{model="vllm_model"' in metrics


def test_the_load_test_of_servers_that_speak_openai(dynamo, tmp_path):
    """Dynamo's frontend stands in for the two that need a GPU to start."""
    shown = ("trtllm-serve", "openai_frontend/main.py", "dynamo.frontend")
    commands = [block.commands[-1] for server in shown for block in SESSIONS if server in block.text]
    assert len(commands) == len(shown)
    engine = dynamo(20.0, 5.0)
    hosts = {"http://gpu:8000": engine.url, "http://gpu:9000": engine.url, "llama-3.1-8b-instruct": engine.model}
    folder = sessions.make_scratch(tmp_path)
    for command in {command.line: command for command in commands}.values():  # two are the same
        assert "0 failed" in sessions.play(command, folder, hosts)
