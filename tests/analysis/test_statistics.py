"""Intervals, steady state and tails against synthetic data whose truth is known."""

import math
from statistics import NormalDist

import numpy as np
import pytest

import analysis
from analysis import intervals, metrics, schema, steady, tails, tokens
from analysis.tables import empty
from analysis.windows import Window

NORMAL = NormalDist()


def autocorrelated(seed, runs, length, phi=0.6):
    """Series of standard normal values in which each remembers `phi` of the one before, one row per run."""
    noise = np.random.default_rng(seed).normal(size=(runs, length + 100)) * math.sqrt(1 - phi * phi)
    noise[:, 0] /= math.sqrt(1 - phi * phi)
    for position in range(1, length + 100):
        noise[:, position] += phi * noise[:, position - 1]
    return noise[:, 100:]


def coverage(found, truth):
    return sum(interval.low <= truth <= interval.high for interval in found) / len(found)


def test_intervals_cover_the_truth_in_about_95_of_100_autocorrelated_runs():
    ttft = 100 * np.exp(0.5 * autocorrelated(1, 1000, 1000))  # skewed, as latencies are
    means = [intervals.mean_interval(run) for run in ttft]
    assert 0.93 <= coverage(means, 100 * math.exp(0.125)) <= 0.97
    for p in (50, 95):
        truth = 100 * math.exp(0.5 * NORMAL.inv_cdf(p / 100))
        assert 0.93 <= coverage([intervals.percentile_interval(run, p) for run in ttft], truth) <= 0.975, p


def test_the_interval_of_a_rate_covers_it_when_tokens_come_in_correlated_bursts():
    window = Window(1e9, 1e9 + 600)
    seconds = np.arange(600, dtype=np.float64) + 0.5 + 1e9
    rates = np.asarray(1000 + 200 * autocorrelated(2, 1000, 600), dtype=np.float64)
    assert 0.93 <= coverage([intervals.rate_interval(seconds, run, window) for run in rates], 1000) <= 0.97


def test_independence_would_have_been_too_sure():
    run = autocorrelated(3, 1, 1000, phi=0.9)[0]
    assert intervals.batch_error(run) > 2 * run.std(ddof=1) / math.sqrt(len(run))


def test_too_few_values_have_no_interval():
    values = np.linspace(1, 2, 39)
    assert intervals.mean_interval(values) is None
    assert intervals.percentile_interval(np.linspace(1, 2, 299), 95) is None  # fewer than 15 above
    assert intervals.percentile_interval(np.linspace(1, 2, 300)[np.random.default_rng(1).permutation(300)], 95)


def test_a_share_stays_between_0_and_1():
    interval = intervals.share_interval(np.ones(100))
    assert interval
    assert 0.9 < interval.low < interval.high == 1.0


@pytest.mark.parametrize(("degrees", "quantile"), [(5, 2.5706), (10, 2.2281), (19, 2.0930), (100, 1.9840)])
def test_the_t_quantile_is_that_of_the_tables(degrees, quantile):
    assert intervals.student_t(degrees) == pytest.approx(quantile, rel=0.002)


@pytest.mark.parametrize("shape", ["step", "ramp"])
def test_the_steady_part_begins_within_5_percent_of_the_change(shape):
    random, misses = np.random.default_rng(4), 0
    for _ in range(100):
        change = int(random.integers(10, 40))
        early = np.full(change, 300.0) if shape == "step" else np.linspace(50, 450, change)
        rate = random.poisson(np.concatenate([early, np.full(100 - change, 500.0)]))
        start, end = steady.steady_bins(rate.astype(float))
        misses += abs(start - change) > 5 or end != 100
    assert misses <= 5


def test_an_early_drain_is_trimmed():
    rate = np.random.default_rng(5).poisson(np.concatenate([np.full(80, 500.0), np.linspace(450, 10, 20)]))
    start, end = steady.steady_bins(rate.astype(float))
    assert (start, abs(end - 80) <= 5) == (0, True)


def test_a_short_burst_at_an_end_is_no_change():
    rate = np.full(100, 500.0)
    rate[:3], rate[98:] = 2000, 1500
    assert steady.steady_bins(rate + np.random.default_rng(9).normal(0, 10, 100)) == (0, 100)


def test_a_steady_run_is_left_whole():
    random = np.random.default_rng(6)
    runs = [random.poisson(500, 100).astype(float) for _ in range(100)]
    assert all(steady.steady_bins(run) == (0, 100) for run in runs)
    correlated = [500 + 50 * run for run in autocorrelated(7, 100, 100)]
    assert sum(steady.steady_bins(run) == (0, 100) for run in correlated) >= 90


def test_an_unsteady_level_is_suspect_and_says_what_the_steady_part_gives(build):
    run = build()
    run.level(requested=10, start_s=0, end_s=100)
    for second in range(100):
        count = 20 if second < 30 else 100
        run.request(second, [1 + 990 * token / count for token in range(count)])
    level = analysis.summarise(analysis.load(run.write())).levels[0]
    assert level.steady
    assert level.steady.trimmed_start_s == pytest.approx(30, abs=5)
    assert level.steady.output_tok_s == pytest.approx(100, rel=0.02)
    assert level.output_tok_s == pytest.approx(76)  # 30 s of 20 and 70 s of 100
    assert any("not steady" in reason.text for reason in level.verdict.reasons)


def summary_of(run):
    return analysis.summarise(analysis.load(run.write())).levels[0]


def test_stalls_are_counted_per_1000_tokens_and_the_longest_gap_by_request(build):
    run = build()
    run.level()
    run.request(0, [0, 10, 20, 520, 530])  # a gap of 500
    run.request(0, [0, 10, 30, 40, 50])
    found = summary_of(run).tails
    assert found.stalls_per_1k_tokens == 100.0  # one of ten tokens
    assert (found.longest_gap_ms.n, found.longest_gap_ms.min, found.longest_gap_ms.max) == (2, 20, 500)


def test_adjusted_tails_take_a_failure_for_an_endless_request(build):
    run = build()
    run.level()
    for _ in range(90):
        run.request(0, [100, 200])
    for _ in range(10):
        run.request(0, e2e_ms=2, error_class="http_503")
    found = summary_of(run).tails.ttft_adjusted_ms
    assert (found["p50"], found["p90"], found["p95"]) == (100, 100, math.inf)


def test_a_first_token_that_was_seen_counts_although_the_request_was_cut_off(build):
    run = build()
    run.level()
    run.request(0, [100, 200])
    run.request(0, [900], outcome="cut_off")
    found = summary_of(run).tails
    assert found.ttft_adjusted_ms["p99"] == 900
    assert found.e2e_adjusted_ms["p99"] == math.inf


@pytest.mark.parametrize(("values", "index"), [([5, 5, 5], 1.0), ([1, 0, 0, 0], 0.25), ([1, 3], 0.8)])
def test_fairness_is_jains_index(values, index):
    assert tails.jain(np.array(values, dtype=float)) == pytest.approx(index)  # (1 + 3)^2 / (2 * (1 + 9))


def test_a_worker_that_differs_is_named(build):
    run = build()
    run.level()
    random = np.random.default_rng(8)
    for number in range(120):
        worker = number % 3
        first = 100 + 5 * random.random() + (40 if worker == 1 else 0)
        run.request(0, [first, first + 20], worker=worker)
    level = summary_of(run)
    assert [worker.differs for worker in level.tails.workers][::2] == [None, None]
    assert str(level.tails.workers[1].differs).startswith("TTFT +3")
    assert any("worker 1 measures otherwise" in reason.text for reason in level.verdict.reasons)


def test_the_token_audit_sets_the_counts_side_by_side(build):
    run = build()
    run.level()
    good = {"output_tokens_requested": 4, "input_tokens_requested": 100, "finish_reason": "length"}
    run.request(0, [1, 2, 3], output_tokens=4, input_tokens=110, reasoning_tokens=1, cached_tokens=11, **good)
    run.request(0, [1, 2], output_tokens_source="estimated", **good | {"finish_reason": "stop"})
    audit = summary_of(run).tokens
    assert audit.sources == {"usage": 1, "estimated": 1}
    assert (audit.output_tokens, audit.output_tokens_requested, audit.token_events) == (6, 8, 5)
    assert audit.tokens_per_event == pytest.approx(4 / 3)  # counted answers only
    assert audit.early_stop_share == 0.5
    assert audit.reasoning_share == 0.25
    assert audit.input_off_share == pytest.approx(0.10)
    assert audit.cached_share == pytest.approx(0.1)
    assert audit.finish_reasons == {"length": 1, "stop": 1}


def test_an_audit_of_nothing_is_empty_and_not_zero_percent():
    nothing = empty(schema.REQUEST_COLUMNS)
    audit = tokens.audit(nothing)
    assert (audit.answers, audit.early_stop_share, audit.tokens_per_event) == (0, None, None)
    assert metrics.stats([]).n == 0


def test_late_dispatch_binds_the_client(build):
    run = build()
    run.level()
    for number in range(20):
        run.request(0, [100, 200], planned_ms=-50 if number < 2 else -1, started_ms=-0.5)
    reasons = summary_of(run).verdict.reasons
    assert reasons[0].severity == "client-bound"
    assert reasons[0].text == "10% of requests started more than 20 ms after their plan (up to 50 ms)"
