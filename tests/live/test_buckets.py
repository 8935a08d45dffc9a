"""Log buckets: their error, their merging and what an empty one says."""

import random

import numpy as np
import pytest

from scenarios.live.buckets import BUCKETS, Histogram, bucket_numbers, bucket_value_ms, pack

VALUES_MS = np.array([0.0021, 0.5, 8.39, 12.5, 100.6, 575.0, 61_234.5, 3_600_000.0])


def filled(*parts: np.ndarray) -> Histogram:
    histogram = Histogram()
    for part in parts:
        histogram.add(pack(part))
    return histogram


@pytest.mark.parametrize("value_ms", VALUES_MS)
def test_a_value_comes_back_within_half_a_percent(value_ms):
    (number,) = bucket_numbers(np.array([value_ms]))
    assert bucket_value_ms(int(number)) == pytest.approx(value_ms, rel=0.005)


def test_percentiles_are_nearest_rank_like_the_reports():
    # 1..100 ms: the 50th value is 50, the 95th 95, the 99th 99
    found = filled(np.arange(1.0, 101.0)).percentiles_ms([50, 95, 99])
    assert found == [pytest.approx(value, rel=0.005) for value in (50, 95, 99)]


def test_one_value_is_every_percentile_and_none_is_no_data():
    assert filled(np.array([575.0])).percentiles_ms([1, 50, 99]) == [pytest.approx(575, rel=0.005)] * 3
    assert Histogram().percentiles_ms([50, 99]) == [None, None]


def test_what_workers_packed_apart_is_merged_as_if_one_had_seen_it_all():
    drawn = random.Random(4)
    values = np.array([drawn.lognormvariate(3, 1) for _ in range(5000)])
    apart, whole = filled(values[:1700], values[1700:]), filled(values)
    assert (apart.counts == whole.counts).all()
    assert apart.n == 5000
    assert apart.sum_ms == pytest.approx(float(values.sum()))


def test_zero_and_hours_have_a_place():
    zero_and_days = filled(np.array([0.0, 1e9]))
    assert zero_and_days.percentiles_ms([50]) == [0.0]
    assert zero_and_days.counts[BUCKETS - 1] == 1


def test_counts_up_to_a_bound_are_those_below_it():
    assert filled(np.array([1.0, 4.9, 20.0, 99.0])).counts_up_to([5, 50, 1000]) == [2, 3, 4]


def test_a_message_of_a_second_is_small():
    drawn = random.Random(1)
    numbers, counts, _ = pack(np.array([drawn.lognormvariate(2.5, 0.3) for _ in range(25_000)]))
    assert len(numbers) + len(counts) < 2000
