"""Datasets: what a row of each format becomes."""

import json

import pytest

from scenarios.spec import DatasetSpec, LengthSpec, WorkloadSpec
from scenarios.workload.dataset import parse_row
from scenarios.workload.planner import Workload
from scenarios.workload.rows import BadRow, WorkloadEnd


def workload(path, worker=0, workers=1, **spec):
    dataset = DatasetSpec(file=str(path), repeat=spec.pop("repeat", False))
    return Workload(WorkloadSpec(dataset=dataset, **spec), seed=1, worker=worker, workers=workers)


def write_lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_sharegpt_gives_the_first_question_and_the_length_of_its_answer(tmp_path):
    path = tmp_path / "sharegpt.json"
    conversation = [
        {"from": "system", "value": "be nice"},
        {"from": "human", "value": "How are you?"},
        {"from": "gpt", "value": "I am fine, thank you."},
        {"from": "human", "value": "Good."},
    ]
    path.write_text(json.dumps([{"id": "1", "conversations": conversation}]))
    request = workload(path).next_request()
    assert request.prompt == "How are you?"
    assert request.max_tokens == 7  # I am fine , thank you .
    assert request.length_class == "up to 128"
    assert request.input_tokens_requested is None  # nobody has counted it


def test_an_openai_batch_row_keeps_its_body_but_not_the_model_or_the_streaming(tmp_path):
    body = {
        "model": "gpt-4o",
        "stream": False,
        "messages": [{"role": "user", "content": "hi"}],
        "max_completion_tokens": 9,
        "temperature": 0.2,
        "tools": [],
    }
    row = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": body}
    request = workload(write_lines(tmp_path / "batch.jsonl", [row]), extra_body={"seed": 3}).next_request()
    assert request.messages == [{"role": "user", "content": "hi"}]
    assert request.max_tokens == 9
    assert request.extra_body == {"seed": 3, "temperature": 0.2, "tools": []}


def test_plain_rows_have_a_prompt_or_messages_and_maybe_a_length(tmp_path):
    rows = [{"prompt": "one two", "max_tokens": 5}, {"messages": [{"role": "user", "content": "three"}]}]
    source = workload(write_lines(tmp_path / "a.jsonl", rows), output=LengthSpec(tokens=33))
    first, second = source.next_request(), source.next_request()
    assert (first.prompt, first.messages, first.max_tokens) == ("one two", None, 5)
    assert (second.prompt, second.max_tokens) == ("three", 33)
    assert second.messages == [{"role": "user", "content": "three"}]


def test_csv_rows_have_a_prompt_and_maybe_a_length(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('prompt,max_tokens\n"one, two",5\nthree,\n')
    source = workload(path, output=LengthSpec(tokens=33))
    assert [(each.prompt, each.max_tokens) for each in (source.next_request(), source.next_request())] == [
        ("one, two", 5),
        ("three", 33),
    ]


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        ({"question": "hi"}, "no prompt"),
        ({"prompt": "  "}, "no prompt"),
        ({"prompt": 5}, "no prompt"),
        ({"messages": []}, "no prompt"),
        ({"messages": ["hi"]}, "messages is no list of objects with a role"),
        ({"prompt": "hi", "max_tokens": 0}, "max_tokens is no length: found '0'"),
        ({"prompt": "hi", "max_tokens": -1}, "max_tokens is no length: found '-1'"),
        ({"prompt": "hi", "max_tokens": "many"}, "max_tokens is no length: found 'many'"),
        ({"prompt": "hi", "max_tokens": 2.5}, "max_tokens is no length: found '2.5'"),
        ({"conversations": []}, "no question with an answer"),
        ({"conversations": [{"from": "gpt", "value": "hi"}]}, "no question with an answer"),
        ({"body": "hi"}, "body is no JSON object"),
    ],
)
def test_a_row_without_what_it_needs_is_bad(row, fault):
    with pytest.raises(BadRow, match=fault):
        parse_row(row)


def test_rows_that_do_not_fit_the_context_are_left_out_and_counted(tmp_path):
    rows = [{"prompt": "word " * n, "max_tokens": 50} for n in (40, 60, 50, 51)]
    source = workload(write_lines(tmp_path / "a.jsonl", rows), context_tokens=100)
    assert [len(source.next_request().prompt.split()) for _ in range(2)] == [40, 50]
    with pytest.raises(WorkloadEnd, match="all 2 rows are sent"):
        source.next_request()
    assert source.counts()["rows_left_out"] == 2


def test_no_usable_row_ends_with_the_filter_and_the_counts(tmp_path):
    source = workload(write_lines(tmp_path / "a.jsonl", [{"prompt": "a b c", "max_tokens": 8}] * 5), context_tokens=10)
    with pytest.raises(WorkloadEnd, match="usable 0 of 5: 5 over context_tokens = 10"):
        source.next_request()


def test_workers_send_disjoint_rows(tmp_path):
    path = write_lines(tmp_path / "a.jsonl", [{"prompt": f"p{n}"} for n in range(5)])
    sent = []
    for worker in range(2):
        source = workload(path, worker, workers=2)
        with pytest.raises(WorkloadEnd):
            while True:
                sent.append(source.next_request().prompt)
    assert sent == ["p0", "p2", "p4", "p1", "p3"]


def test_the_scenarios_system_prompt_leads_unless_the_row_has_its_own(tmp_path):
    own = [{"role": "system", "content": "own"}, {"role": "user", "content": "hi"}]
    rows = [{"prompt": "hi"}, {"messages": own}]
    source = workload(write_lines(tmp_path / "a.jsonl", rows), system_prompt="Be brief.")
    assert source.next_request().messages == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "hi"},
    ]
    assert source.next_request().messages == own
