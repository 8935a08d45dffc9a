"""Many streams at once: nothing waits inside the client, nothing is lost, and limits are told before the start."""

import json
from collections import Counter
from pathlib import Path

from tests.support.locust_run import Finished, command, finish, started
from tests.support.played import END, Script, play, small_event
from tests.support.scripted_server import Answer

ONE_SECOND = Answer([(1000, small_event("t")), (0, END)])


def test_150_users_are_150_requests_at_the_server_at_once(tmp_path):
    played = play(tmp_path / "run", Script(ONE_SECOND, users=150, requests=150))
    rows = played.rows
    assert Counter(row["outcome"] for row in rows) == {"success": 150}
    assert played.server.peak_in_flight == 150
    assert max(played.off_ms(row, "e2e_ms", 1000) for row in rows) < 200


def test_64_users_with_prompts_of_200_kb_see_the_servers_ttft_or_a_mark_that_they_do_not(tmp_path):
    stream = Answer([(100 if n == 0 else 20, small_event("t")) for n in range(20)] + [(0, END)])
    settings = {"workload.inputs": "36000", "load.measure_s": "5"}
    played = play(tmp_path / "run", Script(stream, users=64, settings=settings))
    measured = [row for row in played.rows if row["phase"] == "measure"]
    assert min(len(seen.body) for seen in played.chats) > 200_000
    assert {row["outcome"] for row in measured} == {"success"}
    (level,) = played.report["levels"]
    # what the scripted server is late itself is not the client's
    ttft_ms = sorted(float(row["first_token_ms"]) - played.late_ms(row) for row in measured)
    p95_ms = ttft_ms[-(-95 * len(ttft_ms) // 100) - 1]
    assert p95_ms <= 150 or level["verdict"]["status"] == "client-bound"
    assert len(measured) > 64 * 5  # 5 s, 480 ms each
    health = played.finished.rows("health.csv")
    assert len(health) >= 5
    assert all(float(second["hub_lag_ms"]) >= 0 for second in health)


def test_512_streams_in_one_worker_lose_no_row_though_few_files_may_be_open(tmp_path):
    truth = tmp_path / "truth.jsonl"
    settings = {
        "engine.practice": json.dumps(["--truth", str(truth)]),
        "load.levels": "512",
        "load.measure_s": "3",
        "load.stop_timeout_s": "10",
        "workload.output.tokens": "24",
    }
    finished = with_open_files(300, 1200, tmp_path, settings)  # Locust asks for 10,000 or leaves it at 300
    rows = finished.rows("requests.csv")
    assert Counter(row["outcome"] for row in rows) == {"success": len(rows)}
    assert max(int(second["in_flight"]) for second in finished.rows("health.csv")) == 512
    seen = [json.loads(line)["request_id"] for line in truth.read_text().splitlines()]
    assert sorted(seen) == sorted(f"{finished.run_dir.name}-{row['request_id']}" for row in rows)
    assert len(set(seen)) == len(seen)
    tokens = Counter(row["request_id"] for row in finished.rows("tokens.csv"))
    assert tokens == dict.fromkeys((row["request_id"] for row in rows), 24)
    assert finished.run["reconciliation"]["missing"] == 0


def test_too_few_open_files_are_told_before_the_first_request(tmp_path):
    finished = with_open_files(400, 400, tmp_path, {"load.levels": "8,512"})
    assert finished.code == 2
    assert "512 streams at once need 640 open files, and this process may have 400" in finished.output
    assert "Traceback" not in finished.output
    assert not (tmp_path / "runs").exists()


def with_open_files(soft: int, hard: int, folder: Path, settings: dict[str, str]) -> Finished:
    """A run whose processes may have so many files open, and may ask for so many."""
    limits = f'ulimit -Sn {soft} && ulimit -Hn {hard} && exec "$@"'
    with started(folder, ["bash", "-c", limits, "run", *command("--headless", settings=settings)]) as process:
        return finish(process, folder)
