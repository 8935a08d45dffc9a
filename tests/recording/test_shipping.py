"""Batches from a worker's outbox to the master's inbox and into the run folder."""

import csv
import zlib
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import Any

import gevent
import pytest

from analysis import schema
from scenarios.clients.call import LLMRequest, RequestResult
from scenarios.recording.clock import Clock
from scenarios.recording.inbox import Inbox, Numbers
from scenarios.recording.outbox import SPOOL_HEADER, Outbox, decode_records, encode_records
from scenarios.recording.recorder import Record, Recorder
from scenarios.recording.run_dir import RunDir
from scenarios.recording.timeline import Timeline


def a_result(**changes: Any) -> RequestResult:
    values: dict[str, Any] = {
        "api": "chat", "model": "m", "started_s": 99.99, "sent_s": 100.0, "outcome": "success", "e2e_ms": 42.5,
        "first_token_ms": 10.0, "last_token_ms": 30.0, "output_tokens": 3, "output_tokens_source": "usage",
        "token_arrivals_ms": [10.0, 20.25, 30.0], "token_counts": [1, None, 1],
        "token_channels": ["reasoning", "answer", "answer"],
    }  # fmt: skip
    return RequestResult(**{**values, **changes})


def records(count: int, **changes: Any) -> list[Record]:
    kept: list[Record] = []
    recorder = Recorder(3, Clock(), kept.append)
    for _ in range(count):
        request = LLMRequest(prompt="p", max_tokens=8, length_class="128", input_tokens_requested=128)
        recorder.finished(recorder.started(), 1, request, a_result(**changes))
    return kept


@pytest.fixture
def inbox(tmp_path: Path) -> Iterator[Inbox]:
    timeline = Timeline(lambda level: None)
    timeline.begin_level("concurrency", 1, 0.0)
    run_dir = RunDir(tmp_path / "runs", "test")
    found = Inbox(run_dir, timeline, lambda: 0.0)
    found.on_hello({"worker": 3, "client_id": "c"})
    yield found
    run_dir.close()


def rows(inbox: Inbox, file: str) -> list[dict[str, str]]:
    writer = gevent.spawn(inbox.write_forever)
    inbox.drain()
    writer.kill()
    with (inbox._run_dir.path / file).open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def test_a_record_survives_the_wire_as_it_is() -> None:
    sent = records(2)
    assert decode_records(encode_records(sent)) == sent


def test_a_started_request_leaves_one_row_with_its_tokens(inbox: Inbox) -> None:
    inbox.on_local(3, records(1)[0])
    row = rows(inbox, schema.REQUESTS_FILE)[0]
    assert (row["request_id"], row["level"], row["phase"], row["outcome"]) == ("3-1", "1", "ramp", "success")
    assert (row["e2e_ms"], row["started_ms"], row["token_events"], row["planned_ms"]) == ("42.5", "-10", "3", "")
    assert rows(inbox, schema.TOKENS_FILE) == [
        {"request_id": "3-1", "index": "0", "arrival_ms": "10.000", "tokens": "1", "channel": "reasoning"},
        {"request_id": "3-1", "index": "1", "arrival_ms": "20.250", "tokens": "", "channel": "answer"},
        {"request_id": "3-1", "index": "2", "arrival_ms": "30.000", "tokens": "1", "channel": "answer"},
    ]


def test_words_of_an_engine_are_one_line_and_no_formula(inbox: Inbox) -> None:
    inbox.on_local(3, records(1, outcome="failure", error_text='=HYPERLINK(1)\nboom, "x"')[0])
    assert rows(inbox, schema.REQUESTS_FILE)[0]["error_text"] == '\'=HYPERLINK(1) boom, "x"'


def test_a_batch_that_comes_twice_is_written_once_and_acknowledged_twice(inbox: Inbox) -> None:
    payload = encode_records(records(5))
    acknowledged: list[int] = []
    for _ in range(2):
        inbox.on_batch(3, 0, zlib.crc32(payload), payload, lambda: acknowledged.append(0))
        assert len(rows(inbox, schema.REQUESTS_FILE)) == 5
    assert acknowledged == [0, 0]
    assert inbox.duplicate_batches == 1


def test_a_batch_that_comes_again_while_it_waits_to_be_written_is_acknowledged_when_it_is(inbox: Inbox) -> None:
    payload = encode_records(records(5))
    acknowledged: list[int] = []
    for _ in range(2):
        inbox.on_batch(3, 0, zlib.crc32(payload), payload, lambda: acknowledged.append(0))
    assert acknowledged == []
    assert len(rows(inbox, schema.REQUESTS_FILE)) == 5
    assert acknowledged == [0]


def test_numbers_are_small_however_many_there_are() -> None:
    numbers = Numbers()
    for number in (0, 1, 3, 5, 2):
        numbers.add(number)
    assert [number in numbers for number in range(7)] == [True, True, True, True, False, True, False]
    assert len(numbers) == 5
    assert numbers._above == {5}  # 4 is still to come


def test_a_damaged_batch_is_not_acknowledged_so_that_it_comes_again(inbox: Inbox) -> None:
    payload = encode_records(records(5))
    acknowledged: list[int] = []
    inbox.on_batch(3, 0, zlib.crc32(payload) ^ 1, payload, lambda: acknowledged.append(0))
    assert rows(inbox, schema.REQUESTS_FILE) == []
    assert acknowledged == []
    inbox.on_batch(3, 0, zlib.crc32(payload), payload, lambda: acknowledged.append(0))
    assert len(rows(inbox, schema.REQUESTS_FILE)) == 5
    assert acknowledged == [0]


def test_a_request_without_a_row_is_missing_by_its_worker(inbox: Inbox) -> None:
    inbox.on_local(3, records(1)[0])
    inbox.on_status(3, {"started": 2, "recorded": 1}, None)
    rows(inbox, schema.REQUESTS_FILE)
    reconciliation = inbox.reconciliation()
    assert (reconciliation["started"], reconciliation["recorded"], reconciliation["missing"]) == (2, 1, 1)
    assert reconciliation["missing_by_worker"] == {"3": 1}


def test_a_batch_stays_in_the_spool_until_it_is_acknowledged(tmp_path: Path) -> None:
    sent: list[tuple[str, dict[str, Any]]] = []
    outbox = Outbox("run", 3, lambda kind, data: sent.append((kind, data)), tmp_path)
    for record in records(4):
        outbox.add(record)
    outbox.ship_due()
    first = sent[0][1]
    assert len(decode_records(first["payload"])) == 4
    assert outbox.spool_path.stat().st_size > len(first["payload"])
    outbox.ship_due(resend_after_s=0.0)
    assert sent[1][1] == first  # the same number and bytes again
    outbox.on_ack(0)
    assert outbox.spool_path.stat().st_size == SPOOL_HEADER.size
    assert outbox.finish(limit_s=1.0)
    assert not outbox.spool_path.exists()


def test_what_could_not_be_delivered_is_kept_on_disk(tmp_path: Path) -> None:
    outbox = Outbox("run", 3, lambda kind, data: None, tmp_path)
    outbox.add(records(1)[0])
    assert not outbox.finish(limit_s=0.1)
    assert outbox.spool_path.stat().st_size > 0


def test_a_batch_that_a_full_disk_refuses_comes_again_and_is_written_then(inbox: Inbox) -> None:
    payload = encode_records(records(5))
    acknowledged: list[int] = []
    files = inbox._run_dir._files
    tokens, files[schema.TOKENS_FILE] = files[schema.TOKENS_FILE], FileIO("/dev/full", "w")
    inbox.on_batch(3, 0, zlib.crc32(payload), payload, lambda: acknowledged.append(0))
    assert rows(inbox, schema.REQUESTS_FILE) == []
    assert acknowledged == []
    inbox.on_started(3, 5)
    assert inbox.reconciliation()["missing_by_worker"] == {"3": 5}
    files[schema.TOKENS_FILE].close()
    files[schema.TOKENS_FILE] = tokens
    inbox.on_batch(3, 0, zlib.crc32(payload), payload, lambda: acknowledged.append(0))
    assert len(rows(inbox, schema.REQUESTS_FILE)) == 5
    assert acknowledged == [0]
    assert inbox.reconciliation()["missing"] == 0


def test_a_full_disk_cuts_no_row_in_half_and_is_said(tmp_path: Path) -> None:
    run_dir = RunDir(tmp_path, "full")
    run_dir.write_records(records(1), lambda at: (1, "measure"))
    before = (run_dir.path / schema.REQUESTS_FILE).read_bytes()
    run_dir._files[schema.REQUESTS_FILE].close()
    run_dir._files[schema.REQUESTS_FILE] = FileIO("/dev/full", "w")
    tokens = (run_dir.path / schema.TOKENS_FILE).read_bytes()
    assert not run_dir.write_records(records(3), lambda at: (1, "measure"))
    assert (run_dir.path / schema.TOKENS_FILE).read_bytes() == tokens  # both or none
    assert run_dir.write_error and "No space left" in run_dir.write_error
    assert (run_dir.path / schema.REQUESTS_FILE).read_bytes() == before
    run_dir.close()
