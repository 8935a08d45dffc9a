"""The engine as a child process."""

import os
import signal
import subprocess
import sys
from time import perf_counter, sleep

import psutil
import pytest

from scenarios.engine.embedded import EngineStartError, start_embedded_engine
from tests.engine.raw_client import ask

STARTER = """
import sys, time
from scenarios.engine.embedded import start_embedded_engine
print(start_embedded_engine().pid, flush=True)
time.sleep(60)
"""


def ends(pid: int) -> bool:
    for _ in range(250):
        if not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
            return True
        sleep(0.02)
    return False


def test_it_serves_on_a_loopback_port_soon_and_stops():
    begin_s = perf_counter()
    engine = start_embedded_engine()
    took_s = perf_counter() - begin_s
    assert engine.url.startswith("http://127.0.0.1:")
    assert ask(engine.url, "/health").status == 200
    engine.stop()
    assert ends(engine.pid)
    assert took_s < 3  # 0.3 s on an idle machine
    engine.stop()  # once more does no harm


@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM])
def test_it_ends_with_the_process_that_started_it(kill):
    starter = subprocess.Popen([sys.executable, "-c", STARTER], stdout=subprocess.PIPE)
    with starter:
        assert starter.stdout is not None
        pid = int(starter.stdout.readline())
        assert psutil.pid_exists(pid)
        starter.send_signal(kill)
        assert ends(pid)


def test_the_terminals_ctrl_c_does_not_reach_it():
    engine = start_embedded_engine()
    assert os.getsid(engine.pid) != os.getsid(0)
    engine.stop()


def test_a_forked_child_does_not_stop_it():
    engine = start_embedded_engine()
    child = os.fork()
    if not child:
        engine.stop()
        os._exit(0)
    os.waitpid(child, 0)
    assert ask(engine.url, "/health").status == 200
    engine.stop()


def test_an_engine_that_cannot_start_is_one_clear_error(capfd):
    with pytest.raises(EngineStartError, match=r"did not start; its own message stands above.*exit code 2"):
        start_embedded_engine(["--profile", "nope"])
    assert "no profile 'nope'" in capfd.readouterr().err


def test_it_can_be_started_under_gevent():
    code = (
        "import gevent.monkey; gevent.monkey.patch_all()\n"
        "from scenarios.engine.embedded import start_embedded_engine\n"
        "engine = start_embedded_engine(); print(engine.url); engine.stop()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout[:17]) == (0, "http://127.0.0.1:"), done.stderr


def test_a_taken_port_is_one_line_and_exit_code_3():
    engine = start_embedded_engine()
    port = engine.url.rsplit(":", 1)[1]
    command = [sys.executable, "-m", "scenarios.engine", "--port", port]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    engine.stop()
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) == 1
    assert f"127.0.0.1:{port}" in done.stderr


def test_a_missing_key_variable_is_a_usage_error():
    command = [sys.executable, "-m", "scenarios.engine", "--api-key-env", "NO_SUCH_KEY"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert "NO_SUCH_KEY is not set" in done.stderr
