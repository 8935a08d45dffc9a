"""Other tools' definitions, worked out by hand on two streams."""

import json
import math

import pytest
from click.testing import CliRunner

import analysis
from analysis import dialects, windows
from analysis.cli import main_group


@pytest.fixture
def run(build):
    """Sent at 0 and 1 s. One: 4 ms to connect, 5 tokens in 4 events, two in the first, a stall, a tail. Two: no usage."""
    made = build()
    made.level(1, 2, 0, 10)
    made.request(
        0, [100, 110, 120, 520], event_tokens=[2, 1, 1, 1], e2e_ms=720, first_event_tokens=2,
        planned_ms=-50, started_ms=-4,
    )  # fmt: skip
    made.request(
        1, [50, 70], e2e_ms=80, planned_ms=-30, started_ms=0,
        output_tokens=2, output_tokens_source="estimated", output_tokens_requested=11,
    )  # fmt: skip
    return made


def spoken(run, name):
    loaded = analysis.load(run.write())
    return dialects.speak(loaded, windows.levels(loaded)[0], dialects.find(name)).figures


# TPOT of the two requests; ITL values; E2E; tokens and seconds of the rate
@pytest.mark.parametrize(
    ("name", "ttft", "tpot", "itl", "e2e", "rate"),
    [
        # (520-100)/(5-2)=140, (70-50)/1=20 · gaps 10, 10, 400, 20 · 720, 80 · 7 tokens arrived in 10 s
        ("tokenswarm", 75, 80, 110, 400, 7 / 10),
        # 104, 50 with connecting · (520-100)/4=105, 20 · same gaps · ends with the last token: 524, 70 · 1.07 s
        ("vllm", 77, 62.5, 110, 297, 7 / 1.07),
        # no TPOT · per request 105 and 20 · last token
        ("genai-perf", 75, None, 62.5, 295, 7 / 1.07),
        ("aiperf", 75, None, 62.5, 295, 7 / 1.07),
        # TTFT included: 520/5=104, 70/2=35 · weighted (4*105+1*20)/5 · to the end mark · 1.08 s
        ("guidellm", 75, 69.5, 88, 400, 7 / 1.08),
        # 104, 50 · (720-100)/4=155, (80-50)/10=3 with the length that was asked for · 724, 80 · 5 + 11 tokens
        ("sglang", 77, 79, 110, 402, 16 / 1.08),
        # from the plan: 150, 80 · (720-100)/4=155, (80-50)/1=30 · 770, 110
        ("mlperf", 115, 92.5, 110, 440, 7 / 1.08),
    ],
)
def test_each_tool_speaks_by_its_definition(run, name, ttft, tpot, itl, e2e, rate):
    found = spoken(run, name)
    means = [found["ttft_mean"], found["tpot_mean"], found["itl_mean"], found["e2e_mean"]]
    assert means == [value if value is None else pytest.approx(value) for value in (ttft, tpot, itl, e2e)]
    assert found["output_tok_s"] == pytest.approx(rate)


def test_percentiles_are_interpolated_where_the_tool_does_so(run):
    assert spoken(run, "tokenswarm")["ttft_p99"] == 100
    assert spoken(run, "vllm")["ttft_p99"] == pytest.approx(103.46)  # 50 + 0.99 * 54


def test_weighted_percentiles_follow_the_number_of_gaps(run):
    assert spoken(run, "guidellm")["itl_p99"] == 105  # four of five gaps belong to that request


def test_a_tail_after_the_last_token_inflates_tpot_only_where_it_counts(build):
    made = build()
    made.level()
    made.request(0, [50 + 10 * token for token in range(31)], e2e_ms=550)  # a tail of 200 ms
    assert spoken(made, "vllm")["tpot_mean"] == pytest.approx(10)
    assert spoken(made, "sglang")["tpot_mean"] == pytest.approx(500 / 30)  # 16.7
    assert spoken(made, "guidellm")["tpot_mean"] == pytest.approx(350 / 31)  # 11.3


def test_explain_says_which_rule_moves_which_figure(run):
    ran = CliRunner().invoke(main_group, ["explain", str(run.write()), "--json"], catch_exceptions=False)
    level = json.loads(ran.stdout)["levels"][0]
    assert [one["dialect"] for one in level["dialects"]] == list(dialects.DIALECTS)
    found = {(one["dialect"], one["figure"], one["rule"]): one["theirs"] for one in level["differences"]}
    assert found["vllm", "e2e_mean", "end: last token, not end mark"] == 295
    assert found["guidellm", "tpot_mean", "tpot: n, TTFT included, not after the first event"] == pytest.approx(69.5)
    assert found["vllm", "ttft_mean", "start: called, not sent"] == 77
    assert not any(figure == "ttft_mean" for dialect, figure, _ in found if dialect == "aiperf")


def test_explain_and_dialect_print_tables(run):
    folder = str(run.write())
    text = CliRunner().invoke(main_group, ["explain", folder], catch_exceptions=False).stdout
    assert all(name in text for name in dialects.DIALECTS)
    text = CliRunner().invoke(main_group, ["report", folder, "--dialect", "vllm"], catch_exceptions=False).stdout
    assert "in the terms of vllm" in text
    assert CliRunner().invoke(main_group, ["report", folder, "--dialect", "abc"]).exit_code == 2
    assert CliRunner().invoke(main_group, ["explain", folder, "--level", "7"]).exit_code == 2


def test_a_run_without_a_success_has_no_figures(build):
    made = build()
    made.level()
    made.request(0, error_class="http_500")
    for name in dialects.DIALECTS:
        found = spoken(made, name)
        assert all(value is None or value == 0 for value in found.values())
        assert not any(isinstance(value, float) and math.isnan(value) for value in found.values())
