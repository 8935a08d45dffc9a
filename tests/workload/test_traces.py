"""Traces: lengths, instants and shared beginnings as they were recorded."""

import json
import re
from contextlib import suppress

import pytest

from scenarios.clients.call import LLMRequest
from scenarios.spec import TraceSpec, WorkloadSpec
from scenarios.workload.planner import Workload
from scenarios.workload.rows import BadRow, WorkloadEnd
from scenarios.workload.traces import TraceRow, parse_row

UNIT = re.compile(r"[A-Za-z]+|\d{1,3}|\S")


def units(text):
    return UNIT.findall(text)


def replayed(path, worker=0, workers=1, n=100, context_tokens=0, **trace):
    spec = WorkloadSpec(trace=TraceSpec(file=str(path), **trace), context_tokens=context_tokens)
    workload = Workload(spec, seed=1, worker=worker, workers=workers)
    rows: list[tuple[float, LLMRequest]] = []
    with suppress(WorkloadEnd):
        while len(rows) < n:
            rows.append(workload.next_timed())
    return rows


@pytest.fixture
def mooncake(tmp_path):
    path = tmp_path / "trace.jsonl"
    rows = [
        {"timestamp": 1000, "input_length": 1100, "output_length": 10, "hash_ids": [0, 1, 2]},
        {"timestamp": 1500, "input_length": 1300, "output_length": 20, "hash_ids": [0, 1, 3]},
        {"timestamp": 4000, "input_length": 600, "output_length": 30, "hash_ids": [0, 4]},
        {"timestamp": 9000, "input_length": 50, "output_length": 40, "hash_ids": [5]},
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_mooncake_rows_are_due_at_their_times_after_the_first(mooncake):
    assert [(at_s, request.max_tokens) for at_s, request in replayed(mooncake)] == [
        (0.0, 10),
        (0.5, 20),
        (3.0, 30),
        (8.0, 40),
    ]


def test_prompts_are_as_long_as_recorded(mooncake):
    for _, request in replayed(mooncake):
        assert len(units(request.prompt)) == request.input_tokens_requested
    assert [request.input_tokens_requested for _, request in replayed(mooncake)] == [1100, 1300, 600, 50]


def test_equal_hash_ids_are_equal_blocks_and_others_differ(mooncake):
    first, second, third, _ = [units(request.prompt) for _, request in replayed(mooncake)]
    assert first[:1024] == second[:1024]
    assert first[1024:1034] != second[1024:1034]
    assert first[:512] == third[:512]
    assert first[512:522] != third[512:522]


def test_two_workers_share_the_blocks_and_split_the_rows(mooncake):
    first, second = replayed(mooncake, 0, 2), replayed(mooncake, 1, 2)
    assert [at_s for at_s, _ in first] == [0.0, 3.0]
    assert [at_s for at_s, _ in second] == [0.5, 8.0]
    assert units(first[0][1].prompt)[:1024] == units(second[0][1].prompt)[:1024]


def test_speed_shrinks_time(mooncake):
    assert [at_s for at_s, _ in replayed(mooncake, speed=2.0)] == [0.0, 0.25, 1.5, 4.0]


def test_a_cut_out_begins_at_zero(mooncake):
    assert [at_s for at_s, _ in replayed(mooncake, start_s=0.5, length_s=3.0)] == [0.0, 2.5]


def test_a_repeated_cut_out_goes_on_where_it_ended(mooncake):
    times = [at_s for at_s, _ in replayed(mooncake, n=5, start_s=0.5, length_s=3.0, repeat=True)]
    assert times == [0.0, 2.5, 3.0, 5.5, 6.0]


def test_rows_over_the_context_are_left_out(mooncake):
    assert [request.max_tokens for _, request in replayed(mooncake, context_tokens=1200)] == [10, 30, 40]


def test_burstgpt_rows_are_read_and_failed_ones_are_bad(tmp_path):
    path = tmp_path / "burst.csv"
    path.write_text(
        "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
        "5,ChatGPT,472,18,490,Conversation log\n"
        "45,ChatGPT,1087,0,1087,Conversation log\n"
        "118,GPT-4,417,276,693,Conversation log\n"
    )
    assert [(at_s, each.input_tokens_requested, each.max_tokens) for at_s, each in replayed(path)] == [
        (0.0, 472, 18),
        (113.0, 417, 276),
    ]


@pytest.mark.parametrize("zone", ["", "+00:00"])
def test_azure_rows_are_read_with_and_without_a_zone(tmp_path, zone):
    path = tmp_path / "azure.csv"
    path.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        f"2023-11-16 18:15:46.6805900{zone},374,44\n"
        f"2023-11-16 18:16:50.9951690{zone},396,109\n"
    )
    (first_s, first), (second_s, second) = replayed(path)
    assert (first.input_tokens_requested, first.max_tokens) == (374, 44)
    assert (second.input_tokens_requested, second.max_tokens) == (396, 109)
    assert first_s == 0.0
    assert second_s == pytest.approx(64.314579, abs=1e-5)


@pytest.mark.parametrize(
    "row",
    [
        {"input_length": 5, "output_length": 5},
        {"timestamp": "x", "input_length": 5, "output_length": 5},
        {"timestamp": 1, "input_length": 0, "output_length": 5},
        {"timestamp": 1, "input_length": 5, "output_length": 5, "hash_ids": ["a"]},
        {"TIMESTAMP": "yesterday", "ContextTokens": "5", "GeneratedTokens": "5"},
        {"prompt": "hi"},
    ],
)
def test_a_row_without_what_it_needs_is_bad(row):
    with pytest.raises(BadRow):
        parse_row(row)


def test_a_row_without_hash_ids_is_all_its_own():
    row = {"timestamp": 27, "input_length": 5, "output_length": 6}
    assert parse_row(row) == TraceRow(at_s=0.027, input_tokens=5, output_tokens=6)
