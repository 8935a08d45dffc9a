"""A master and four workers on hosts of their own, 100 ms of round trip and 1 % loss apart."""

import json
import signal
import sys
import time
from contextlib import ExitStack

import pytest

from analysis.figures import summarise
from analysis.runs import load
from tests.support import hosts
from tests.support.locust_run import command, finish, output_of, started, wait_for
from tests.support.swarm import PLAIN, Swarm, recorded_ids, worker_process

DELAY_MS, LOSS = 50, 0.01
CUT_S = 20
PORT = 5557
WORKERS = ("w0", "w1", "w2", "w3")
REASON = hosts.why_not()


@pytest.mark.skipif(REASON is not None, reason=f"several hosts: {REASON}")
def test_over_a_slow_lossy_network_a_cut_and_a_killed_worker_nothing_is_lost_unnamed(tmp_path):
    truth = tmp_path / "truth.jsonl"
    with hosts.hosts(["master"], ["engine", *WORKERS], DELAY_MS, LOSS) as host, ExitStack() as stack:
        serve = [sys.executable, "-m", "scenarios.cli", "engine", "--port", "8000", "--speed", "3"]
        serve += ["--host", host["engine"].address, "--truth", str(truth)]
        stack.enter_context(started(tmp_path / "engine", [*host["engine"].at, *serve]))
        wait_for(lambda: "8000" in output_of(tmp_path / "engine"))
        settings = {**PLAIN, "load.levels": "8", "load.measure_s": "300", "load.stop_timeout_s": "1"}
        own = ["--master", "--master-bind-host", host["master"].address, "--expect-workers", "4"]
        line = command("--headless", *own, "-H", f"http://{host['engine'].address}:8000", settings=settings)
        master = stack.enter_context(started(tmp_path, [*host["master"].at, *line]))
        swarmed = Swarm(tmp_path, PORT, master, stack)
        for number, name in enumerate(WORKERS):
            folder = swarmed.worker_folder(number)
            worker = worker_process(folder, PORT, master=host["master"].address, at=host[name].at)
            swarmed.workers.append(stack.enter_context(worker))
        swarmed.wait_for_phase("measure")
        time.sleep(2)

        hosts.plug(host["w1"], connected=False)
        cut_unix_s = time.time()
        time.sleep(CUT_S)
        hosts.plug(host["w1"], connected=True)
        wait_for(lambda: "came back" in output_of(tmp_path), limit_s=45)
        swarmed.workers[2].kill()
        killed_unix_s = time.time()
        wait_for(lambda: output_of(tmp_path).count(") lost") == 2)
        time.sleep(2)
        master.send_signal(signal.SIGINT)
        finished = finish(master, tmp_path)
        run_dir = finished.run_dir
    cut, killed = (one["worker"] for one in [worker_of(finished.run, swarmed, 1), worker_of(finished.run, swarmed, 2)])
    at = {(e["worker"], e["event"]): e["unix_s"] for e in finished.run["worker_events"]}
    assert 2 < at[cut, "lost"] - cut_unix_s < 10
    assert at[cut, "came back"] - cut_unix_s > CUT_S - 1
    assert 2 < at[killed, "lost"] - killed_unix_s < 10

    # the worker that was cut off has delivered everything since; only the killed one's last requests are missing
    recorded = recorded_ids(run_dir)
    sent = {json.loads(row)["request_id"].removeprefix(run_dir.name + "-") for row in truth.read_text().splitlines()}
    sent = {request_id for request_id in sent if request_id.count("-") == 1 and request_id[0].isdigit()}
    assert len(recorded) == len(set(recorded))
    assert {request_id.split("-")[0] for request_id in sent - set(recorded)} <= {str(killed)}
    assert set(finished.run["reconciliation"]["unheard"]) == {str(killed)}
    assert set(finished.run["reconciliation"]["missing_by_worker"]) <= {str(killed)}

    # clocks are equal here: the estimates must say so, within what they claim
    for worker in finished.run["workers"]:
        assert abs(worker["clock_offset_ms"]) <= worker["clock_uncertainty_ms"]
        assert DELAY_MS * 0.9 < worker["clock_uncertainty_ms"] < DELAY_MS * 4
    summary = summarise(load(run_dir))
    assert summary.verdict.status != "valid"
    assert any("lost" in reason.text for reason in summary.verdict.reasons)


def worker_of(info, swarmed, number):
    (found,) = [one for one in info["workers"] if one["pid"] == swarmed.workers[number].pid]
    return found
