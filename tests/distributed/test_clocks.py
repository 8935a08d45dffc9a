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
MEASURE_S = 5


def test_wrong_clocks_change_no_figure_and_are_warned_of(tmp_path):
    """One worker's clock is right, one's 5 s and one's 300 s ahead, and one is set back by 3 s in the middle."""
    settings = {"load.levels": "8", "load.warmup_s": "1.5", "load.measure_s": str(MEASURE_S)}
    with engine(ANSWER) as server:
        unix_minus_perf_s = time.time() - time.perf_counter()
        with swarm(tmp_path, server.url, workers=1, settings=settings, expect=4) as swarmed:
            noon = tmp_path / "noon"
            for ahead_s, step_s in (("5", "0"), ("300", "0"), ("0", "-3")):
                swarmed.add_worker(LAUNCHER, ahead_s, step_s, str(noon))
            swarmed.wait_for_phase("measure")
            time.sleep(1)
            noon.touch()
            finished = swarmed.finish()
        assert_each_request_has_its_row(server, finished.run_dir)
        # when each request came, by the engine's own clock
        came = {
            seen.headers["x-request-id"].removeprefix(finished.run_dir.name + "-"): seen.at_s + unix_minus_perf_s
            for seen in calls(server)
        }
    warned = [text for text in finished.run["warnings"] if "clock" in text]
    assert len(warned) == 3
    assert all(any(part in text for text in warned) for part in ("300.0 s ahead", "5.0 s ahead", "moved by -3.0"))
    offsets_s = sorted(round(worker["clock_offset_ms"] / 1000, 1) for worker in finished.run["workers"])
    assert offsets_s == [-300.0, -5.0, 0.0, 0.0]

    rows = finished.rows("requests.csv")
    for worker in ("0", "1", "2", "3"):
        mine = [row for row in rows if row["worker"] == worker and row["request_id"] in came]
        # every time of sending is on the master's clock, without a step
        late_s = [came[row["request_id"]] - float(row["sent_unix_s"]) for row in mine]
        assert abs(statistics.median(late_s)) < 0.02, worker
        sent = sorted(float(row["sent_unix_s"]) for row in mine)
        assert max(later - earlier for earlier, later in pairwise(sent)) < 1.5, worker
        ttft = [float(row["first_token_ms"]) for row in mine if row["outcome"] == "success"]
        assert abs(statistics.median(ttft) - TTFT_MS) < 15, worker
    times = ("connect_ms", "headers_ms", "first_token_ms", "last_token_ms", "e2e_ms")
    assert all(float(row[name]) >= 0 for row in rows for name in times if row[name])

    (level,) = summarise(load(finished.run_dir)).levels
    assert level.window_s is not None and level.output_tok_s is not None
    assert abs(level.window_s - MEASURE_S) < 0.5
    true_tokens = sum(
        level.window.start_unix_s <= at + (TTFT_MS + GAP_MS * index) / 1000 < level.window.end_unix_s
        for at in came.values()
        for index in range(TOKENS)
    )
    assert abs(level.output_tok_s * level.window_s / true_tokens - 1) < 0.01
