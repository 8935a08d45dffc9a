"""The search for the highest load that keeps the SLO, in whole runs against an engine whose border is known."""

import json

import pytest

from tests.support.locust_run import run

# An engine whose TPOT is 4 + 4 · concurrency ms at speed 1, and nothing else that depends on the load.
PROFILE = """
name = "border"
step_ms = 4.0
decode_sequence_ms = 4.0
kv_read_ms_per_1k_tokens = 0.0
prefill_ms_per_token = 0.0
request_ms = 1.0
request_ms_per_running = 0.0
max_model_len = 4096
max_num_seqs = 256
max_num_batched_tokens = 4096
prefill_share_tokens = 4096
min_prefill_chunk_tokens = 16
kv_blocks = 10000
"""


def search(folder, **more):
    profile = folder / "border.toml"
    profile.write_text(PROFILE)
    settings = {
        "load.levels": None,
        "workload.output.tokens": "30",
        "load.ramp_s": "0",
        "load.warmup_s": "0.4",
        "load.warmup_requests": "0",
        "load.measure_s": "1.5",
        "load.measure_requests": "0",
        "load.search.highest": "32",
        "slo.ttft_ms": "1000",
        "engine.practice": json.dumps(["--speed", "2", "--profile", str(profile)]),
        **more,
    }
    return run(folder, "--scenario", "slo-search", settings=settings, limit_s=150)


@pytest.mark.parametrize(("seed", "limit_ms", "border"), [("1", 15, 6), ("2", 11, 4)])
def test_it_finds_the_concurrency_that_the_profile_implies(tmp_path, seed, limit_ms, border):
    # at speed 2 the TPOT is 2 + 2 · concurrency ms: 14 at 6 and 16 at 7
    finished = search(tmp_path, **{"seed": seed, "slo.tpot_ms": str(limit_ms), "load.search.start": "4"})
    assert finished.code == 0, finished.output
    found = finished.run["search"]
    assert found["level"] == pytest.approx(border, abs=1)
    assert found["finished"] is True
    assert found["confidence"] >= 0.5
    tried = {each["level"]: each for each in found["tried"]}
    assert len(tried[found["level"]]["runs"]) >= 2  # one lucky run does not decide
    levels = finished.rows("levels.csv")
    assert len(levels) == sum(len(each["runs"]) for each in found["tried"])
    # the counts are those of the report: one definition of the SLO
    for each in found["tried"]:
        shares = [met / due for met, due in each["runs"]]
        report = json.loads((finished.run_dir / "report.json").read_text())
        assert shares == pytest.approx(
            [x["slo_attainment"] for x in report["levels"] if x["requested"] == each["level"]]
        )
    assert f"{found['level']:g} concurrent requests" in finished.output


def test_it_finds_a_rate_too_and_each_level_begins_with_an_idle_engine(tmp_path):
    # one slot of 100 ms: 10 requests/s at most; constant arrivals wait for nothing below that, and ever longer above
    (tmp_path / "one.toml").write_text(
        PROFILE.replace("max_num_seqs = 256", "max_num_seqs = 1").replace(
            "decode_sequence_ms = 4.0", "decode_sequence_ms = 6.0"
        )
    )
    settings = {
        "load.levels": None,
        "load.search.over": "rate",
        "load.search.start": "8",
        "load.search.lowest": "1",
        "load.search.highest": "16",
        "load.search.resolution": "0.3",
        "load.search.max_runs": "2",
        "load.arrivals": "constant",
        "workload.output.tokens": "10",
        "load.warmup_s": "0.5",
        "load.warmup_requests": "0",
        "load.measure_requests": "0",
        "load.measure_s": "2",
        "slo.ttft_ms": "60",
        "slo.tpot_ms": "1000",
        "engine.practice": json.dumps(["--profile", str(tmp_path / "one.toml")]),
    }
    finished = run(tmp_path, "--scenario", "slo-search", settings=settings, limit_s=200)
    assert finished.code == 0, finished.output
    found = finished.run["search"]
    assert found["over"] == "rate"
    assert 7 <= found["level"] <= 10.2
    rows = finished.rows("requests.csv")
    for level in finished.rows("levels.csv"):
        begin = float(level["ramp_start_unix_s"])
        in_flight = [
            row
            for row in rows
            if float(row["sent_unix_s"]) < begin < float(row["sent_unix_s"]) + float(row["e2e_ms"]) / 1000
        ]
        assert in_flight == []
