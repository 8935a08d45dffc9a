"""`tokenswarm recover`: rows of a worker's spool go into the run folder, once and whole."""

import csv
import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from analysis import schema
from scenarios.clients.call import LLMRequest, RequestResult
from scenarios.recording.clock import Clock
from scenarios.recording.merging import CannotMergeError, merge
from scenarios.recording.outbox import Outbox
from scenarios.recording.recorder import Record, Recorder
from scenarios.recording.recover import told
from scenarios.recording.run_dir import RunDir

RUN_ID_FIELDS = {"mode": "concurrency", "requested": 2.0, "users": 2, "workers": 1}
# level 1: measured from 110 to 120; level 2 has begun its warm-up at 131 and never ended
LEVELS: list[dict[str, Any]] = [
    {"level": 1, **RUN_ID_FIELDS, "ramp_start_unix_s": 100.0, "warmup_start_unix_s": 101.0,
     "measure_start_unix_s": 110.0, "measure_end_unix_s": 120.0, "tail_end_unix_s": 125.0, "complete": True},
    {"level": 2, **RUN_ID_FIELDS, "ramp_start_unix_s": 130.0, "warmup_start_unix_s": 131.0,
     "measure_start_unix_s": None, "measure_end_unix_s": None, "tail_end_unix_s": None, "complete": False},
]  # fmt: skip


class SetClock(Clock):
    """Monotonic instants are taken for Unix seconds."""

    def unix_s(self, monotonic_s: float) -> float:
        return monotonic_s


def records(worker: int, *sent_s: float) -> list[Record]:
    kept: list[Record] = []
    recorder = Recorder(worker, SetClock(), kept.append)
    for instant in sent_s:
        result = RequestResult(
            api="chat", model="m", started_s=instant, sent_s=instant, outcome="success", e2e_ms=500.0,
            token_arrivals_ms=[10.0, 20.0, 30.0], token_counts=[1, 1, 1], token_channels=["answer"] * 3,
        )  # fmt: skip
        request = LLMRequest(prompt="p", max_tokens=3, length_class="", input_tokens_requested=1)
        recorder.finished(recorder.started(), 1, request, result)
    return kept


def a_run(folder: Path, written: list[Record], *, finished: bool = True, started: int = 0) -> Path:
    run_dir = RunDir(folder / "runs", "r")
    run_dir.write_records(written, lambda at: (1, "measure"))
    levels = LEVELS if not finished else LEVELS[:1]
    run_dir.write_rows(schema.LEVELS_FILE, LEVELS[:1])
    state = {"worker": 0, "client_id": "c", "host": "box", "started": started, "written": len(written), "at_unix_s": 90}
    run_dir.write_run(
        {
            "run_id": "r1", "finished": finished, "levels": levels, "workers": [state],
            "reconciliation": {"started": started, "recorded": len(written), "missing": started - len(written)},
        }
    )  # fmt: skip
    run_dir.close()
    return run_dir.path


def a_spool(folder: Path, worker: int, batches: list[list[Record]], started: int) -> Path:
    folder.mkdir(exist_ok=True)
    outbox = Outbox("r1", worker, lambda kind, data: None, folder)
    for batch in batches:
        for record in batch:
            outbox.add(record)
        outbox.ship_due()
    outbox.on_started(started)
    outbox._spool.close()
    return outbox.spool_path


def rows(run: Path, file: str) -> list[dict[str, str]]:
    with (run / file).open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def contents(run: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in run.iterdir()}


def test_only_rows_that_are_not_there_are_added_each_in_its_level_and_phase(tmp_path):
    sent = records(0, 105.0, 112.0, 122.0, 127.0)
    run = a_run(tmp_path, sent[:1], started=4)
    a_spool(tmp_path / "spool", 0, [sent[:2], sent[2:]], started=6)
    merged, info = merge(run, tmp_path / "spool")
    assert [(one.requests, one.token_rows) for one in merged] == [(3, 9)]
    found = [(row["request_id"], row["level"], row["phase"]) for row in rows(run, "requests.csv")]
    # 112 lies in the measure phase, 122 in the tail, 127 after the end of the level
    assert found[1:] == [("0-2", "1", "measure"), ("0-3", "1", "tail"), ("0-4", "", "")]
    tokens = [(row["request_id"], row["index"]) for row in rows(run, "tokens.csv")]
    assert sorted(tokens) == [(f"0-{n}", str(index)) for n in (1, 2, 3, 4) for index in (0, 1, 2)]
    # the spool tells of six starts: the two in flight when the worker was killed are named
    assert info["reconciliation"]["started"] == 6
    assert info["reconciliation"]["missing_requests"] == {"0": ["0-5", "0-6"]}
    said = list(told(merged, info))
    assert said[0].startswith("worker 0: 3 requests and 9 token rows merged")
    assert said[1] == "6 requests started, 4 recorded, 2 missing"
    assert said[2] == "  worker 0 on box, last heard at 00:01:30 UTC: no row for 0-5, 0-6"


def test_rows_in_full_and_compressed_token_files_count_too(tmp_path):
    sent = records(0, 111.0, 112.0, 113.0)
    run = a_run(tmp_path, sent, started=3)
    lines = (run / "tokens.csv").read_bytes().splitlines(keepends=True)
    with gzip.open(run / "tokens.0001.csv.gz", "wb") as packed:
        packed.writelines(lines[:4])
    (run / "tokens.0002.csv").write_bytes(b"".join([lines[0], *lines[4:7]]))
    (run / "tokens.csv").write_bytes(b"".join([lines[0], *lines[7:]]))
    a_spool(tmp_path / "spool", 0, [sent], started=3)
    (merged,), _ = merge(run, tmp_path / "spool")
    assert (merged.requests, merged.token_rows) == (0, 0)


def test_a_second_time_changes_no_byte(tmp_path):
    sent = records(0, 105.0, 112.0)
    run = a_run(tmp_path, [], finished=False, started=2)
    a_spool(tmp_path / "spool", 0, [sent], started=2)
    merge(run, tmp_path / "spool")
    before = contents(run)
    merged, _ = merge(run, tmp_path / "spool")
    assert [(one.requests, one.token_rows) for one in merged] == [(0, 0)]
    assert contents(run) == before


def test_a_batch_cut_off_and_a_damaged_one_are_counted_and_the_rest_is_merged(tmp_path):
    sent = records(0, 111.0, 112.0, 113.0)
    run = a_run(tmp_path, [], started=3)
    path = a_spool(tmp_path / "spool", 0, [[sent[0]], [sent[1]], [sent[2]]], started=3)
    data = bytearray(path.read_bytes())
    frame = (len(data) - 16) // 3
    data[16 + 16 + 20] ^= 0xFF  # inside the first payload
    path.write_bytes(data[: 16 + 2 * frame + 30])  # the third is half there
    (merged,), info = merge(run, tmp_path / "spool")
    assert (merged.requests, merged.spool.damaged_batches, merged.spool.cut_bytes) == (1, 1, 30)
    assert info["reconciliation"]["missing_requests"] == {"0": ["0-1", "0-3"]}


def test_after_a_killed_master_the_open_level_ends_incomplete_at_the_last_sign_of_life(tmp_path):
    sent = records(0, 112.0, 133.0)
    run = a_run(tmp_path, sent[:1], finished=False, started=2)
    a_spool(tmp_path / "spool", 0, [[sent[1]]], started=2)
    _, info = merge(run, tmp_path / "spool")
    assert [(row["level"], row["phase"]) for row in rows(run, "requests.csv")] == [("1", "measure"), ("2", "warmup")]
    one, two = rows(run, "levels.csv")
    assert (one["tail_end_unix_s"], one["complete"]) == ("125", "true")
    assert (two["tail_end_unix_s"], two["complete"]) == ("133.5", "false")  # sent at 133, ended 500 ms later
    assert info["finished"] is False
    assert info["reconciliation"]["missing"] == 0


def test_rows_that_a_kill_cut_in_half_are_made_whole(tmp_path):
    sent = records(0, 111.0, 112.0)
    run = a_run(tmp_path, sent, started=2)
    whole = contents(run)
    for file, cut in (("requests.csv", 40), ("tokens.csv", 25)):  # into the second request, into its second token row
        path = run / file
        path.write_bytes(path.read_bytes()[:-cut])
    a_spool(tmp_path / "spool", 0, [sent], started=2)
    merge(run, tmp_path / "spool")
    assert (run / "requests.csv").read_bytes() == whole["requests.csv"]
    assert (run / "tokens.csv").read_bytes() == whole["tokens.csv"]


def test_a_run_that_still_goes_on_is_left_alone(tmp_path):
    run_dir = RunDir(tmp_path / "runs", "r")
    run_dir.write_run({"run_id": "r1", "levels": [], "workers": []})
    a_spool(tmp_path / "spool", 0, [], started=0)
    with pytest.raises(CannotMergeError, match="still goes on"):
        merge(run_dir.path, tmp_path / "spool")
    run_dir.close()


def test_without_a_spool_it_says_which_file_it_looked_for(tmp_path):
    run = a_run(tmp_path, [], started=0)
    line = [sys.executable, "-m", "scenarios.cli", "recover", str(run), "--spool", str(tmp_path)]
    ended = subprocess.run(line, capture_output=True, text=True, timeout=30)
    assert ended.returncode == 2
    assert "no spool file of run r1 (tokenswarm-r1-WORKER.spool)" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert json.loads((run / "run.json").read_text())["run_id"] == "r1"
