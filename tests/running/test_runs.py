"""Whole runs: real Locust processes, the practice engine, and the run folder that is left."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support.locust_run import CHAT, ROOT, command, finish, outcomes, output_of, run, started, wait_for

PHASES = ["ramp", "warmup", "measure", "tail"]


def truth_flags(folder: Path, *flags: str) -> dict[str, str]:
    """Settings that make the embedded engine quick and let it write the truth."""
    arguments = ["--speed", "10", "--truth", str(folder / "truth.jsonl"), *flags]
    return {"engine.practice": json.dumps(arguments)}


def seen_by_engine(folder: Path) -> int:
    return len((folder / "truth.jsonl").read_text().splitlines())


def test_a_sweep_writes_every_request_with_its_level_and_phase(tmp_path):
    settings = {**truth_flags(tmp_path), "load.levels": "1,4", "load.warmup_s": "0.5"}
    finished = run(tmp_path, settings=settings)
    assert finished.code == 0, finished.output
    rows = finished.rows("requests.csv")
    assert len(rows) == seen_by_engine(tmp_path)
    assert len({row["request_id"] for row in rows}) == len(rows)
    levels = finished.rows("levels.csv")
    assert [(level["level"], level["requested"], level["users"], level["complete"]) for level in levels] == [
        ("1", "1", "1", "true"),
        ("2", "4", "4", "true"),
    ]
    measured = [row for row in rows if row["phase"] == "measure"]
    assert {row["level"] for row in measured} == {"1", "2"}
    assert {row["outcome"] for row in measured} == {"success"}
    for level in levels:
        bounds = [
            float(level[f"{name}_unix_s"])
            for name in ("ramp_start", "warmup_start", "measure_start", "measure_end", "tail_end")
        ]
        assert bounds == sorted(bounds)
        assert bounds[3] - bounds[2] == pytest.approx(2.0, abs=0.3)
    # 20 tokens each, an event a token
    tokens = finished.rows("tokens.csv")
    assert len(tokens) == sum(int(row["token_events"]) for row in rows)
    assert {row["token_events"] for row in measured} == {"20"}
    assert "Latencies of successful requests" in finished.output
    assert (finished.run_dir / "report.html").stat().st_size > 10_000
    reconciliation = finished.run["reconciliation"]
    assert (reconciliation["started"], reconciliation["missing"]) == (len(rows), 0)


def test_in_the_tail_the_load_is_held_until_the_measured_requests_have_ended(tmp_path):
    # each request takes about 2 s (20 tokens, 100 ms each), the measure phase only 0.5 s
    settings = {
        "engine.practice": json.dumps(["--speed", "0.12"]),
        "load.levels": "2",
        "load.warmup_s": "0",
        "load.measure_s": "2.5",
        "workload.output.tokens": "20",
    }
    finished = run(tmp_path, settings=settings)
    level = finished.rows("levels.csv")[0]
    measured = [row for row in finished.rows("requests.csv") if row["phase"] == "measure"]
    assert measured
    assert {row["outcome"] for row in measured} == {"success"}
    last_end = max(float(row["sent_unix_s"]) + float(row["e2e_ms"]) / 1000 for row in measured)
    assert last_end <= float(level["tail_end_unix_s"])
    in_tail = [row for row in finished.rows("requests.csv") if row["phase"] == "tail"]
    assert in_tail, "nothing was sent in the tail: the load fell while requests were measured"


@pytest.mark.parametrize("where", [(), ("--processes", "2")], ids=["local", "two workers"])
def test_ctrl_c_in_the_middle_loses_no_request(tmp_path, where):
    settings = {**truth_flags(tmp_path), "load.levels": "8", "load.measure_s": "60", "workload.output.tokens": "400"}
    with started(tmp_path, command("--headless", *where, settings={**settings, "load.stop_timeout_s": "0"})) as process:
        wait_for(lambda: "All users spawned" in output_of(tmp_path))
        time.sleep(3)
        os.killpg(process.pid, signal.SIGINT)
        finished = finish(process, tmp_path, limit_s=30)
    rows = finished.rows("requests.csv")
    seen = {json.loads(line)["request_id"] for line in (tmp_path / "truth.jsonl").read_text().splitlines()}
    recorded = {f"{finished.run_dir.name}-{row['request_id']}": row for row in rows}
    assert seen - recorded.keys() == set()
    # one that was killed while it connected was started, but never came to the engine
    assert [row for name, row in recorded.items() if name not in seen and row["headers_ms"]] == []
    assert 1 <= outcomes(rows)["cut_off"] <= 8  # a user may just have been between two requests
    assert finished.run["reconciliation"]["missing"] == 0
    assert finished.run["finished"] is True
    assert finished.code == 3  # the planned level was not completed
    partial = [row for row in rows if row["outcome"] == "cut_off"]
    assert all(row["output_tokens"] == "" or int(row["output_tokens"]) <= 400 for row in partial)


def test_two_worker_processes_make_one_set_of_files(tmp_path):
    settings = {**truth_flags(tmp_path), "load.levels": "1,6"}
    finished = run(tmp_path, "--processes", "2", settings=settings)
    assert finished.code == 0, finished.output
    rows = finished.rows("requests.csv")
    assert len(rows) == seen_by_engine(tmp_path)
    assert {row["worker"] for row in rows} == {"0", "1"}
    assert len({row["request_id"] for row in rows}) == len(rows)
    run_file = finished.run
    assert run_file["reconciliation"]["started"] == len(rows)
    assert [worker["started"] - worker["written"] for worker in run_file["workers"]] == [0, 0]
    assert all(worker["final"] for worker in run_file["workers"])


def test_master_and_workers_started_apart_make_one_set_of_files(tmp_path):
    port = "15557"
    settings = {**truth_flags(tmp_path), "load.levels": "4"}
    line = command("--headless", "--master", "--expect-workers", "2", "--master-bind-port", port, settings=settings)
    worker_line = [sys.executable, "-m", "locust", "-f", str(CHAT), "--worker", "--master-port", port]
    with (
        started(tmp_path, line) as master,
        started(tmp_path / "w1", worker_line) as one,
        started(tmp_path / "w2", worker_line) as two,
    ):
        finished = finish(master, tmp_path)
        assert one.wait(timeout=10) == 0
        assert two.wait(timeout=10) == 0
    assert finished.code == 0, finished.output
    assert len(finished.rows("requests.csv")) == seen_by_engine(tmp_path)
    assert finished.run["reconciliation"]["missing"] == 0


def test_three_faults_in_a_scenario_are_three_lines_and_exit_code_2(tmp_path):
    scenario = tmp_path / "bad.toml"
    scenario.write_text('name = "bad"\n[load]\nlevels = [0]\nwarmup_s = -1\n[workload]\noutputs = 3\n')
    begin = time.monotonic()
    line = [sys.executable, "-m", "locust", "-f", str(CHAT), "--headless", "--scenario", str(scenario)]
    ended = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert ended.returncode == 2
    faults = [text for text in ended.stderr.splitlines() if "bad.toml" in text]
    assert len(faults) == 3, ended.stderr
    assert all(key in ended.stderr for key in ("load.levels", "load.warmup_s", "workload.outputs"))
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "runs").exists()
    assert time.monotonic() - begin < 10


def test_a_host_that_does_not_answer_is_one_line_and_exit_code_3(tmp_path):
    begin = time.monotonic()
    line = command("--headless", "-H", "http://127.0.0.1:9")
    ended = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert ended.returncode == 3, ended.stderr
    assert time.monotonic() - begin < 10
    (said,) = [text for text in ended.stderr.splitlines() if "127.0.0.1:9" in text]
    assert "does not answer" in said
    assert "Traceback" not in ended.stderr
    assert not (tmp_path / "runs").exists()


def test_the_first_request_is_sent_within_three_seconds_of_the_command(tmp_path):
    begin_unix_s = time.time()
    finished = run(tmp_path, settings={"load.measure_s": "0.5"})
    first = min(float(row["sent_unix_s"]) for row in finished.rows("requests.csv"))
    assert first - begin_unix_s < 3.0 * float(os.environ.get("TOKENSWARM_TEST_PATIENCE", "1"))


def test_the_folder_of_locustfiles_loads(tmp_path):
    line = [sys.executable, "-m", "locust", "-f", str(ROOT / "locustfiles"), "--list"]
    ended = subprocess.run(line, cwd=tmp_path, capture_output=True, text=True, timeout=30)
    assert ended.returncode == 0, ended.stderr
    assert "ChatUser" in ended.stdout
    assert "CompletionsUser" in ended.stdout


def test_the_example_listens_to_the_token_events(tmp_path):
    settings = {"engine.practice": json.dumps(["--stall-rate", "1", "--stall-ms", "700"]), "load.measure_s": "2"}
    finished = run(tmp_path, locustfile=ROOT / "locustfiles" / "custom_example.py", settings=settings)
    assert "before token event" in finished.output, finished.output
    rows = finished.rows("requests.csv")
    assert {row["length_class"] for row in rows} == {"support"}


def test_run_time_ends_a_run_in_order(tmp_path):
    settings = {**truth_flags(tmp_path), "load.measure_s": "100"}
    finished = run(tmp_path, "-t", "4s", settings=settings, limit_s=30)
    assert finished.code == 0, finished.output
    assert finished.run["stopped_by"] == "run_time"
    assert len(finished.rows("requests.csv")) == seen_by_engine(tmp_path)


def test_users_on_the_command_line_mean_a_level_by_hand(tmp_path):
    finished = run(tmp_path, "-u", "3", "-r", "3", "-t", "4s", settings=truth_flags(tmp_path), limit_s=30)
    assert finished.code == 0, finished.output
    (level,) = finished.rows("levels.csv")
    assert (level["mode"], level["requested"]) == ("manual", "3")
