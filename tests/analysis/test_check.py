"""`check`: limits in CI, with exit codes, JUnit and a job summary."""

from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner

from analysis import check, tables
from analysis.cli import main_group


def command(*arguments, **environment):
    return CliRunner(env=environment).invoke(main_group, ["check", *map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def run(build):
    made = build()
    made.slo(ttft_ms=250)
    for number, (concurrency, ttft) in enumerate(((1, 100), (4, 200)), 1):
        made.level(number, concurrency, number * 20, number * 20 + 10)
        for turn in range(concurrency):
            made.request(number * 20 + turn * 0.01, [ttft, 9990], level=number)
    return made


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        ([], 0),  # the scenario's own
        (["ttft_ms=150"], 1),
        (["ttft_p95<250"], 0),
        (["ttft_p95<=200,ttft_p95>=100"], 0),
        (["ttft_p95<0.15s"], 1),
        (["ttft_p95@1<150"], 0),
        (["output_tok_s>1e6"], 1),
        (["failed<1%"], 0),
        (["queue_p95<5"], 1),  # was not measured
    ],
)
def test_limits_decide_the_exit_code(run, limits, code):
    ran = command(run.write(), *(part for limit in limits for part in ("--slo", limit)))
    assert ran.exit_code == code, ran.stdout + ran.stderr


def test_one_level_can_be_checked_alone(run):
    folder = run.write()
    assert command(folder, "--slo", "ttft_ms=150", "--level", "1").exit_code == 0
    ran = command(folder, "--level", "3")
    assert (ran.exit_code, "there are: 1, 4" in ran.stderr) == (2, True)


def test_a_client_bound_run_can_not_pass(run):
    run.health(25, cpu_percent=99)
    assert command(run.write(), "--slo", "ttft_p95<250").exit_code == 3


def test_a_suspect_run_passes_unless_strict(run):
    run.rows["levels.csv"][0]["complete"] = "false"
    folder = run.write()
    assert command(folder).exit_code == 0
    assert command(folder, "--strict").exit_code == 3


def test_junit_has_a_case_per_limit_and_level_and_survives_any_text(run, tmp_path):
    run.info["name"] = "name with \x00 <odd> & \x1b characters"
    command(run.write(), "--slo", "ttft_p95<150", "--junit", tmp_path / "out.xml")
    suite = ET.parse(tmp_path / "out.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("5", "1")
    failed = [case for case in suite if case.find("failure") is not None]
    assert [(case.get("classname"), case.get("name")) for case in failed] == [("concurrency 4", "ttft_p95<150")]
    message = failed[0].find("failure")
    assert message is not None
    assert message.get("message") == "ttft_p95 is 200 ms"
    assert str(suite.get("timestamp")).endswith("Z")


def test_the_job_summary_is_added_to(run, tmp_path):
    summary = tmp_path / "summary.md"
    summary.write_text("before\n")
    command(run.write(), "--slo", "ttft_p95<150", "--github", GITHUB_STEP_SUMMARY=str(summary))
    text = summary.read_text()
    assert text.startswith("before\n### test: 1 of 4 limits broken")
    assert "ttft\\_p95 is 200 ms" in text


@pytest.mark.parametrize("limit", ["ttft_p95", "ttft_p95<", "p95<5", "ttft_p95<5%", "failed<5ms", "ttft_p95=<5"])
def test_a_limit_that_can_not_be_read_says_how_it_is_written(limit):
    with pytest.raises(tables.RunError, match=r"--slo|is no figure"):
        check.parse([limit])


def test_nothing_to_check_is_a_usage_error(build):
    made = build()
    made.level()
    made.request(0, [1, 2])
    assert command(made.write()).exit_code == 2
