"""What is sent, in whole runs: datasets split over workers, conversations, exact lengths, prompts that never repeat."""

import json
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import pytest

from scenarios.engine.embedded import start_embedded_engine
from tests.support.locust_run import run

DEFAULT_MIX = {"workload.inputs": "128:0.5,512:0.3,2048:0.2"}  # quick runs set another one
FAST = {"engine.practice": '["--speed", "10", "--prefix-caching"]'}


def cached_share(rows):
    return sum(int(row["cached_tokens"] or 0) for row in rows) / sum(int(row["input_tokens"]) for row in rows)


def write_rows(folder, rows):
    path = folder / "rows.jsonl"
    path.write_text("".join(row if isinstance(row, str) else json.dumps(row) + "\n" for row in rows))
    return str(path)


def test_two_workers_send_each_row_of_a_dataset_once_and_the_run_ends_with_it(tmp_path):
    rows = [{"prompt": f"question {n}", "max_tokens": 10 + n} for n in range(40)]
    path = write_rows(tmp_path, [*rows[:20], "{broken\n", *rows[20:]])
    settings = {**FAST, **DEFAULT_MIX, "workload.dataset.file": path, "load.measure_s": "60"}
    finished = run(tmp_path, "--processes", "2", settings=settings)
    assert finished.code == 0, finished.output
    sent = sorted(int(row["output_tokens_requested"]) for row in finished.rows("requests.csv"))
    assert sent == list(range(10, 50))
    assert finished.run["stopped_by"] == "workload_end"
    assert [row["complete"] for row in finished.rows("levels.csv")] == ["true"]
    assert sum(worker["workload"]["rows_bad"] for worker in finished.run["workers"]) == 1
    assert "rows.jsonl row 21 left out: no JSON object" in finished.output
    assert "Nothing more to send: " in finished.output


def test_a_dataset_without_usable_rows_ends_before_the_first_request(tmp_path):
    path = write_rows(tmp_path, [{"question": "?"}] * 5)
    finished = run(tmp_path, settings={**FAST, **DEFAULT_MIX, "workload.dataset.file": path})
    assert finished.code == 2
    assert "usable 0 of 5: 5 no prompt" in finished.output
    assert "Traceback" not in finished.output
    assert not (tmp_path / "runs").exists()


def test_every_prompt_has_the_asked_number_of_tokens_by_the_engines_count(tmp_path):
    finished = run(tmp_path, settings={**FAST, "workload.inputs": "16:1,100:1,700:1", "load.measure_s": "1"})
    rows = finished.rows("requests.csv")
    assert {row["length_class"] for row in rows} == {"16", "100", "700"}
    assert all(row["input_tokens"] == row["input_tokens_requested"] for row in rows)
    assert finished.run["calibration"]["source"] == "tokenize"


def test_later_turns_carry_the_history_and_are_a_class_of_their_own(tmp_path):
    settings = {**FAST, "workload.conversation.turns.tokens": "3", "workload.inputs": "100"}
    finished = run(tmp_path, settings=settings)
    rows = [row for row in finished.rows("requests.csv") if row["outcome"] == "success"]
    first = [row for row in rows if row["length_class"] == "turn 1"]
    later = [row for row in rows if row["length_class"] == "turn 2+"]
    assert len(later) == pytest.approx(2 * len(first), abs=4)
    assert {int(row["input_tokens"]) for row in first} == {100}
    # a turn adds the answer of 20 and the question of 100, and 4 or 8 around them
    assert Counter(int(row["input_tokens"]) // 100 for row in later).keys() == {2, 3}
    assert cached_share(later) > 0.4
    assert cached_share(first) < 0.01


def test_a_second_run_does_not_measure_the_first_ones_cache_unless_its_seed_is_set(tmp_path):
    def second_of_two(name, **settings):
        engine = start_embedded_engine(["--speed", "10", "--prefix-caching"])
        try:
            for number, measure_s in enumerate(("2", "1")):
                line = {"workload.inputs": "256", "load.measure_s": measure_s, "load.levels": "1", **settings}
                finished = run(tmp_path / f"{name}-{number}", "--host", engine.url, settings=line)
            return finished
        finally:
            engine.stop()

    with ThreadPoolExecutor() as pool:
        drawn, fixed = pool.submit(second_of_two, "drawn"), pool.submit(second_of_two, "fixed", seed="7")
    assert cached_share(drawn.result().rows("requests.csv")) < 0.01
    assert "prefix cache" not in drawn.result().output
    # whole blocks of 16, and never the last token: 240 of 256
    assert cached_share(fixed.result().rows("requests.csv")) > 0.9
    assert "94% of prompt tokens came from the prefix cache" in fixed.result().output
