"""Open loop: latencies count from the plan, and arrivals that were never sent are not forgotten."""

import math

import pytest

import analysis
from analysis import report_text
from analysis.html import page


@pytest.fixture
def run(build):
    made = build()
    made.slo(ttft_ms=200, attainment=0.5)
    made.level(1, 0.5, 0, 20, mode="rate", planned=10, dropped=2, missed=1)
    for number in range(7):  # answered in 100 ms, but the later ones waited in the client before they were sent
        waited = 0 if number < 4 else 300
        made.request(2 * number, [100, 110, 120], planned_ms=-waited, started_ms=-0.1)
    return made


def level_of(run):
    return analysis.summarise(analysis.load(run.write())).levels[0]


def test_the_headline_ttft_counts_from_the_plan_and_both_are_kept(run):
    level = level_of(run)
    assert level.latencies.ttft_ms.max == 100
    assert level.headline_ttft_ms.max == 400
    assert level.headline_ttft_ms.mean == pytest.approx((4 * 100 + 3 * 400) / 7)


def test_an_arrival_that_was_never_sent_misses_the_slo_and_takes_for_ever(run):
    level = level_of(run)
    assert (level.planned, level.dropped, level.missed, level.counts.started) == (10, 2, 1, 7)
    assert level.slo_attainment == 0.4  # four of ten: three waited too long, three were never sent
    assert level.meets_slo is False
    assert level.tails.ttft_adjusted_ms["p50"] == 100
    assert level.tails.ttft_adjusted_ms["p90"] == math.inf


def test_unsent_arrivals_and_late_starts_are_said(run):
    verdict = level_of(run).verdict
    texts = " | ".join(reason.text for reason in verdict.reasons)
    assert verdict.status == "client-bound"
    assert "3 of 10 arrivals were not sent: 2 dropped, 1 missed" in texts
    assert "43% of requests started more than 20 ms after their plan" in texts


def test_a_rate_that_was_not_held_is_suspect(run):
    run.rows["levels.csv"][0] |= {"requested": 50}
    texts = [reason.text for reason in level_of(run).verdict.reasons]
    assert "50 requests/s asked for, 0.5 arrived" in texts


def test_no_verdict_on_concurrency_where_none_was_asked_for(run):
    assert not any("concurrency" in reason.text for reason in level_of(run).verdict.reasons)


def test_the_report_names_the_load_by_its_kind(run, capsys):
    loaded = analysis.load(run.write())
    summary = analysis.summarise(loaded)
    report_text.print_summary(summary)
    text = capsys.readouterr().out
    assert "0.5/s" in text
    assert all(word in text for word in ("planned", "dropped", "missed", "TTFT from plan"))
    html = page.render_page(loaded, summary)
    assert "At 0.5 requests/s" in html
    assert "TTFT counts from the planned arrival." in html
    assert "每秒 0.5 个请求 时" in page.render_page(loaded, summary, "zh")


def test_the_answer_is_in_requests_per_second(run):
    run.slo(ttft_ms=500, attainment=0.5)
    answer = analysis.summarise(analysis.load(run.write())).answer
    assert answer.startswith("Up to 0.5 requests/s under TTFT ≤ 500 ms")


@pytest.mark.parametrize(("mode", "label"), [("trace", "trace ×0.5"), ("batch", "batch of 0.5"), ("manual", "0.5")])
def test_other_kinds_of_load_have_their_names(run, mode, label):
    run.rows["levels.csv"][0] |= {"mode": mode}
    assert level_of(run).label == label


def test_a_rate_that_was_not_reached_is_marked_with_both_rates_and_the_lag(build):
    # 10 due in 10 s, but a place is free only every 2 s: five are sent meanwhile, ever later, the others after it
    made = build()
    made.level(1, 1, 0, 10, mode="rate", planned=10, dropped=0, missed=0)
    for number in range(10):
        made.request(2 * number, [100, 110], planned_ms=-1000 * number, started_ms=-0.1)
    level = level_of(made)
    assert level.schedule is not None
    assert (level.schedule.due, level.schedule.due_s, level.schedule.sent_s) == (10, 1.0, 0.5)
    assert level.schedule.reached is False
    (text,) = [reason.text for reason in level.verdict.reasons if "rate not reached" in reason.text]
    assert text == (
        "rate not reached: 1 requests/s asked for, 0.5 sent; starts lag behind the plan by 4,000 ms (p50), 9,000 ms (p99)"
    )
    assert level.latencies.e2e_from_plan_ms.max == level.latencies.e2e_ms.max + 9000


def test_waiting_below_a_cap_on_requests_in_flight_is_not_the_clients_fault(build):
    made = build()
    made.info["scenario"] = {"load": {"max_in_flight": 1}}
    made.level(1, 1, 0, 10, mode="rate", planned=10, dropped=0, missed=0)
    for number in range(10):
        made.request(number + 0.5, [100, 110], planned_ms=-500, started_ms=-0.1)
    level = level_of(made)
    assert level.schedule is not None
    assert level.schedule.reached is True
    assert level.verdict.status == "suspect"
    assert any("load.max_in_flight" in reason.advice for reason in level.verdict.reasons)


def test_a_batch_is_reported_by_its_throughput(build, capsys):
    made = build()
    made.level(1, 4, 0, 2, mode="batch", planned=4, dropped=0, missed=0)
    for number in range(4):
        made.request(0.1 * number, [500, 600, 1500], planned_ms=-100 * number, started_ms=-0.1)
    summary = analysis.summarise(analysis.load(made.write()))
    assert not any("after their plan" in reason.text for reason in summary.levels[0].verdict.reasons)
    report_text.print_summary(summary)
    text = capsys.readouterr().out
    assert "Offline batch" in text
    assert "TTFT" not in text


def test_a_search_is_answered_with_its_confidence(build):
    made = build()
    made.slo(ttft_ms=200, attainment=0.95)
    for number, load in enumerate((4, 6, 6, 7), start=1):
        made.level(number, load, 10 * number, 10 * number + 5)
        made.request(10 * number + 1, [100, 110], level=number)
    tried = [{"level": load, "share": 1.0, "runs": [[1, 1]]} for load in (4, 6, 7)]
    tried[1]["runs"] = [[1, 1], [1, 1]]
    made.info["search"] = {
        "over": "concurrency", "level": 6, "confidence": 0.97, "at_limit": False, "finished": True, "tried": tried
    }  # fmt: skip
    summary = analysis.summarise(analysis.load(made.write()))
    assert summary.answer == (
        "The highest load that keeps TTFT ≤ 200 ms for 95 % of requests is 6 concurrent requests "
        "(confidence 97%, 4 runs of 3 levels)."
    )
    assert summary.best_level == 2
