"""What the workers make of an announced level: together the whole of it, each its share."""

import pytest

from scenarios.pacing.announcement import Announcement, due_times, part_of, places
from scenarios.spec import LoadSpec

WORKERS = [0, 2, 5]


def announced(requested, workers=WORKERS, from_s=0.0):
    return Announcement("run", 3, requested, 2.0, 1000.0, 1000.0 + from_s, list(workers))


def first(due, until_s):
    found = []
    for at_s in due:
        if at_s >= until_s:
            break
        found.append(at_s)
    return found


def load(**keys):
    return LoadSpec(**{"mode": "rate", "rates": (10.0,), "ramp_s": 0.0, **keys})


def test_the_shares_of_all_workers_are_the_whole_schedule():
    whole = first(due_times(load(), 7, announced(10.0, [9]), 9), 20)
    parts = [first(due_times(load(), 7, announced(10.0), worker), 20) for worker in WORKERS]
    assert sorted(at_s for part in parts for at_s in part) == whole
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_the_rest_of_a_level_is_the_same_schedule_for_other_workers():
    before = [first(due_times(load(), 7, announced(10.0), worker), 5) for worker in WORKERS]
    after = [first(due_times(load(), 7, announced(10.0, [2, 5], from_s=5), worker), 20) for worker in (2, 5)]
    whole = first(due_times(load(), 7, announced(10.0, [9]), 9), 20)
    assert sorted(at_s for part in (*before, *after) for at_s in part) == whole


def test_a_ramp_goes_from_the_rate_before():
    # from 2 to 10 per second in 4 s: 24 arrivals; then 10 a second
    due = first(due_times(load(ramp_s=4.0, arrivals="constant"), 7, announced(10.0, [0]), 0), 6)
    assert sum(at_s < 4 for at_s in due) == 24
    assert len(due) == 24 + 20


def test_a_worker_that_is_not_named_has_nothing_to_do():
    assert list(due_times(load(), 7, announced(10.0), 1)) == []


def test_a_batch_is_split_exactly_and_all_due_at_once():
    batch = LoadSpec(mode="batch", requests=10)
    parts = [list(due_times(batch, 7, announced(10.0), worker)) for worker in WORKERS]
    assert [len(part) for part in parts] == [4, 3, 3]
    assert {at_s for part in parts for at_s in part} == {0.0}


@pytest.mark.parametrize(("total", "parts"), [(32, 32), (10, 4), (7, 3)])
def test_places_are_split_exactly(total, parts):
    shares = [part_of(total, place, parts) for place in range(parts)]
    assert sum(shares) == total
    assert max(shares) - min(shares) <= 1
    capped = load(max_in_flight=total)
    workers = list(range(parts))
    assert [places(capped, announced(10.0, workers), worker) for worker in workers] == shares


def test_without_a_cap_there_is_any_number_of_places():
    assert places(load(), announced(10.0), 0) is None
