"""Traces in their own time and offline batches, in whole runs."""

import json

import pytest

from tests.support.locust_run import outcomes, run
from tests.support.scripted_server import chat_stream
from tests.support.swarm import engine

NO_LEVELS = dict.fromkeys(
    ("load.levels", "load.ramp_s", "load.warmup_s", "load.measure_s", "workload.inputs", "workload.output.tokens")
)
FAST = {"engine.practice": '["--speed", "10", "--prefix-caching"]'}


def due_s(rows):
    instants = sorted(float(row["sent_unix_s"]) + float(row["planned_ms"]) / 1000 for row in rows)
    return [instant - instants[0] for instant in instants]


def test_a_trace_is_sent_at_its_instants_by_two_workers_and_ends_the_run(tmp_path):
    rows = [{"timestamp": 400 * n, "input_length": 40 + n, "output_length": 5, "hash_ids": [n]} for n in range(20)]
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = {
        **FAST,
        **NO_LEVELS,
        "workload.trace.file": str(path),
        "workload.trace.speed": "2",
        "load.warmup_s": "1",
    }
    finished = run(tmp_path, "--scenario", "trace-mooncake", "--processes", "2", settings=settings)
    assert finished.code == 0, finished.output
    sent = finished.rows("requests.csv")
    assert sorted(int(row["input_tokens_requested"]) for row in sent) == list(range(40, 60))
    assert {row["worker"] for row in sent} == {"0", "1"}
    assert due_s(sent) == pytest.approx([0.2 * n for n in range(20)], abs=0.005)
    lags = sorted(float(row["started_ms"]) - float(row["planned_ms"]) for row in sent)
    assert lags[len(lags) // 2] < 10
    # in the first second of the load, five of them, the trace only warms up
    assert [sum(row["phase"] == phase for row in sent) for phase in ("warmup", "measure")] == [5, 15]
    (level,) = finished.rows("levels.csv")
    assert (level["mode"], level["requested"], level["planned"], level["complete"]) == ("trace", "2", "15", "true")
    assert finished.run["stopped_by"] == "plan"


def test_a_batch_is_sent_at_once_and_lasts_until_the_last_one_is_done(tmp_path):
    settings = {**NO_LEVELS, "load.requests": "41"}
    with engine(chat_stream(ttft_ms=800, gap_ms=100, tokens=5)) as server:
        finished = run(tmp_path, "--scenario", "offline-batch", "--processes", "2", "-H", server.url, settings=settings)
        assert server.peak_in_flight == 41
    assert finished.code == 0, finished.output
    rows = finished.rows("requests.csv")
    assert outcomes(rows) == {"success": 41}
    assert max(due_s(rows)) < 0.01
    (level,) = finished.rows("levels.csv")
    assert (level["mode"], level["requested"], level["planned"], level["complete"]) == ("batch", "41", "41", "true")
    last = max(float(row["sent_unix_s"]) + float(row["e2e_ms"]) / 1000 for row in rows)
    assert float(level["measure_end_unix_s"]) == pytest.approx(last, abs=0.01)
    seconds = float(level["measure_end_unix_s"]) - float(level["measure_start_unix_s"])
    assert seconds == pytest.approx(1.2, abs=0.4)
    report = json.loads((finished.run_dir / "report.json").read_text())
    assert report["levels"][0]["output_tok_s"] == pytest.approx(41 * 5 / seconds, rel=0.01)
    assert "Highest throughput" in finished.output
    assert "TPOT" not in finished.output.split("Report")[0].split("Highest throughput")[1]  # throughput only


def test_a_batch_keeps_to_its_cap(tmp_path):
    settings = {**NO_LEVELS, "load.requests": "12", "load.max_in_flight": "5"}
    with engine(chat_stream(ttft_ms=200, tokens=1)) as server:
        finished = run(tmp_path, "--scenario", "offline-batch", "--processes", "2", "-H", server.url, settings=settings)
        assert server.peak_in_flight <= 5
    assert finished.code == 0, finished.output
    assert outcomes(finished.rows("requests.csv")) == {"success": 12}
