"""The scenarios that ship, each in a small run; those of traces, batches and searches have tests of their own."""

import json

import pytest

from scenarios.spec import load_scenario, shipped_scenarios
from tests.support.locust_run import QUICK, outcomes, run

ELSEWHERE = {"demo", "fixed-512-256", "trace-mooncake", "offline-batch", "slo-search"}
SMALL = {
    **dict.fromkeys(QUICK),
    "load.ramp_s": "0",
    "load.warmup_s": "0.5",
    "load.warmup_requests": "0",
    "load.measure_s": "2",
    "load.measure_requests": "0",
    "load.stop_timeout_s": "1",
    "engine.practice": json.dumps(["--speed", "20", "--prefix-caching"]),
}


@pytest.mark.parametrize("name", sorted(set(shipped_scenarios()) - ELSEWHERE))
def test_a_shipped_scenario_runs(tmp_path, name):
    load = load_scenario(name).load
    amount = {"load.rates": "8"} if load.mode == "rate" else {"load.levels": "4"}
    finished = run(tmp_path, "--scenario", name, settings={**SMALL, **amount})
    assert finished.code in (0, 1), finished.output  # the practice engine may miss the SLO
    rows = [row for row in finished.rows("requests.csv") if row["phase"] == "measure"]
    assert len(rows) > 4
    assert outcomes(rows).keys() == {"success"}
    off = [
        int(row["input_tokens"]) / int(row["input_tokens_requested"]) - 1
        for row in rows
        if row["input_tokens_requested"]
    ]
    assert not off or max(map(abs, off)) < 0.01
