"""Headless: one calm view on a terminal, plain lines elsewhere, nothing with --quiet; and Locust's own tables."""

import os
import pty
import re
import select
import subprocess
import time

import pytest

from tests.support.locust_run import ROOT, command, run

SETTINGS = {"load.levels": "1,2", "load.measure_s": "1.5", "engine.practice": '["--speed", "10"]'}
SHORT = {**SETTINGS, "load.levels": "1", "load.measure_s": "0.5"}
LOCUST_TABLE = "# reqs"
PROGRESS = re.compile(r"^level (\d) of 2: concurrency (\d), (ramp|warm-up|measure|tail)", re.MULTILINE)


def test_in_a_log_there_is_a_line_for_each_phase_and_no_table_every_two_seconds(tmp_path):
    finished = run(tmp_path, settings=SETTINGS)
    said = PROGRESS.findall(finished.output)
    assert ("1", "1", "measure") in said
    assert ("2", "2", "measure") in said
    assert len(said) == len(set(said))  # a phase is said once unless it takes more than ten seconds
    (measured,) = [
        line for line in finished.output.splitlines() if line.startswith("level 2 of 2") and "measure" in line
    ]
    assert re.search(
        r"\d+ requests \| \d+ in flight \| [\d,]+ tok/s \| TTFT p50 [\d.]+ p95 [\d.]+ ms \| TPOT", measured
    )
    assert "about" in finished.output
    assert finished.output.count(LOCUST_TABLE) == 2  # its summary at the end: requests, percentiles
    assert "\x1b[" not in finished.output


def test_quiet_says_warnings_and_the_report_only(tmp_path):
    finished = run(tmp_path, "--quiet", settings=SHORT)
    assert not PROGRESS.search(finished.output)
    assert LOCUST_TABLE not in finished.output
    assert "TTFT" in finished.output


def test_locusts_own_table_comes_when_asked_for(tmp_path):
    finished = run(tmp_path, "--print-stats", settings={**SHORT, "load.measure_s": "2.5"})
    assert finished.output.count(LOCUST_TABLE) > 2


def test_on_a_terminal_one_view_stays_in_place_and_log_lines_pass_above_it(tmp_path):
    screen, code = on_a_terminal(command("--headless", settings=SETTINGS), tmp_path)
    assert code == 0, screen
    assert "measured so far, ms" in screen
    assert "\x1b[1A" in screen or "\x1b[2K" in screen  # the view is drawn over itself
    assert not PROGRESS.search(strip(screen).replace("\r", "\n").split("measured so far")[0].split("starting")[0])
    lines = strip(screen).splitlines()
    (level_two,) = [line for line in lines if "Level 2 of 2" in line]
    assert level_two.strip().endswith("Level 2 of 2: concurrency 2")  # a whole line, not one mixed with the view
    assert "\x1b[?25h" in screen  # the cursor is back


def strip(screen):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen)


def on_a_terminal(line, folder):
    ours, theirs = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLUMNS": "110", "LINES": "40"}
    process = subprocess.Popen(
        line, cwd=folder, env=environment, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True
    )
    os.close(theirs)
    seen, end = b"", time.monotonic() + 60
    try:
        while time.monotonic() < end:
            if select.select([ours], [], [], 0.2)[0]:
                try:
                    part = os.read(ours, 65536)
                except OSError:  # the other end is closed
                    break
                seen += part
            elif process.poll() is not None:
                break
        return seen.decode(errors="replace"), process.wait(timeout=10)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


pytestmark = pytest.mark.slow
