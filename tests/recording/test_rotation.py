"""Token rows of a long run go on in new files."""

import csv
import gzip
from pathlib import Path

from scenarios.clients.call import LLMRequest, RequestResult
from scenarios.recording.clock import Clock
from scenarios.recording.recorder import Record, Recorder
from scenarios.recording.run_dir import RunDir


def a_record(tokens: int) -> Record:
    kept: list[Record] = []
    recorder = Recorder(0, Clock(), kept.append)
    result = RequestResult("chat", "m", 0.0, 0.0, "success", 1.0)
    result.token_arrivals_ms = [float(n) for n in range(tokens)]
    result.token_counts = [1] * tokens
    result.token_channels = ["answer"] * tokens
    recorder.finished(recorder.started(), 1, LLMRequest(), result)
    return kept[0]


def test_full_token_files_are_numbered_compressed_and_whole(tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path, "long", rotate_bytes=1000, compress=True)
    record = a_record(100)  # about 20 bytes a row: each request fills a file
    for _ in range(3):
        run_dir.write_records([record], lambda at: (1, "measure"))
    run_dir.close()
    assert sorted(path.name for path in run_dir.path.glob("tokens*")) == [
        "tokens.0001.csv.gz",
        "tokens.0002.csv.gz",
        "tokens.0003.csv.gz",
        "tokens.csv",
    ]
    with gzip.open(run_dir.path / "tokens.0002.csv.gz", "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["index"] for row in rows] == [str(n) for n in range(100)]
    assert len((run_dir.path / "tokens.csv").read_text().splitlines()) == 1  # its header
