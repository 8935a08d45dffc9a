"""A run read from Parquet gives what its CSV files give."""

import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner

import analysis
from analysis import parquet, runs, schema, tables, token_rows
from analysis.cli import main_group

ROOT = Path(__file__).parents[2]
NAMES = ("requests.parquet", "tokens.parquet")


def installed():
    return find_spec("pyarrow") is not None


needs_pyarrow = pytest.mark.skipif(not installed(), reason="pyarrow is optional and not installed")


@pytest.fixture
def folder(build):
    run = build()
    run.slo(ttft_ms=100)
    run.level(1, 2, 0, 10)
    for number in range(40):
        arrivals = [20.125 + 7.001 * step for step in range(1 + number % 7)]
        run.request(number / 5, arrivals, length_class=f"turn {1 + number % 2}", connection_reused="true")
    run.request(1, error_class="http_503", error_text='no, "really"', connection_reused="")
    folder = run.write()
    with (folder / schema.TOKENS_FILE).open("a") as file:
        file.write("7-7,0,1,1,answer\n0-1,1,x,1,answer\n0-2,0")
    with (folder / schema.REQUESTS_FILE).open("a") as file:
        file.write("0-1,cut")
    return folder


def export(folder, *options):
    return CliRunner().invoke(main_group, ["export", str(folder), "--format", "parquet", *options])


@needs_pyarrow
def test_reports_read_parquet_and_no_figure_differs(folder, monkeypatch):
    before = analysis.load(folder)
    monkeypatch.setattr(token_rows, "BLOCK_ROWS", 30)
    assert export(folder).exit_code == 0
    for file in (schema.REQUESTS_FILE, schema.TOKENS_FILE):
        (folder / file).unlink()
    after = analysis.load(folder)
    pd.testing.assert_frame_equal(after.requests, before.requests)
    pd.testing.assert_frame_equal(after.tokens, before.tokens)
    assert (after.orphan_tokens, after.damages) == (before.orphan_tokens, before.damages)
    assert len(before.damages) == 3
    assert analysis.summarise(after) == replace(analysis.summarise(before), folder=str(folder))


@needs_pyarrow
def test_csv_files_that_went_on_since_are_read_instead(folder):
    assert export(folder).exit_code == 0
    assert [path.name for path in runs.find_files(folder, schema.TOKENS_FILE)] == [NAMES[1]]
    later = (folder / NAMES[1]).stat().st_mtime + 10
    os.utime(folder / schema.TOKENS_FILE, (later, later))
    assert [path.name for path in runs.find_files(folder, schema.TOKENS_FILE)] == [schema.TOKENS_FILE]


@needs_pyarrow
def test_other_tools_read_the_columns_of_the_schema(folder, tmp_path):
    assert export(folder, "--out", str(tmp_path / "out")).exit_code == 0
    assert not (folder / NAMES[0]).exists()
    requests, tokens = (pd.read_parquet(tmp_path / "out" / name) for name in NAMES)
    assert list(requests) == schema.names(schema.REQUESTS_FILE)
    assert list(tokens) == schema.names(schema.TOKENS_FILE)
    assert tokens["arrival_ms"].max() == 20.125 + 7.001 * 6
    assert requests["connection_reused"].isna().sum() == 1


@needs_pyarrow
def test_a_damaged_parquet_file_is_one_clear_error(folder):
    assert export(folder).exit_code == 0
    data = (folder / NAMES[1]).read_bytes()
    (folder / NAMES[1]).write_bytes(data[: len(data) // 2])
    with pytest.raises(tables.RunError, match=r"tokens.parquet: not readable as Parquet \(.*\); without it the CSV"):
        analysis.load(folder)


def test_without_pyarrow_csv_is_read_and_parquet_is_one_clear_error(folder, monkeypatch):
    for module in (parquet, runs):
        monkeypatch.setattr(module, "find_spec", lambda name: None)
    (folder / NAMES[1]).write_bytes(b"PAR1")
    assert len(analysis.load(folder).tokens) > 100
    found = export(folder)
    assert (found.exit_code, found.output.strip()) == (
        2,
        "Error: writing Parquet needs pyarrow, which is not installed: pip install pyarrow",
    )
    (folder / schema.TOKENS_FILE).unlink()
    with pytest.raises(tables.RunError, match=r"tokens.parquet: reading it needs pyarrow, which is not installed"):
        analysis.load(folder)


def test_a_report_is_the_same_with_and_without_pyarrow(folder):
    """pandas keeps texts in pyarrow's columns where it is installed."""
    code = "from analysis.cli import main_group; main_group(['report', sys.argv[1], '--json'])"
    with_it, without = (
        subprocess.run(
            [sys.executable, "-c", f"import sys; {before}; {code}", str(folder)],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )
        for before in ("pass", "sys.modules['pyarrow'] = None")
    )
    assert (with_it.returncode, without.returncode) == (0, 0), with_it.stderr + without.stderr
    assert with_it.stdout == without.stdout
