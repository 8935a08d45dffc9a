"""Token rows on disk, out of order and in small blocks give what they give in memory."""

import csv
import io
import random

import pandas as pd
import pytest

import analysis
from analysis import export, plots, schema, spool, tables, token_rows


@pytest.fixture
def folder(build):
    run = build()
    run.level(1, 2, 0, 10)
    run.level(2, 4, 10, 20)
    dice = random.Random(5)
    for number in range(60):
        arrivals = [round(20 + 7 * step + dice.random(), 3) for step in range(dice.randint(1, 9))]
        run.request(number / 3, arrivals, 1 + number // 30, length_class=f"turn {1 + number % 2}")
    return run.write()


def figures(folder):
    run = analysis.load(folder)
    summary = analysis.summarise(run)
    charts = plots.charts(run, summary)
    return run, summary.levels, charts


def test_blocks_on_disk_and_rows_in_any_order_change_no_figure(folder, monkeypatch):
    run, levels, charts = figures(folder)
    header, *rows = (folder / schema.TOKENS_FILE).read_text().splitlines(keepends=True)
    rows += rows[::5]  # these came twice
    random.Random(1).shuffle(rows)
    (folder / schema.TOKENS_FILE).write_text(header + "".join(rows) + "7-7,0,1,1,answer\n" + "0-0,1")
    monkeypatch.setattr(tables, "CHUNK_ROWS", 11)
    monkeypatch.setattr(token_rows, "BLOCK_ROWS", 7)
    monkeypatch.setattr(spool, "IN_MEMORY_BYTES", 64)
    found, same_levels, same_charts = figures(folder)
    pd.testing.assert_frame_equal(found.tokens, run.tokens)
    assert (found.orphan_tokens, len(found.damages)) == (1, 1)
    assert same_levels == levels
    assert same_charts == charts


def test_no_room_for_the_rows_is_one_clear_error(folder, monkeypatch):
    monkeypatch.setattr(spool, "IN_MEMORY_BYTES", 1)
    monkeypatch.setenv("TMPDIR", "/dev/full")
    monkeypatch.setattr("tempfile.tempdir", "/dev/full")
    with pytest.raises(tables.RunError, match=r"/dev/full: .* for the token rows; set TMPDIR"):
        analysis.load(folder)


def test_the_itl_mean_has_an_interval_that_heeds_that_gaps_of_a_request_are_alike(build):
    """Of 400 requests half have gaps of 10 ms, half of 20 ms: 3,600 gaps, but only 400 that are independent."""
    run = build()
    run.level(1, 2, 0, 400)
    dice = random.Random(2)
    for number in range(400):
        gap = dice.choice([10, 20])
        run.request(number, [50 + gap * step for step in range(10)])
    summary = analysis.summarise(analysis.load(run.write()))
    interval = summary.levels[0].intervals["itl_mean_ms"]
    assert interval.low < 15 < interval.high
    # 2.09 * 5 / sqrt(400) = 0.52 to each side, give or take; independent gaps would claim 0.17
    assert 0.35 < (interval.high - interval.low) / 2 < 0.8
    row = next(csv.DictReader(io.StringIO(export.to_csv(summary))))
    assert float(row["itl_mean_ms_low"]) == pytest.approx(interval.low, rel=1e-3)
