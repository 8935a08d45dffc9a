"""Workers that die, stall, come back, leave or join late, and masters that die: what was sent is there or named."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from analysis.figures import summarise
from analysis.runs import load
from tests.support.locust_run import CHAT, ROOT, command, finish, free_port, output_of, started, wait_for
from tests.support.scripted_server import chat_stream
from tests.support.swarm import (
    PLAIN,
    assert_each_request_has_its_row,
    calls,
    engine,
    gone,
    recorded_ids,
    run_info,
    seen_ids,
    swarm,
)

ANSWER = chat_stream(ttft_ms=50, gap_ms=25, tokens=10)  # 275 ms
ENDLESS = {"load.measure_s": "300", "load.warmup_s": "0.3", "load.stop_timeout_s": "0"}


def recovered(run_dir, spool_dir):
    """What `tokenswarm recover` prints."""
    line = [sys.executable, "-m", "scenarios.cli", "recover", str(run_dir), "--spool", str(spool_dir)]
    ended = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def most_in_flight(server, seconds):
    server.peak_in_flight = server.in_flight
    time.sleep(seconds)
    return server.peak_in_flight


def events_of(info, worker):
    return [event["event"] for event in info["worker_events"] if event["worker"] == worker]


def assert_recorded_or_named(server, run_dir, worker):
    """Every request of a worker that the engine saw is recorded or told as missing; the others' are all recorded."""
    info = run_info(run_dir)
    recorded, seen = recorded_ids(run_dir), seen_ids(server, info["run_id"])
    assert len(recorded) == len(set(recorded))
    unrecorded = sorted(set(seen) - set(recorded))
    named = info["reconciliation"]["missing_requests"].get(str(worker), [])
    assert set(unrecorded) <= set(named), (unrecorded, named)
    assert set(info["reconciliation"]["missing_by_worker"]) <= {str(worker)}
    assert info["reconciliation"]["started"] == len(recorded) + len(named)
    assert info["reconciliation"]["unheard"] == {}


def test_a_killed_worker_is_replaced_and_its_requests_are_recovered_or_named(tmp_path):
    users = 12
    settings = {**ENDLESS, "load.levels": str(users)}
    with engine(ANSWER) as server, swarm(tmp_path, server.url, workers=4, settings=settings) as swarmed:
        swarmed.wait_for_phase("measure")
        assert most_in_flight(server, 1.0) == users
        victim = swarmed.workers[2]
        worker = swarmed.index_of(victim)
        killed_unix_s = time.time()
        victim.kill()
        wait_for(lambda: most_in_flight(server, 0.5) == users, limit_s=15)  # the others have its users
        # its successor is told to start before it listens, and takes its share all the same
        swarmed.add_worker(str(Path(__file__).parents[1] / "support" / "slow_worker.py"))
        wait_for(lambda: any(id_.startswith("4-") for id_ in seen_ids(server, swarmed.run_dir.name)))
        time.sleep(1.5)
        assert most_in_flight(server, 1.0) == users
        swarmed.master.send_signal(signal.SIGINT)
        finished = swarmed.finish()
        run_dir = finished.run_dir
        info = finished.run
        (lost,) = [event for event in info["worker_events"] if event["event"] == "lost"]
        assert lost["worker"] == worker
        assert 0 < lost["unix_s"] - killed_unix_s < 8
        assert set(info["reconciliation"]["missing_by_worker"]) <= {str(worker)}
        assert 0 < killed_unix_s - info["reconciliation"]["unheard"][str(worker)] < 1.5
        assert f"Worker {worker} is lost with what it had not sent" in finished.output
        assert finished.code == 3
        successor = {row["user"] for row in finished.rows("requests.csv") if row["worker"] == "4"}
        assert {"1", "2", "3"} <= successor
        # the level ran with fewer workers than asked for a while
        (level,) = summarise(load(run_dir)).levels
        assert level.verdict.status != "valid"
        assert any(f"worker {worker} was lost" in reason.text for reason in level.verdict.reasons)
        said = recovered(run_dir, swarmed.worker_folder(2) / "tmp")
        assert f"worker {worker}: " in said
        assert_recorded_or_named(server, run_dir, worker)
        # the three users of the worker had at most one request each in flight, and half a second of records in memory
        assert run_info(run_dir)["reconciliation"]["missing"] <= 3 + 3 * 3
        before = (run_dir / "requests.csv").read_bytes(), (run_dir / "run.json").read_bytes()
        assert ": 0 requests and 0 token rows merged" in recovered(run_dir, swarmed.worker_folder(2) / "tmp")
        assert before == ((run_dir / "requests.csv").read_bytes(), (run_dir / "run.json").read_bytes())


def test_stalled_workers_come_back_to_their_present_share_and_one_may_quit_late(tmp_path):
    users = 9
    settings = {**ENDLESS, "load.levels": str(users)}
    with engine(ANSWER) as server, swarm(tmp_path, server.url, workers=3, settings=settings) as swarmed:
        swarmed.wait_for_phase("measure")
        back, leaving = swarmed.workers[1:]
        back_index, leaving_index = map(swarmed.index_of, (back, leaving))
        for stalled in (back, leaving):
            stalled.send_signal(signal.SIGSTOP)
        time.sleep(8)
        leaving.send_signal(signal.SIGTERM)
        for stalled in (back, leaving):
            stalled.send_signal(signal.SIGCONT)
        time.sleep(4)
        assert swarmed.master.poll() is None, output_of(tmp_path)
        assert most_in_flight(server, 2.0) == users  # all of them, and never more
        assert leaving.poll() is not None
        swarmed.master.send_signal(signal.SIGINT)
        finished = swarmed.finish()
        assert_each_request_has_its_row(server, finished.run_dir)
        assert events_of(finished.run, back_index)[:3] == ["joined", "lost", "came back"]
        (level,) = summarise(load(finished.run_dir)).levels
        lost = {reason.text.split()[1] for reason in level.verdict.reasons if "was lost" in reason.text}
        assert lost == {str(back_index), str(leaving_index)}
        assert events_of(finished.run, leaving_index)[-1] == "delivered its last batch"


def test_after_a_killed_master_its_workers_end_and_what_they_keep_is_recovered(tmp_path):
    (tmp_path / "tmp").mkdir()
    port = str(free_port())
    bind = ["--master-bind-host", "127.0.0.1", "--master-bind-port", port, "--master-port", port]
    settings = {**PLAIN, **ENDLESS, "load.levels": "6"}
    with engine(ANSWER) as server:
        line = command("--headless", "--processes", "2", "-H", server.url, *bind, settings=settings)
        with started(tmp_path, line, TMPDIR=str(tmp_path / "tmp")) as master:
            (run_dir,) = wait_for(lambda: list((tmp_path / "runs").glob("*")))
            wait_for(lambda: run_info(run_dir)["levels"] and run_info(run_dir)["levels"][0]["measure_start_unix_s"])
            time.sleep(2)
            pids = [worker["pid"] for worker in run_info(run_dir)["workers"]]
            os.kill(master.pid, signal.SIGKILL)
            assert gone(pids, limit_s=20)
            sent = len(calls(server))
            time.sleep(0.5)
            assert len(calls(server)) == sent, "load goes on without a master"
        assert run_info(run_dir)["finished"] is False
        said = recovered(run_dir, tmp_path / "tmp")
        assert "worker 0: " in said and "worker 1: " in said
        assert_each_request_has_its_row(server, run_dir)  # both workers ended in order: nothing is missing
        summary = summarise(load(run_dir))
        (level,) = summary.levels
        assert level.verdict.status != "valid"
        assert level.counts.started > 0


def test_a_worker_of_another_run_leaves_that_and_brings_nothing_into_this_one(tmp_path):
    settings = {**ENDLESS, "load.levels": "3"}
    with engine(ANSWER) as server, swarm(tmp_path / "a", server.url, workers=1, settings=settings) as first:
        first.wait_for_phase("measure")
        stale = first.workers[0]
        first.master.kill()
        first.master.wait()
        line = command(
            "--headless", "--master", "--master-bind-host", "127.0.0.1", "--expect-workers", "1",
            "--master-bind-port", str(first.master_port), "-H", server.url, "-t", "5s", settings={**PLAIN, **settings},
        )  # fmt: skip
        with started(tmp_path / "b", line) as master:
            finished = finish(master, tmp_path / "b", limit_s=60)
        assert_each_request_has_its_row(server, finished.run_dir)
        stale.wait(timeout=20)
        # the first run's records were not sent to the second master: they are on disk
        old = seen_ids(server, first.run_dir.name)
        recovered(first.run_dir, first.worker_folder(0) / "tmp")
        assert set(old) <= set(recorded_ids(first.run_dir))


def test_a_master_port_that_is_taken_is_said_and_ends_with_an_error(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        bind = ["--master-port", port, "--master-bind-host", "127.0.0.1", "--master-bind-port", port]
        line = [sys.executable, "-m", "locust", "-f", str(CHAT), "--headless", "--processes", "2", *bind]
        with started(tmp_path, line) as process:
            ended = finish(process, tmp_path, limit_s=30)
    assert ended.code != 0
    assert (
        f"The master's port is taken (Socket bind failure: Address already in use (addr='tcp://127.0.0.1:{bind[-1]}')"
        in (ended.output)
    )
    assert "Traceback" not in ended.output
    assert not (tmp_path / "runs").exists()
