"""However a run is stopped: every request that the engine saw has its row, and no process stays behind."""

import os
import signal
import time
import urllib.parse
import urllib.request
from collections import Counter

import psutil
import pytest

from tests.support.locust_run import command, finish, free_port, output_of, started, wait_for
from tests.support.scripted_server import chat_stream
from tests.support.swarm import (
    PLAIN,
    assert_each_request_has_its_row,
    calls,
    engine,
    gone,
)

# answers of about 1 s, so that at any moment most users have a request in flight
SLOW = chat_stream(ttft_ms=100, gap_ms=50, tokens=20)
LONG = {"load.levels": "6", "load.measure_s": "60", "load.stop_timeout_s": "0"}


def interrupt(process, server):
    os.killpg(process.pid, signal.SIGINT)


def terminate(process, server):
    process.send_signal(signal.SIGTERM)


def leave(process, server):
    """It ends by itself."""


# name, arguments, settings, what to do when the engine has seen some requests, stopped_by, exit code
PATHS = [
    ("plan", ["--headless"], {"load.levels": "6", "load.measure_s": "1", "load.stop_timeout_s": "0"}, leave, "plan", 0),
    ("run time", ["--headless", "-t", "3s"], LONG, leave, "run_time", 0),
    ("Ctrl-C", ["--headless"], LONG, interrupt, "user", 3),
    ("SIGTERM", ["--headless"], LONG, terminate, "user", 3),
    ("autoquit", ["--autostart", "--autoquit", "1", "-t", "3s"], LONG, leave, "run_time", 0),
]


@pytest.mark.parametrize("path", PATHS, ids=[path[0] for path in PATHS])
def test_every_way_to_stop_keeps_every_request_and_leaves_no_process(tmp_path, path):
    _, arguments, settings, stop, stopped_by, code = path
    web = [] if "--headless" in arguments else ["--web-host", "127.0.0.1", "--web-port", str(free_port())]
    with engine(SLOW) as server:
        line = command("--processes", "2", "-H", server.url, *arguments, *web, settings={**PLAIN, **settings})
        with started(tmp_path, line) as process:
            wait_for(lambda: process.poll() is not None or len(calls(server)) >= 6)
            children = [child.pid for child in psutil.Process(process.pid).children(recursive=True)]
            stop(process, server)
            finished = finish(process, tmp_path, limit_s=40)
            assert gone(children, limit_s=5)
        assert_each_request_has_its_row(server, finished.run_dir)
    assert (finished.code, finished.run["stopped_by"]) == (code, stopped_by), finished.output
    assert finished.run["finished"] is True
    outcomes = {row["outcome"] for row in finished.rows("requests.csv")}
    assert outcomes <= {"success", "cut_off"}
    cut = [row for row in finished.rows("requests.csv") if row["outcome"] == "cut_off"]
    assert cut or stopped_by != "user"  # that is in the middle of the first answers
    tokens = Counter(row["request_id"] for row in finished.rows("tokens.csv"))
    assert all(tokens[row["request_id"]] == int(row["token_events"]) < 20 for row in cut)
    assert all(worker["final"] and not worker["lost"] for worker in finished.run["workers"])


def test_stop_in_the_web_ui_ends_the_run_and_another_one_may_follow(tmp_path):
    port = free_port()
    web = ["--web-host", "127.0.0.1", "--web-port", str(port)]
    with engine(SLOW) as server:
        line = command("--processes", "2", "-H", server.url, *web, settings={**PLAIN, **LONG})
        with started(tmp_path, line) as process:
            for number in (1, 2):
                before = len(calls(server))
                wait_for(lambda: _posted(port, "/swarm", host=server.url, load="scenario"))
                wait_for(lambda: len(calls(server)) >= before + 6)  # noqa: B023
                assert _posted(port, "/stop")
                wait_for(lambda: "Report: " in output_of(tmp_path).split("Run folder: ")[-1])
                folders = sorted((tmp_path / "runs").iterdir())
                assert len(folders) == number
                assert_each_request_has_its_row(server, folders[-1])
            time.sleep(0.5)
            process.send_signal(signal.SIGTERM)
            finish(process, tmp_path, limit_s=20)


def test_with_a_stop_time_out_requests_in_flight_are_awaited_but_the_window_ends_with_the_stop(tmp_path):
    # answers of 2.5 s; the run is stopped in the middle of the second
    settings = {**PLAIN, "load.levels": "6", "load.measure_s": "60", "load.stop_timeout_s": "10"}
    with engine(chat_stream(ttft_ms=100, gap_ms=100, tokens=25)) as server:
        line = command("--headless", "--processes", "2", "-H", server.url, settings=settings)
        with started(tmp_path, line) as process:
            wait_for(lambda: len(calls(server)) == 12)
            process.send_signal(signal.SIGTERM)
            finished = finish(process, tmp_path)
        assert_each_request_has_its_row(server, finished.run_dir)
    rows = finished.rows("requests.csv")
    assert Counter(row["outcome"] for row in rows) == {"success": 12}
    (level,) = finished.rows("levels.csv")
    last_sent_unix_s = max(float(row["sent_unix_s"]) for row in rows)
    assert float(level["measure_end_unix_s"]) - last_sent_unix_s < 2.0


def _posted(port, path, **form):
    try:
        data = urllib.parse.urlencode(form).encode()
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", data, timeout=10) as answer:
            return b'"success":true' in answer.read().replace(b" ", b"")
    except OSError:
        return False
