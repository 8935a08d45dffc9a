"""`python -m analysis report RUN`: exit codes, what is printed and what is written."""

import csv
import io
import json
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner

from analysis import export, report
from analysis.cli import main_group

ROOT = Path(__file__).parents[2]


def command(*arguments, cwd=ROOT):
    with chdir(cwd):
        return CliRunner().invoke(main_group, ["report", *map(str, arguments)], catch_exceptions=False)


@pytest.fixture
def small(build):
    run = build()
    run.slo(ttft_ms=150)
    run.level(1, 1, 0, 10)
    run.level(2, 8, 20, 30)
    run.request(0, [100, 150, 200], length_class="128")
    run.request(0, [120, 160, 200], length_class="512")
    run.request(20, [300, 350], level=2, length_class="128")
    run.request(20, level=2, error_class="http_503", error_text="=cmd|' /C calc'!A0", length_class="@odd")
    return run.write()


def test_the_report_prints_verdict_answer_and_a_row_per_level(small):
    ran = command(small)
    assert ran.exit_code == 0
    text = ran.stdout
    assert text.index("Run: suspect") < text.index("Up to 1 concurrent requests under TTFT ≤ 150 ms")
    for words in ("TTFT", "TPOT", "ITL", "E2E", "p99", "goodput/s", "http_503", "By length class"):
        assert words in text


def test_it_is_a_command_of_its_own_without_the_load_side(small, tmp_path):
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    words = [sys.executable, "-m", "analysis", "report"]
    ran = subprocess.run(
        [*words, str(small)], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "Up to 1 concurrent requests" in ran.stdout
    ran = subprocess.run([*words, "nowhere"], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("Error: nowhere: no such run folder")


def test_json_is_the_only_thing_on_standard_output(small):
    levels = json.loads(command(small, "--json").stdout)["levels"]
    assert [level["latencies"]["ttft_ms"]["mean"] for level in levels] == [110, 300]
    assert levels[1]["counts"]["failures"] == {"http_503": 1}


def test_each_metric_carries_its_own_unit(small):
    units = json.loads(command(small, "--json").stdout)["units"]
    assert (units["goodput"], units["output_throughput"], units["ttft"]) == ("requests/s", "tokens/s", "ms")
    titles = command(small, "--csv").stdout.splitlines()[0].split(",")
    assert {"ttft_p95_ms", "output_tok_s", "goodput_requests_s", "window_s"} <= set(titles)


def test_csv_has_a_row_per_level_and_length_class_and_runs_no_formula(small):
    rows = list(csv.DictReader(io.StringIO(command(small, "--csv").stdout)))
    assert [(row["requested"], row["length_class"]) for row in rows] == [
        ("1", ""), ("1", "128"), ("1", "512"), ("8", ""), ("8", "128"), ("8", "'@odd"),
    ]  # fmt: skip
    assert (rows[0]["ttft_mean_ms"], rows[5]["ttft_mean_ms"], rows[3]["failures"]) == ("110", "", "http_503=1")


@pytest.mark.parametrize("text", ["=1+1", "+1", "-1", "@a", "\ta", "\ra"])
def test_text_that_a_spreadsheet_would_run_is_quoted(text):
    assert export.spreadsheet_safe(text) == "'" + text


def test_markdown_escapes_what_the_engine_said(small):
    text = command(small, "--md").stdout
    assert text.startswith("### test: suspect")
    assert "| =cmd\\|' /C calc'!A0 |" not in text.splitlines()[0]
    assert "\\|' /C calc" in text


def test_out_takes_all_formats_into_a_folder(small, tmp_path):
    out = tmp_path / "somewhere" / "new"
    ran = command(small, "--html", "--json", "--csv", "--md", "--out", out)
    assert ran.exit_code == 0
    assert sorted(path.name for path in out.iterdir()) == ["report.csv", "report.html", "report.json", "report.md"]


def test_two_formats_on_one_output_are_a_usage_error(small):
    ran = command(small, "--json", "--csv")
    assert (ran.exit_code, ran.stdout) == (2, "")
    assert "add --out FOLDER" in ran.stderr


@pytest.mark.parametrize("arguments", [["nowhere"], ["latest"], ["."], [], ["x", "--slo", "ttft=5"]])
def test_a_usage_error_is_one_clear_line_and_exit_code_2(tmp_path, arguments):
    ran = command(*arguments, cwd=tmp_path)
    assert ran.exit_code == 2
    assert ran.stderr.strip()


def test_strict_makes_an_invalid_run_exit_code_3(small):
    assert command(small, "--strict").exit_code == 3
    assert command(small).exit_code == 0


def test_other_limits_can_be_asked_for(small):
    answer = json.loads(command(small, "--json", "--slo", "ttft_ms=90,attainment=0.5").stdout)["answer"]
    assert answer == "No level meets the SLO TTFT ≤ 90 ms for 50 % of requests."


@pytest.mark.parametrize("limits", ["ttft_ms", "ttft_ms=x", "speed=3", "attainment=0.9", "ttft_ms=-1", "ttft_ms=nan"])
def test_a_bad_slo_says_how_it_is_written(small, limits):
    ran = command(small, "--slo", limits)
    assert (ran.exit_code, "ttft_ms=500" in ran.stderr) == (2, True)


def test_an_empty_run_is_reported_without_a_traceback(build):
    folder = build().write()
    ran = command(folder, "--html")
    assert ran.exit_code == 0
    assert "No request succeeded" in ran.stdout
    assert (folder / "report.html").exists()


def test_the_load_side_can_have_the_report_written_and_printed(small, capsys):
    found = report.print_report(small)
    assert (small / "report.html").exists()
    assert found.best_level == 1
    assert "Up to 1 concurrent" in capsys.readouterr().out


def test_analysis_needs_nothing_of_the_load_side(small):
    code = (
        "import sys; from analysis.report import write_report; import analysis.cli; "
        f"write_report({str(small)!r}); bad = {{'locust', 'gevent', 'scenarios', 'openai'}} & set(sys.modules); "
        "assert not bad, bad"
    )
    ran = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr


def test_the_schema_alone_does_not_load_pandas():
    code = "import sys; import analysis.schema; assert 'pandas' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, timeout=60).returncode == 0


def test_first_and_later_turns_stand_beside_each_other_by_level(build):
    run = build()
    for level in (1, 2):
        run.level(level, level, 20 * level, 20 * level + 10)
        for turn, ttft in (("turn 2+", 40), ("turn 1", 400), ("turn 2+", 60)):
            run.request(20 * level, [ttft * level, ttft * level + 10], level=level, length_class=turn)
    folder = run.write()
    rows = list(csv.DictReader(io.StringIO(command(folder, "--csv").stdout)))
    found = [(row["level"], row["length_class"], row["ttft_n"], float(row["ttft_mean_ms"])) for row in rows]
    assert [each for each in found if each[1]] == [
        ("1", "turn 1", "1", 400), ("1", "turn 2+", "2", 50), ("2", "turn 1", "1", 800), ("2", "turn 2+", "2", 100),
    ]  # fmt: skip
    text = command(folder).stdout
    table = text[text.index("By length class") :]
    assert table.index("turn 1") < table.index("400") < table.index("turn 2+") < table.index("50.0")
