"""The classic table against the practice engine in real time: the gains by batching, and the truth of each request."""

import json
import sys
import time
from statistics import mean

import pytest

from tests.support.locust_run import CHAT, finish, started

pytestmark = pytest.mark.slow

OVERRIDES = {
    "load.levels": "1,32",
    "load.warmup_s": "4",
    "load.measure_s": "9.5",  # three requests of one user: 3.1 s each
    "load.measure_requests": "3",
}


@pytest.fixture(scope="module")
def classic(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classic")
    practice = json.dumps(["--speed", "1", "--truth", str(folder / "truth.jsonl")])
    settings = [f"--set={key}={value}" for key, value in {**OVERRIDES, "engine.practice": practice}.items()]
    line = [sys.executable, "-m", "locust", "-f", str(CHAT), "--headless", "--scenario", "fixed-512-256", *settings]
    with started(folder, line) as process:
        return finish(process, folder, limit_s=120)


@pytest.fixture(scope="module")
def levels(classic):
    summary = json.loads((classic.run_dir / "report.json").read_text())
    return {int(level["requested"]): level for level in summary["levels"]}


def test_32_users_get_15_to_19_times_the_throughput_of_one_at_twice_the_tpot(levels):
    one, many = levels[1], levels[32]
    assert 15 <= many["output_tok_s"] / one["output_tok_s"] <= 19
    assert many["latencies"]["ttft_ms"]["mean"] / one["latencies"]["ttft_ms"]["mean"] >= 6
    assert 1.7 <= many["latencies"]["tpot_ms"]["mean"] / one["latencies"]["tpot_ms"]["mean"] <= 2.3


@pytest.mark.parametrize("level", [1, 32])
def test_mean_ttft_and_tpot_are_those_of_the_engine(classic, levels, level):
    truth = {
        row["request_id"]: row for row in map(json.loads, (classic.folder / "truth.jsonl").read_text().splitlines())
    }
    number = str(levels[level]["level"])
    measured = [row for row in classic.rows("requests.csv") if (row["level"], row["phase"]) == (number, "measure")]
    true = [truth[f"{classic.run_dir.name}-{row['request_id']}"] for row in measured]
    assert {row["outcome"] for row in measured} == {"success"}
    assert {row["stamp"] for row in measured} == {"kernel"}
    ttft_ms = mean((row["token_s"][0] - row["received_s"]) * 1000 for row in true)
    read_ms = mean(map(read_after_ms, measured, true))
    tpot_ms = mean((row["token_s"][-1] - row["token_s"][0]) * 1000 / (row["completion_tokens"] - 1) for row in true)
    found = levels[level]["latencies"]
    assert found["ttft_ms"]["mean"] == pytest.approx(ttft_ms, abs=1 + 0.01 * ttft_ms + read_ms)
    assert found["tpot_ms"]["mean"] == pytest.approx(tpot_ms, abs=1 + 0.01 * tpot_ms)


def read_after_ms(row: dict[str, str], true: dict[str, float]) -> float:
    """How long a sent request waited for the engine to read it: its clock starts there. On a busy machine it takes a while."""
    received_unix_s = true["received_s"] + time.time() - time.perf_counter()
    return max(0.0, received_unix_s - float(row["sent_unix_s"])) * 1000
