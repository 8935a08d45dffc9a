"""Levels: what counts where, rates over the window, and what is said where there is nothing to count."""

import json
import math

import pytest

import analysis
from analysis import export


def summary(run):
    return analysis.summarise(analysis.load(run.write()))


def test_outcomes_are_all_shown_and_sum_up_to_started(build):
    run = build()
    run.level()
    run.request(0, [100, 200])
    run.request(0, error_class="http_503")
    run.request(0, error_class="http_503")
    run.request(0, error_class="truncated_stream", outcome="failure")
    run.request(0, outcome="empty")
    run.request(0, [50], outcome="cut_off")
    counts = summary(run).levels[0].counts
    assert (counts.started, counts.success, counts.failure, counts.empty, counts.cut_off) == (6, 1, 3, 1, 1)
    assert counts.failures == {"http_503": 2, "truncated_stream": 1}


def test_fast_failures_do_not_make_latency_better(build):
    run = build()
    run.level()
    for _ in range(60):
        run.request(0, e2e_ms=2, error_class="http_503")
    for _ in range(40):
        run.request(0, [900, 1000])
    level = summary(run).levels[0]
    assert level.latencies.e2e_ms.p50 == 1000
    assert level.latencies.e2e_ms.mean == 1000
    assert level.counts.failure / level.counts.started == 0.6


def test_only_requests_sent_in_the_measure_phase_count(build):
    run = build()
    run.level()
    run.request(-1, [9000, 9100], phase="warmup")
    run.request(0, [100, 200])
    run.request(10.5, [7000, 7100], phase="tail")
    level = summary(run).levels[0]
    assert (level.counts.started, level.latencies.ttft_ms.max) == (1, 100)


def test_throughput_counts_the_tokens_that_arrived_in_the_window_whoever_sent_them(build):
    run = build()
    run.level(start_s=0, end_s=10)
    run.request(-1, [500, 900, 1100, 1200], phase="warmup")  # two arrive before the window, two inside
    run.request(9, [500, 999, 1000, 2000])  # two inside; the window's end is outside
    run.request(5, [100, 200, 300], outcome="cut_off")  # three inside
    run.request(5, [100, 200], outcome="failure", error_class="truncated_stream")  # output of a failure is left out
    assert summary(run).levels[0].output_tok_s == pytest.approx(0.7)  # 2 + 2 + 3 tokens in 10 s


def test_finished_and_cut_off_requests_give_their_tokens(build):
    run = build()
    run.level(start_s=0, end_s=10)
    for number in range(10):
        run.request(number * 0.5, [10 * i for i in range(1, 101)])
        run.request(number * 0.5, [10 * i for i in range(1, 61)], outcome="cut_off")
    assert summary(run).levels[0].output_tok_s == pytest.approx(160.0)  # (10 * 100 + 10 * 60) / 10 s


def test_several_tokens_in_an_event_weigh_as_such(build):
    run = build()
    run.level(start_s=0, end_s=10)
    run.request(0, [100, 200], event_tokens=[3, 4])
    run.request(0, [100, 200], output_tokens=20)  # 10 each
    found = summary(run)
    assert found.levels[0].output_tok_s == pytest.approx(2.7)  # (7 + 20) / 10 s
    assert found.chunked


def test_total_throughput_adds_the_prompts_whose_first_token_arrived(build):
    run = build()
    run.level(start_s=0, end_s=10)
    run.request(0, [100, 200], input_tokens=500)
    run.request(9.95, [100, 200], input_tokens=800)  # its first token comes after the window
    assert summary(run).levels[0].total_tok_s == pytest.approx(50.2)  # (500 + 2) / 10 s


def test_requests_per_second_counts_successes_by_their_end(build):
    run = build()
    run.level(start_s=0, end_s=10)
    run.request(-1, [500, 1500], phase="warmup")  # ends inside
    run.request(9, [500, 900])  # ends inside
    run.request(9, [500, 1100])  # ends after
    assert summary(run).levels[0].requests_s == pytest.approx(0.2)


def test_achieved_concurrency_is_the_time_average_of_requests_in_flight(build):
    run = build()
    run.level(requested=2, start_s=0, end_s=10)
    run.request(-5, [1000, 10_000], phase="warmup")  # 5 s inside
    run.request(2, [1000, 4000])  # 4 s inside
    run.request(8, [1000, 9000])  # 2 s inside
    run.request(3, e2e_ms=1000, error_class="http_500")  # 1 s inside
    assert summary(run).levels[0].achieved_concurrency == pytest.approx(1.2)  # 12 s / 10 s


def test_tokens_per_user_and_1000_tokens_come_from_the_means(build):
    run = build()
    run.level()
    run.request(0, [100, 120, 140])  # TPOT 20
    run.request(0, [200, 230, 260])  # TPOT 30
    level = summary(run).levels[0]
    assert level.tok_s_per_user == 40.0  # 1000 / 25
    assert level.time_to_1000_tokens_ms == 150 + 999 * 25


def test_an_undefined_tpot_stays_out_of_the_mean(build):
    run = build()
    run.level()
    for tpot in (20, 22, 18):
        run.request(0, [100, 100 + tpot])
    run.request(0, [100])
    tpot = summary(run).levels[0].latencies.tpot_ms
    assert (tpot.n, tpot.mean) == (3, 20.0)


def test_each_length_class_has_its_own_figures_in_the_order_of_length(build):
    run = build()
    run.level()
    run.request(0, [300, 310], length_class="2048", input_tokens_requested=2048, input_tokens=2050)
    run.request(0, [50, 60], length_class="128", input_tokens_requested=128, input_tokens=130)
    run.request(0, error_class="http_500", length_class="128", input_tokens_requested=128)
    short, long = summary(run).levels[0].classes
    assert (short.name, short.counts.started, short.latencies.ttft_ms.mean, short.input_tokens) == ("128", 2, 50, 130)
    assert (long.name, long.latencies.ttft_ms.mean, long.input_tokens_requested) == ("2048", 300, 2048)


def test_a_long_level_is_cut_into_windows(build):
    run = build()
    run.info["scenario"]["report"] = {"window_s": 300}
    run.level(start_s=0, end_s=700)
    run.request(0, [100, 200])
    run.request(299, [2000, 3000])  # sent in the first window, its tokens arrive in the second
    run.request(600, [400, 500])
    first, second, third = summary(run).levels[0].windows
    assert [part.counts.started for part in (first, second, third)] == [2, 0, 1]
    assert [part.seconds for part in (first, second, third)] == [300, 300, 100]
    assert second.output_tok_s == pytest.approx(2 / 300)
    assert second.ttft_ms.p50 is None  # no data, not 0
    assert third.ttft_ms.p50 == 400


def test_without_token_rows_tokens_are_spread_between_first_and_last(build):
    run = build()
    run.level(start_s=0, end_s=10)
    run.request(9, [500, 600, 700, 800, 900, 1500], level=1)
    folder = run.write()
    (folder / "tokens.csv").unlink()
    found = analysis.summarise(analysis.load(folder))
    assert found.spread_tokens
    assert found.levels[0].output_tok_s == pytest.approx(0.3)  # at 500, 700 and 900 ms; 1100 is outside


def test_a_level_that_only_the_requests_know_is_derived_and_noted(build):
    run = build()
    run.request(0, [100, 1000], level=3)
    run.request(1, [100, 1000], level=3)
    level = summary(run).levels[0]
    assert (level.level, level.window_s) == (3, 2.0)
    assert any("window is derived" in reason.text for reason in level.verdict.reasons)


@pytest.mark.parametrize("failures", [0, 3])
def test_an_empty_or_all_failed_run_gives_counts_and_no_metric(build, failures):
    run = build()
    run.slo(ttft_ms=100)
    run.level()
    for _ in range(failures):
        run.request(0, error_class="connect_refused", error_text="nobody listens")
    found = summary(run)
    level = found.levels[0]
    assert (level.counts.started, level.latencies.ttft_ms.n, level.latencies.ttft_ms.mean) == (failures, 0, None)
    assert found.answer.startswith("No request succeeded")
    assert level.meets_slo is (False if failures else None)
    assert found.verdict.status == "suspect"


def test_a_stop_before_the_measure_phase_gives_no_rate(build):
    run = build()
    run.level(measure_start_unix_s="", measure_end_unix_s="", tail_end_unix_s="", complete="false")
    run.request(0, [10, 20], phase="ramp")
    level = summary(run).levels[0]
    assert (level.window_s, level.output_tok_s, level.achieved_concurrency) == (None, None, None)


def test_the_json_holds_null_for_what_is_absent_and_never_nan(build):
    run = build()
    run.level(measure_start_unix_s="", measure_end_unix_s="")
    run.info["options"] = {"odd": math.inf}
    text = export.to_json(summary(run))
    assert "NaN" not in text
    assert "Infinity" not in text
    assert json.loads(text)["levels"][0]["window_s"] is None


def test_times_carry_their_zone(build):
    run = build()
    run.info |= {"started_unix_s": 1714215600, "ended_unix_s": 1714215660.5}
    found = summary(run)
    assert (found.started, found.ended, found.duration_s) == ("2024-04-27T11:00:00Z", "2024-04-27T11:01:00Z", 60.5)
