"""Lengths and shares: what is drawn is what the scenario asked for."""

import statistics
from collections import Counter
from random import Random

import pytest

from scenarios.spec import LengthSpec
from scenarios.workload.lengths import LengthSampler, WeightedChoice

N = 10_000


def drawn(spec: LengthSpec, limit: int | None = None) -> tuple[list[int], LengthSampler]:
    sampler = LengthSampler(spec, Random(1))
    return [sampler.draw(limit) for _ in range(N)], sampler


def test_a_fixed_length_never_differs():
    lengths, sampler = drawn(LengthSpec(tokens=256))
    assert set(lengths) == {256}
    assert sampler.cut == 0


def test_uniform_reaches_both_its_ends_and_nothing_beyond():
    lengths, _ = drawn(LengthSpec(distribution="uniform", min=10, max=20))
    assert set(lengths) == set(range(10, 21))
    assert statistics.mean(lengths) == pytest.approx(15, abs=0.2)


def test_normal_has_its_mean_and_deviation():
    lengths, sampler = drawn(LengthSpec(distribution="normal", mean=500, stddev=50))
    assert statistics.mean(lengths) == pytest.approx(500, rel=0.01)
    assert statistics.stdev(lengths) == pytest.approx(50, rel=0.05)
    assert sampler.cut == 0


def test_a_wide_normal_never_goes_below_one_and_says_how_much_was_cut():
    lengths, sampler = drawn(LengthSpec(distribution="normal", mean=10, stddev=20))
    assert min(lengths) == 1
    # P(rounded < 1) = P(z < (0.5 - 10) / 20) = P(z < -0.475) = 31.7 %
    assert sampler.cut / sampler.drawn == pytest.approx(0.317, abs=0.02)


def test_lognormal_by_median_has_that_median():
    lengths, _ = drawn(LengthSpec(distribution="lognormal", median=200, sigma=0.8))
    assert statistics.median(lengths) == pytest.approx(200, rel=0.03)


def test_lognormal_by_mean_has_that_mean():
    lengths, _ = drawn(LengthSpec(distribution="lognormal", mean=300, sigma=0.5))
    assert statistics.mean(lengths) == pytest.approx(300, rel=0.03)


def test_bounds_cut_and_are_counted():
    lengths, sampler = drawn(LengthSpec(distribution="normal", mean=100, stddev=50, min=80, max=120))
    assert (min(lengths), max(lengths)) == (80, 120)
    # outside of 79.5 to 120.5 of a normal(100, 50): 2 * P(z > 0.41) = 68.2 %
    assert sampler.cut / sampler.drawn == pytest.approx(0.682, abs=0.02)


def test_a_limit_cuts_too():
    lengths, sampler = drawn(LengthSpec(tokens=32758), limit=32368)
    assert set(lengths) == {32368}
    assert sampler.cut == N


def test_shares_are_close_at_any_time():
    choice = WeightedChoice([0.5, 0.3, 0.2], Random(1))
    counts: Counter[int] = Counter()
    for n in range(1, 5001):
        counts[choice.next()] += 1
        if n >= 50:
            for index, weight in enumerate([0.5, 0.3, 0.2]):
                # independent draws would be off by 0.2 (3 sigma at n = 50)
                assert counts[index] / n == pytest.approx(weight, abs=5 / n)


def test_a_weight_of_zero_is_never_chosen():
    choice = WeightedChoice([0.0, 1.0, 0.0], Random(1))
    assert {choice.next() for _ in range(1000)} == {1}
