"""Open-loop schedules: the process that was asked for, the same on all workers and split exactly."""

import math
import statistics
from itertools import pairwise

import pytest

from scenarios.pacing.arrivals import Stage, schedule, share


def gaps(due):
    return [later - earlier for earlier, later in pairwise(due)]


def variation(values):
    return statistics.stdev(values) / statistics.mean(values)


def kolmogorov_smirnov(values, distribution):
    """Largest distance between the values' distribution and the expected one."""
    ordered = sorted(values)
    n = len(ordered)
    return max(max(distribution(x) - i / n, (i + 1) / n - distribution(x)) for i, x in enumerate(ordered))


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_poisson_at_fifty_per_second_over_two_workers_is_poisson(seed):
    stages = [Stage(60, 50)]
    parts = [list(share(schedule(stages, seed), worker, 2)) for worker in range(2)]
    due = sorted(parts[0] + parts[1])
    between = gaps(due)
    assert statistics.mean(between) == pytest.approx(1 / 50, rel=0.05)
    assert variation(between) == pytest.approx(1.0, abs=0.1)
    # not rejected at the 1 % level: 1.63 / sqrt(n)
    distance = kolmogorov_smirnov(between, lambda gap: 1 - math.exp(-50 * gap))
    assert distance < 1.63 / math.sqrt(len(between))


def test_the_number_of_poisson_arrivals_varies_as_a_poisson_number_does():
    counts = [len(list(schedule([Stage(10, 20)], f"run {n}"))) for n in range(400)]
    assert statistics.mean(counts) == pytest.approx(200, rel=0.02)
    # rescaled to hit the total, the variance would be 0 instead of 200
    assert statistics.variance(counts) == pytest.approx(200, rel=0.25)


def test_constant_gaps_are_all_alike():
    assert list(schedule([Stage(20, 0.5)], "1", burstiness=None)) == [2.0 * n for n in range(10)]
    due = list(schedule([Stage(1000, 3)], "1", burstiness=None))
    assert len(due) == 3000
    assert due[-1] == pytest.approx(2999 / 3, abs=1e-9)  # nothing adds up over time


@pytest.mark.parametrize(("burstiness", "expected"), [(0.25, 2.0), (1.0, 1.0), (4.0, 0.5)])
def test_burstiness_is_the_shape_of_gamma_gaps(burstiness, expected):
    between = gaps(schedule([Stage(200, 50)], "1", burstiness))
    assert statistics.mean(between) == pytest.approx(1 / 50, rel=0.05)
    assert variation(between) == pytest.approx(expected, rel=0.1)  # 1 / sqrt(shape)


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_the_parts_of_all_workers_are_the_whole(workers):
    whole = list(schedule([Stage(5, 40)], "7"))
    parts = [list(share(schedule([Stage(5, 40)], "7"), worker, workers)) for worker in range(workers)]
    assert sorted(due for part in parts for due in part) == whole
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_another_seed_is_another_schedule():
    assert list(schedule([Stage(5, 40)], "7")) == list(schedule([Stage(5, 40)], "7"))
    assert list(schedule([Stage(5, 40)], "7")) != list(schedule([Stage(5, 40)], "8"))


def test_steps_follow_each_other_at_their_own_rates():
    due = list(schedule([Stage(10, 5), Stage(10, 20), Stage(10, 1)], "1", burstiness=None))
    counts = [sum(1 for each in due if begin <= each < begin + 10) for begin in (0, 10, 20)]
    assert counts == [50, 200, 10]
    assert due == sorted(due)


def test_a_ramp_grows_evenly():
    # from 0 to 20 per second in 10 s: t² expected arrivals after t seconds, so the n-th is due at sqrt(n)
    due = list(schedule([Stage(10, 0, 20)], "1", burstiness=None))
    assert due == pytest.approx([math.sqrt(n) for n in range(100)])


def test_a_ramp_down_ends_at_its_last_rate():
    # from 20 to 0 per second in 10 s: 100 arrivals, three quarters of them in the first half
    due = list(schedule([Stage(10, 20, 0)], "1", burstiness=None))
    assert len(due) == 100
    assert sum(1 for each in due if each < 5) == 75


def test_a_stage_without_arrivals_is_a_pause():
    due = list(schedule([Stage(1, 2), Stage(5, 0), Stage(1, 2)], "1", burstiness=None))
    assert due == [0.0, 0.5, 6.0, 6.5]
