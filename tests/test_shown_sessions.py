"""The README's sessions that name a GPU host or several machines, played on this one with the practice engine."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scenarios.engine.embedded import start_embedded_engine
from tests.support import sessions
from tests.support.locust_run import free_port

SESSIONS = sessions.shown_sessions()

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    running = start_embedded_engine(["--speed", "10"])
    yield running.url
    running.stop()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory) -> Path:
    return sessions.make_scratch(tmp_path_factory.mktemp("readme"))


def commands_with(text: str) -> list[sessions.Command]:
    (session,) = (block for block in SESSIONS if text in block.text)
    return session.commands


def test_your_engine_is_measured_by_one_command(engine, scratch):
    (session,) = (block for block in SESSIONS if block.section == "Measure your engine")
    (command,) = session.commands
    assert f"practice-8b · chat · {engine}" in sessions.play(command, scratch, {"http://gpu:8000": engine})


def test_a_run_over_several_machines_and_the_look_for_what_a_lost_one_has_left(engine, scratch):
    leads, works = commands_with("--expect-workers 2")
    port = str(free_port())
    at = f" --master-bind-host 127.0.0.1 --master-bind-port {port}"
    lead = sessions.Command(sessions.played(leads, {"http://gpu:8000": engine}).line + at)
    work = sessions.played(works, {"master.example": f"127.0.0.1 --master-port {port}"})
    with (
        subprocess.Popen(["bash", "-c", work.line], cwd=scratch, env=sessions.environment()),
        subprocess.Popen(["bash", "-c", work.line], cwd=scratch, env=sessions.environment()),
    ):
        led = sessions.run(lead, scratch)
    assert led.returncode == 0, led.stdout + led.stderr
    run_dir = max((scratch / "runs").iterdir())
    assert len((run_dir / "requests.csv").read_text().splitlines()) > 2
    here = {"runs/20260101T120000Z-mixed-chat": str(run_dir), "--spool /tmp": f"--spool {scratch}"}
    recover, report = commands_with("tokenswarm recover")
    recovered = sessions.run(sessions.played(recover, here), scratch)
    assert "A worker that delivered everything leaves none" in recovered.stderr
    sessions.play(report, scratch, here)
