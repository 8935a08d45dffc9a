"""Four workers make one set of numbers: exact percentiles, an exact split, one writer per file."""

import csv
import math
import os
import time
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from analysis.figures import summarise
from analysis.runs import load
from tests.support.locust_run import Finished, command, finish, started, wait_for
from tests.support.scripted_server import Answer, Seen, chat_event, chat_stream, json_answer
from tests.support.swarm import PLAIN, assert_each_request_has_its_row, calls, engine

STATUSES = (200, 429, 200, 200, 429, 200, 500, 200, 429, 200)


def uneven(seen):
    """Of ten requests: six answers of different lengths and paces, three refusals, one error of the server."""
    number = int(seen.headers["x-request-id"].rsplit("-", 1)[1])
    status = STATUSES[number % 10]
    if status != 200:
        return json_answer(status, {"error": {"message": "no"}})
    return chat_stream(ttft_ms=20 + number * 37 % 90, gap_ms=8 + number % 11, tokens=2 + number % 17)


def nearest_rank(values, p):
    return sorted(values)[math.ceil(p / 100 * len(values)) - 1]


@dataclass
class FourWorkers:
    """A finished run of four processes, what the engine saw of it, and who had which file open for writing."""

    finished: Finished
    seen: list[Seen]
    peak_in_flight: int
    writers: Counter[Path]


@pytest.fixture(scope="module")
def four_workers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("four")
    settings = {**PLAIN, "load.levels": "5,10", "load.warmup_s": "0.5", "load.measure_s": "2.5"}
    settings["load.respect_retry_after"] = "false"
    with engine(uneven) as server:
        arguments = ["--processes", "4", "--csv", "out", "-H", server.url]
        with started(folder, command("--headless", *arguments, settings=settings)) as process:
            wait_for(lambda: len(calls(server)) > 20)
            pids = [process.pid, *(child.pid for child in psutil.Process(process.pid).children(recursive=True))]
            writers = Counter(path for pid in pids for path in open_for_writing(pid, folder))
            finished = finish(process, folder)
        assert_each_request_has_its_row(server, finished.run_dir)
        return FourWorkers(finished, calls(server), server.peak_in_flight, writers)


def test_percentiles_of_four_workers_are_those_of_the_merged_rows(four_workers):
    finished = four_workers.finished
    arrivals: dict[str, list[float]] = {}
    for token in finished.rows("tokens.csv"):
        arrivals.setdefault(token["request_id"], []).append(float(token["arrival_ms"]))
    levels = summarise(load(finished.run_dir)).levels
    assert len(levels) == 2
    for level in levels:
        rows = [
            row
            for row in finished.rows("requests.csv")
            if (row["level"], row["phase"], row["outcome"]) == (str(level.level), "measure", "success")
        ]
        assert {row["worker"] for row in rows} == {"0", "1", "2", "3"}
        values = {
            "ttft_ms": [float(row["first_token_ms"]) for row in rows],
            "e2e_ms": [float(row["e2e_ms"]) for row in rows],
            "tpot_ms": [
                (float(row["last_token_ms"]) - float(row["first_token_ms"])) / (int(row["output_tokens"]) - 1)
                for row in rows
                if row["last_token_ms"] != row["first_token_ms"]
            ],
            "itl_ms": [later - earlier for row in rows for earlier, later in pairwise(arrivals[row["request_id"]])],
        }
        for name, found in values.items():
            stats = getattr(level.latencies, name)
            assert stats.n == len(found), name
            for p in (50, 90, 95, 99):
                assert math.isclose(getattr(stats, f"p{p}"), nearest_rank(found, p), rel_tol=1e-12), (name, p)
            assert math.isclose(stats.max, max(found), rel_tol=1e-12)


def test_load_and_prompts_are_split_exactly_and_a_level_begins_on_all_workers_together(four_workers):
    assert four_workers.peak_in_flight == 10
    prompts = [seen.body for seen in four_workers.seen]
    assert len(set(prompts)) == len(prompts), "two workers sent the same prompt"
    rows = four_workers.finished.rows("requests.csv")
    second = [row for row in rows if row["level"] == "2" and row["phase"] == "measure"]
    users = Counter(worker for worker, _ in {(row["worker"], row["user"]) for row in second})
    assert sorted(users.values()) == [2, 2, 3, 3]
    first: dict[str, float] = {}
    for row in rows:
        first[row["worker"]] = min(float(row["sent_unix_s"]), first.get(row["worker"], math.inf))
    assert max(first.values()) - min(first.values()) < 0.7


def test_each_file_has_one_writer(four_workers):
    assert {path.name for path in four_workers.writers} >= {"requests.csv", "tokens.csv", "out_stats.csv"}
    assert set(four_workers.writers.values()) == {1}, four_workers.writers


def test_workers_master_and_locusts_own_csv_count_the_same(four_workers):
    finished = four_workers.finished
    rows = finished.rows("requests.csv")
    workers = finished.run["workers"]
    assert sum(worker["started"] for worker in workers) == len(rows)
    assert [worker["started"] - worker["written"] for worker in workers] == [0, 0, 0, 0]
    with (finished.folder / "out_stats.csv").open(newline="") as lines:
        (total,) = [row for row in csv.DictReader(lines) if row["Name"] == "Aggregated"]
    assert int(total["Request Count"]) == len(rows)
    assert int(total["Failure Count"]) == sum(row["outcome"] != "success" for row in rows)


def test_failures_are_rows_of_their_class_and_the_four_outcomes_sum_up(four_workers):
    finished = four_workers.finished
    sent = Counter(STATUSES[int(seen.headers["x-request-id"].rsplit("-", 1)[1]) % 10] for seen in four_workers.seen)
    rows = finished.rows("requests.csv")
    found = Counter(row["error_class"] for row in rows if row["outcome"] == "failure")
    cut_off = sum(row["outcome"] == "cut_off" for row in rows)
    assert 0 <= sent[429] - found["http_429"] <= cut_off
    assert 0 <= sent[500] - found["http_500"] <= cut_off
    for level in summarise(load(finished.run_dir)).levels:
        counts = level.counts
        assert counts.started == counts.success + counts.failure + counts.empty + counts.cut_off
        assert level.verdict.status != "valid"
    assert all(word in finished.output for word in ("started", "success", "failed", "empty", "cut off", "http_429"))


def open_for_writing(pid, folder):
    """Files under a folder that a process has open for writing."""
    found = set()
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = entry.readlink()
            flags = int((Path(f"/proc/{pid}/fdinfo") / entry.name).read_text().split("flags:")[1].split()[0], 8)
        except OSError:
            continue  # closed meanwhile
        if target.is_relative_to(folder) and target.suffix in {".csv", ".json"} and flags & (os.O_WRONLY | os.O_RDWR):
            found.add(target)
    return found


def test_large_results_from_four_processes_do_not_delay_the_end(tmp_path):
    # 100 events of 800 bytes: 80 kB an answer
    answer = Answer([(1, chat_event("x" * 740)) for _ in range(100)] + list(chat_stream(0, 0, 1).script))
    settings = {**PLAIN, "load.levels": "8", "load.warmup_s": "0", "load.measure_requests": "200"}
    with engine(answer) as server:
        arguments = ["--processes", "4", "-H", server.url]
        with started(tmp_path, command("--headless", *arguments, settings=settings)) as process:
            finished = finish(process, tmp_path)
            ended_s = time.perf_counter()
        assert_each_request_has_its_row(server, finished.run_dir)
        rows = finished.rows("requests.csv")
        assert len(rows) >= 200
        assert all(int(row["response_bytes"]) > 80_000 for row in rows if row["outcome"] == "success")
        assert ended_s - max(seen.at_s for seen in calls(server)) < 20  # report and all; alone 5 s
