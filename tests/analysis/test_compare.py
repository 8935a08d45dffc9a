"""`compare`: like with like, real changes found, chance left alone; and its gates and outputs."""

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

import analysis
from analysis import compare, metrics
from analysis.cli import main_group
from analysis.tables import RunError


def command(*arguments):
    return CliRunner().invoke(main_group, ["compare", *map(str, arguments)], catch_exceptions=False)


def folder(build, name, ttft=100.0, tpot=20.0, concurrency=4, requests=120, **cells):
    """A run at one level whose TTFT wavers by 5 % and whose TPOT is constant."""
    run = build(name)
    run.info["scenario"] |= {"workload": {"inputs": [{"tokens": 128}]}}
    run.level(1, concurrency, 0, 60)
    for number in range(requests):
        first = ttft * (1 + 0.05 * math.sin(number * 1.7))
        run.request(
            number / 2,
            [round(first + tpot * token, 3) for token in range(concurrency * 60 // 6)],
            length_class="128", input_tokens=128, input_tokens_requested=128, **cells,
        )  # fmt: skip
    run.info["workers"] = []
    return run


@pytest.fixture
def like(build):
    a, b = folder(build, "a"), folder(build, "b", ttft=80, tpot=22)
    # the level asks for what these requests make, so that the verdict is not in the way
    for run in (a, b):
        run.rows["levels.csv"][0]["requested"] = 1
    return a.write(), b.write()


def effects_of(ran):
    found = json.loads(ran.stdout)["comparisons"][0]["effects"]
    return {effect["figure"]: effect for effect in found}


def test_a_ttft_win_paid_with_tpot_is_seen(like):
    ran = command(*like, "--json")
    assert ran.exit_code == 0, ran.stderr
    found = effects_of(ran)
    assert (found["ttft_mean"]["word"], found["tpot_mean"]["word"]) == ("better", "worse")
    assert found["ttft_mean"]["change"] == pytest.approx(-0.2, abs=0.001)
    assert found["tpot_mean"]["change"] == pytest.approx(0.1)
    assert found["time_to_1000_tokens"]["word"] == "worse"  # 100 + 999 * 20 against 80 + 999 * 22
    assert found["time_to_1000_tokens"]["change"] == pytest.approx(22058 / 20080 - 1, abs=1e-3)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda run: run.info.update(model="other"), "model: toy / other"),
        (lambda run: run.info["scenario"].update(load={"warmup_s": 9}), "load.warmup_s: 5 / 9"),
        (lambda run: run.info["scenario"].update(workload={"inputs": []}), "workload.inputs:"),
        (lambda run: run.rows["levels.csv"][0].update(requested=0.9), "levels: 1 / 0.9"),
        (lambda run: run.rows["levels.csv"][0].update(mode="manual"), "levels: 1 / 1 (manual)"),
        (lambda run: [row.update(input_tokens=140) for row in run.rows["requests.csv"]], "mean input tokens at 1"),
        (lambda run: run.rows["levels.csv"][0].update(complete="false"), "is suspect:"),
    ],
)
def test_unlike_runs_are_refused_with_the_difference_and_marked_when_compared_anyway(build, change, told):
    runs = [folder(build, name) for name in ("a", "b")]
    for run in runs:
        run.rows["levels.csv"][0]["requested"] = 1
    change(runs[1])
    folders = [run.write() for run in runs]
    ran = command(*folders)
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert told in ran.stderr
    ran = command(*folders, "--anyway")
    assert ran.exit_code == 0
    assert "UNLIKE LOAD" in ran.stdout


@pytest.mark.parametrize(
    ("gate", "code"),
    [("tpot_mean +5%", 1), ("tpot_mean +15%", 0), ("ttft_p95 +5%", 0), ("tpot_mean@1 +5%", 1), ("tpot_mean@8 +5%", 0)],
)
def test_a_gate_lets_a_change_through_or_not(like, gate, code):
    ran = command(*like, "--gate", gate)
    assert ran.exit_code == code, ran.stdout + ran.stderr
    assert ("gate tpot_mean" in ran.stderr) == bool(code)


@pytest.mark.parametrize(
    "gate", ["ttft", "ttft_p95 5", "speed +5%", "ttft_p95 -5%", "output_tok_s +5%", "ttft_max +5%"]
)
def test_a_gate_that_makes_no_sense_is_a_usage_error(like, gate):
    assert command(*like, "--gate", gate).exit_code == 2


def test_the_markdown_and_the_page_hold_every_figure(like, tmp_path):
    page = tmp_path / "page.html"
    text = command(*like, "--md", "--html", page).stdout
    assert all(name.replace("_", "\\_") in text or name in text for name in compare.COMPARED)
    html = page.read_text()
    assert all(name in html for name in compare.COMPARED)


def test_one_run_is_nothing_to_compare(like):
    assert command(like[0]).exit_code == 2


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A summary at one level, to be given other figures."""
    path = tmp_path_factory.mktemp("template")
    (path / "requests.csv").write_text(
        "request_id,outcome,level,phase,sent_unix_s,first_token_ms,last_token_ms,e2e_ms,token_events,output_tokens\n"
        "0-0,success,1,measure,1800000000,100,300,300,11,11\n"
    )
    return analysis.summarise(analysis.load(path))


def with_ttft(template, mean):
    level = template.levels[0]
    ttft = metrics.stats([mean])
    return replace(template, levels=(replace(level, latencies=replace(level.latencies, ttft_ms=ttft), intervals={}),))


def pairs(template, random, change, count=20, noise=0.03):
    moods = 1 + 0.1 * random.normal(size=count)  # slow drifts that both of a pair share: why one interleaves
    return [
        [with_ttft(template, 100 * mood * factor * (1 + noise * random.normal())) for mood in moods]
        for factor in (1.0, change)
    ]


def word(groups, figure="ttft_mean"):
    return next(effect.word for effect in compare.compare(groups)[0].effects if effect.figure == figure)


def test_20_interleaved_pairs_find_a_change_of_3_percent(template):
    random = np.random.default_rng(1)
    words = [word(pairs(template, random, 1.03, noise=0.01)) for _ in range(40)]
    assert words.count("worse") >= 38


def test_the_same_engine_twice_is_silent_in_95_of_100(template):
    random = np.random.default_rng(2)
    told = 0
    for _ in range(100):
        comparison = compare.compare(pairs(template, random, 1.0))[0]
        told += any(effect.word in ("better", "worse") for effect in comparison.effects)
    assert told <= 5


def test_without_an_interval_nothing_is_called_better(template):
    assert word([[with_ttft(template, 100)], [with_ttft(template, 50)]]) == "unknown"


def test_the_interval_of_pairs_is_students(template):
    groups = [[with_ttft(template, value) for value in values] for values in ((100, 100, 100), (102, 104, 106))]
    effect = next(effect for effect in compare.compare(groups)[0].effects if effect.figure == "ttft_mean")
    logs = np.log([1.02, 1.04, 1.06])
    half = 4.3027 * logs.std(ddof=1) / math.sqrt(3)  # t of 2 degrees
    assert effect.low == pytest.approx(math.expm1(logs.mean() - half), rel=1e-3)
    assert effect.high == pytest.approx(math.expm1(logs.mean() + half), rel=1e-3)


def test_names_of_figures_may_carry_their_unit():
    assert compare.parse_gate("ttft_p95_ms +5%").figure.name == "ttft_p95"
    with pytest.raises(RunError, match=re.escape("'ttft_p95 +5%'")):
        compare.parse_gate("faster please")
