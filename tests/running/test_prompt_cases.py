"""Prompts of whole runs, as the server sees them: distinct ones unless the scenario repeats them, and that is told."""

import pytest

from tests.support.played import END, Played, Script, play_all, small_event
from tests.support.scripted_server import Answer

QUICK = Answer([(10, small_event("t")), (0, END)])
A_HUNDRED = {"load.measure_s": "0", "load.measure_requests": "100"}


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    made_up = Script(QUICK, users=4, settings=A_HUNDRED)
    few_rows = Script(QUICK, users=4, requests=5, settings={"workload.dataset.repeat": "true", **A_HUNDRED})
    return play_all(tmp_path_factory.mktemp("prompts"), {"made up": made_up, "few rows": few_rows})


def prompts(run: Played) -> list[str]:
    return [seen.json["messages"][0]["content"] for seen in run.chats]


def counted(run: Played) -> tuple[int, int]:
    (worker,) = run.finished.run["workers"]
    return worker["workload"]["prompts"], worker["workload"]["prompts_repeated"]


def test_made_up_prompts_are_distinct(played):
    run = played["made up"]
    sent = prompts(run)
    assert len(sent) >= 100
    assert len(set(sent)) == len(sent)
    assert counted(run) == (len(sent), 0)
    assert "had been sent before" not in run.finished.output


def test_a_dataset_that_begins_again_is_told_to_repeat_itself(played):
    run = played["few rows"]
    sent = prompts(run)
    assert counted(run) == (len(sent), len(sent) - 5)
    share = (len(sent) - 5) / len(sent)
    assert f"{share:.0%} of prompts had been sent before in this run" in " ".join(run.finished.output.split())
