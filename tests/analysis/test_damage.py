"""Whatever a crash, a full disk or a stray hand does to the files: one clear error or a report, never a traceback."""

import io
import random

import pytest
from rich.console import Console

import analysis
from analysis import dialects, export, exporting, report_text, windows
from analysis.html import page

BITS = [b",", b"\n", b'"', b"nan", b"inf", b"-1", b"1e308", b"\x00", b"\xff", b"", b"null", b"{}", b"9" * 30, b"true"]


@pytest.fixture
def run(build):
    made = build()
    made.slo(ttft_ms=150, tpot_ms=30)
    made.info["scenario"]["report"] = {"window_s": 3}
    for number in (1, 2):
        made.level(number, number * 2, number * 20, number * 20 + 10)
        for turn in range(12):
            made.request(
                number * 20 + turn * 0.8, [100 + turn, 120 + turn, 150 + turn], number,
                length_class=["128", "512"][turn % 2], input_tokens=100, input_tokens_requested=100, worker=turn % 2,
            )  # fmt: skip
        made.request(number * 20 + 1, level=number, error_class="http_503", error_text='a, "b"\nc')
        made.health(number * 20 + 2)
    return made


def damaged(data, dice):
    spoilt = bytearray(data)
    for _ in range(dice.randint(0, 3)):
        at = dice.randrange(len(spoilt))
        spoilt[at : at + dice.choice([0, 1, 3, 20])] = dice.choice(BITS)
    return bytes(spoilt[: dice.randrange(len(spoilt))] if dice.random() < 0.1 else spoilt)


def everything(folder):
    """Every output of a run folder."""
    loaded = analysis.load(folder)
    summary = analysis.summarise(loaded)
    report_text.print_summary(summary, Console(file=io.StringIO()))
    for write in (export.to_json, export.to_csv, export.to_markdown):
        write(summary)
    page.render_page(loaded, summary)
    for level in windows.levels(loaded):
        dialects.explain(loaded, level)
        exporting.to_vllm(loaded, level)
        exporting.to_aiperf(loaded, level)


@pytest.mark.parametrize("seed", range(25))
def test_damaged_files_give_a_report_or_one_clear_error(run, seed):
    dice = random.Random(seed)
    folder = run.write()
    for file in folder.iterdir():
        file.write_bytes(damaged(file.read_bytes(), dice))
    try:
        everything(folder)
    except analysis.RunError as error:
        assert str(error)
