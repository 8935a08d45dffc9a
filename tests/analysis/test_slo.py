"""SLO and goodput of a level, and the highest level that meets it."""

import pytest

import analysis


def summary(run):
    return analysis.summarise(analysis.load(run.write()))


def test_a_request_meets_the_slo_only_with_every_limit_and_a_failure_is_a_miss(build):
    run = build()
    run.slo(ttft_ms=100, tpot_ms=20, attainment=0.5)
    run.level(start_s=0, end_s=10)
    run.request(0, [100, 120])  # meets both, on the limit
    run.request(0, [50])  # has no TPOT: no miss
    run.request(0, [101, 110])  # TTFT missed
    run.request(0, [50, 80])  # TPOT missed
    run.request(0, error_class="http_500")
    run.request(0, [50, 60], outcome="cut_off")
    level = summary(run).levels[0]
    assert level.slo_attainment == pytest.approx(2 / 6)
    assert level.goodput_requests_s == pytest.approx(0.2)
    assert level.meets_slo is False


def test_attainment_is_95_percent_when_the_scenario_does_not_say(build):
    run = build()
    run.slo(ttft_ms=100)
    run.level()
    for number in range(20):
        run.request(0, [50 if number else 500, 600])
    assert summary(run).levels[0].meets_slo is True  # 19 of 20


def sweep(build, ttft_by_concurrency):
    run = build()
    run.slo(ttft_ms=100)
    for number, (concurrency, ttft) in enumerate(ttft_by_concurrency.items(), 1):
        run.level(number, concurrency, number * 20, number * 20 + 10)
        run.request(number * 20, [ttft, ttft + 50], level=number)
    return summary(run)


def test_the_highest_level_that_meets_the_slo_is_named_in_the_answer(build):
    found = sweep(build, {1: 50, 8: 100, 32: 101})
    assert found.best_level == 2
    assert found.answer.startswith("Up to 8 concurrent requests under TTFT ≤ 100 ms for 95 % of requests")


def test_a_miss_below_the_best_level_is_told(build):
    assert "(Missed at 1, which is lower: look there.)" in sweep(build, {1: 150, 8: 50}).answer


def test_no_level_within_the_slo_is_said_plainly(build):
    found = sweep(build, {1: 150, 8: 200})
    assert (found.best_level, found.answer) == (None, "No level meets the SLO TTFT ≤ 100 ms for 95 % of requests.")
