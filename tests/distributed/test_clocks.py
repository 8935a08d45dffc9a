"""Workers whose wall clocks are wrong, or are set during the run, change no figure but are told of."""

import statistics
import time
from itertools import pairwise
from pathlib import Path

from analysis.figures import summarise
from analysis.runs import load
from tests.support.scripted_server import chat_stream
from tests.support.swarm import assert_each_request_has_its_row, calls, engine, swarm

LAUNCHER = str(Path(__file__).parents[1] / "support" / "shifted_clock.py")
TTFT_MS, GAP_MS, TOKENS = 50, 25, 10
ANSWER = chat_stream(ttft_ms=TTFT_MS, gap_ms=GAP_MS, tokens=TOKENS)


def test_clocks_that_are_ahead_change_no_throughput_and_are_warned_of(tmp_path):
    settings = {"load.levels": "9", "load.warmup_s": "1.5", "load.measure_s": "4"}
    with engine(ANSWER) as server:
        unix_minus_perf_s = time.time() - time.perf_counter()
        with swarm(tmp_path, server.url, workers=1, settings=settings, expect=3) as swarmed:
            swarmed.add_worker(LAUNCHER, "5", "0", "0")
            swarmed.add_worker(LAUNCHER, "300", "0", "0")
            finished = swarmed.finish()
        assert_each_request_has_its_row(server, finished.run_dir)
        # when each request came and each token went, by the engine's own clock
        came = {
            seen.headers["x-request-id"].removeprefix(finished.run_dir.name + "-"): seen.at_s + unix_minus_perf_s
            for seen in calls(server)
        }
    info = finished.run
    offsets_s = sorted(worker["clock_offset_ms"] / 1000 for worker in info["workers"])
    assert [round(offset, 1) for offset in offsets_s] == [-300.0, -5.0, 0.0]
    warned = sorted(text for text in info["warnings"] if "clock" in text)
    assert len(warned) == 2
    assert any("300.0 s ahead" in text for text in warned) and any("5.0 s ahead" in text for text in warned)
    # every time of sending is on the master's clock
    rows = finished.rows("requests.csv")
    late_s = [came[row["request_id"]] - float(row["sent_unix_s"]) for row in rows if row["request_id"] in came]
    assert abs(statistics.median(late_s)) < 0.01
    for worker in ("0", "1", "2"):
        mine = [
            came[row["request_id"]] - float(row["sent_unix_s"])
            for row in rows
            if row["worker"] == worker and row["phase"] == "measure"
        ]
        assert abs(statistics.median(mine)) < 0.02, worker
    (level,) = summarise(load(finished.run_dir)).levels
    assert level.window_s is not None
    assert abs(level.window_s - 4.0) < 0.5
    true_tokens = sum(
        level.window.start_unix_s <= at + (TTFT_MS + GAP_MS * index) / 1000 < level.window.end_unix_s
        for at in came.values()
        for index in range(TOKENS)
    )
    assert level.output_tok_s is not None
    assert abs(level.output_tok_s * level.window_s / true_tokens - 1) < 0.01


def test_a_clock_that_is_set_back_during_the_run_makes_no_time_negative(tmp_path):
    settings = {"load.levels": "4", "load.warmup_s": "0", "load.measure_s": "5"}
    # the worker is up within about 2 s: its clock jumps while requests are under way
    with engine(ANSWER) as server, swarm(tmp_path, server.url, workers=0, settings=settings, expect=1) as swarmed:
        swarmed.add_worker(LAUNCHER, "0", "-3", "5")
        finished = swarmed.finish()
        assert_each_request_has_its_row(server, finished.run_dir)
    rows = finished.rows("requests.csv")
    times = ("connect_ms", "headers_ms", "first_token_ms", "last_token_ms", "e2e_ms")
    assert all(float(row[name]) >= 0 for row in rows for name in times if row[name])
    ttft = [float(row["first_token_ms"]) for row in rows if row["outcome"] == "success"]
    assert abs(statistics.median(ttft) - TTFT_MS) < 15
    (level,) = summarise(load(finished.run_dir)).levels
    assert level.window_s is not None
    assert abs(level.window_s - 5.0) < 0.5
    sent = sorted(float(row["sent_unix_s"]) for row in rows)
    assert max(later - earlier for earlier, later in pairwise(sent)) < 1.0, "a step in the times"
