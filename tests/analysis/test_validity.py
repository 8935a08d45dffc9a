"""The verdict: each finding on a run that has it, and none on a sound one."""

import pytest

import analysis


def sound(build, requests=100):
    run = build()
    run.info["scenario"]["workload"] = {"ignore_eos": True}
    run.level(requested=1, start_s=0, end_s=10)
    for number in range(requests):
        run.request(
            number * 10 / requests,
            [40, 10_000 / requests],
            input_tokens_requested=100,
            input_tokens=101,
            cached_tokens=0,
            output_tokens_requested=2,
        )
    for second in range(1, 10):
        run.health(second)
    return run


def judged(run):
    found = analysis.summarise(analysis.load(run.write()))
    return found.levels[0].verdict, found.verdict


def change(run, share, **cells):
    rows = run.rows["requests.csv"]
    for row in rows[: round(share * len(rows))]:
        row.update(cells)


def test_a_sound_run_is_valid_without_a_word(build):
    level, whole = judged(sound(build))
    assert (level.status, level.reasons) == ("valid", ())
    assert (whole.status, whole.reasons) == ("valid", ())


@pytest.mark.parametrize(
    ("share", "cells", "said"),
    [
        (0.1, {"output_tokens_source": "estimated"}, "estimated from events"),
        (0.1, {"output_tokens_requested": 9}, "shorter than asked"),
        (0.1, {"last_token_ms": 40}, "in one burst"),
        (0.5, {"cached_tokens": 50}, "prefix cache"),
        (1.0, {"input_tokens": 118}, "18% longer by the server's count"),
        (0.1, {"outcome": "failure", "error_class": "http_500"}, "gave no complete answer"),
        (1.0, {"reads": 10, "coalesced_reads": 3}, "30% of reads held several segments"),
    ],
)
def test_a_level_is_suspect_when(build, share, cells, said):
    run = sound(build)
    change(run, share, **cells)
    level, whole = judged(run)
    assert level.status == "suspect"
    assert any(said in reason.text and reason.advice for reason in level.reasons)
    assert whole.status == "suspect"


def test_less_load_than_asked_for_is_suspect(build):
    run = sound(build)
    run.rows["levels.csv"][0]["requested"] = 2
    level, _ = judged(run)
    assert level.reasons[0].text == "concurrency 2 requested, 1.0 achieved"


@pytest.mark.parametrize(("cpu", "status"), [(60, "valid"), (80, "suspect"), (97, "client-bound")])
def test_a_busy_core_binds_the_client(build, cpu, status):
    run = sound(build)
    for row in run.rows["health.csv"]:
        row["cpu_percent"] = cpu
    assert judged(run)[0].status == status


def test_one_busy_worker_among_idle_ones_is_seen(build):
    run = sound(build)
    for second in range(1, 10):
        run.health(second, worker=1, cpu_percent=99)
    assert judged(run)[0].status == "client-bound"


def test_a_late_event_loop_binds_the_client(build):
    run = sound(build)
    for row in run.rows["health.csv"][:4]:
        row["hub_lag_ms"] = 120
    level, _ = judged(run)
    assert (level.status, "120 ms late" in level.reasons[0].text) == ("client-bound", True)


def test_health_outside_of_the_window_does_not_count(build):
    run = sound(build)
    run.health(500, cpu_percent=100, hub_lag_ms=9999)
    assert judged(run)[0].status == "valid"


def test_too_few_requests_are_noted_and_change_nothing(build):
    level, _ = judged(sound(build, requests=25))
    assert level.status == "valid"
    assert level.reasons[0].text == "25 successful requests are too few for p99"


def test_lost_records_lost_workers_and_damage_make_the_run_suspect(build):
    run = sound(build)
    run.info["reconciliation"] = {"started": 103, "recorded": 100, "missing": 3}
    run.info["workers"] = [{"worker": 0, "client_id": "host_a", "lost": True, "clock_uncertainty_ms": 25}]
    run.info["scenario"]["load"] = {"warmup_s": 0}
    folder = run.write()
    file = folder / "requests.csv"
    file.write_text(file.read_text() + "half a ro")
    verdict = analysis.summarise(analysis.load(folder)).verdict
    text = " ".join(reason.text for reason in verdict.reasons)
    assert verdict.status == "suspect"
    for words in ("3 of 103", "host_a", "1 damaged rows", "within 25 ms", "no warm-up"):
        assert words in text


def test_an_incomplete_level_is_suspect(build):
    run = sound(build)
    run.rows["levels.csv"][0]["complete"] = "false"
    assert judged(run)[0].status == "suspect"
