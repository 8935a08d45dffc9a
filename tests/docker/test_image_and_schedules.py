"""The container files and schedules, as far as a machine without a container engine can tell.

Every command in them is looked up in the real programs' help, and the image's content is assembled and run.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import sessions
from tests.support.compose import compose

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
SCHEDULES = DOCKER / "schedules"
BIN = Path(sys.executable).parent
DOCKERFILE = (DOCKER / "Dockerfile").read_text()


SERVICES = compose()["services"]


def crontab_command() -> str:
    """What cron hands to the shell: everything after the five times and the user."""
    jobs = [line for line in (SCHEDULES / "tokenswarm-soak.cron").read_text().splitlines() if re.match(r"[\d*]", line)]
    assert len(jobs) == 1
    return jobs[0].split(maxsplit=6)[6]


def documented_commands() -> dict[str, list[str]]:
    """Every locust and tokenswarm command line in docker/, by where it stands."""
    commands = {f"compose.yaml {name}": service["command"] for name, service in SERVICES.items()}
    for number, line in enumerate(DOCKERFILE.splitlines(), 1):
        if line.startswith("#") and (found := re.search(r"docker run .* tokenswarm ((?:locust|tokenswarm) .+)", line)):
            commands[f"Dockerfile line {number}"] = shlex.split(found[1])
    service = (SCHEDULES / "tokenswarm-soak.service").read_text()
    commands["service"] = shlex.split(re.findall(r"^ExecStart=\S*/(.+)$", service, re.MULTILINE)[0])
    commands["cron"] = shlex.split(re.findall(r"bin/(locust .+?) >", crontab_command())[0])
    return commands


def copied_into_image() -> list[str]:
    """Sources of the COPY lines that take files from the repository."""
    lines = [
        line.split()[1:-1] for line in DOCKERFILE.splitlines() if line.startswith("COPY ") and "--from" not in line
    ]
    return [source for line in lines for source in line]


def run_in_image(app, *command):
    environment = {"PATH": f"{BIN}:{os.environ['PATH']}", "PYTHONPATH": str(app), "HOME": "/nonexistent"}
    return subprocess.run(command, cwd=app, env=environment, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("where", documented_commands())
def test_every_option_in_a_documented_command_exists(image_root, where):
    program, *arguments = documented_commands()[where]
    words = [argument for argument in arguments if not argument.startswith("-")]
    options = {argument.split("=")[0] for argument in arguments if argument.startswith("-")}
    sub_command = words[:1] if program == "tokenswarm" else []
    shown = run_in_image(image_root, program, *sub_command, "--help")
    assert shown.returncode == 0, shown.stderr
    added = run_in_image(image_root, "python", "-c", sessions.PRINT_SUITE_OPTIONS) if program == "locust" else None
    known = set(re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", shown.stdout))
    known |= set(added.stdout.split()) if added else set()
    assert options <= known, added and added.stderr


def test_dockerignore_lets_through_exactly_what_is_copied():
    lines = (DOCKER / "Dockerfile.dockerignore").read_text().splitlines()
    allowed = {line[1:] for line in lines if line.startswith("!")}
    assert allowed == set(copied_into_image())
    assert all((ROOT / name).exists() for name in allowed)


def test_image_holds_all_that_the_commands_read(image_root):
    listed = run_in_image(image_root, "locust", "--list")
    assert "ChatUser" in listed.stdout + listed.stderr  # also: [tool.locust] makes plain `locust` start it
    assert (image_root / SERVICES["master"]["command"][1].split("=")[1]).is_file()
    imported = run_in_image(
        image_root, "python", "-c", "import analysis, scenarios.cli; print(analysis.__file__, scenarios.cli.__file__)"
    )
    assert all(Path(path).is_relative_to(image_root) for path in imported.stdout.split()), imported.stderr


def test_image_runs_as_a_user_that_owns_the_run_folder_only():
    final_stage = DOCKERFILE.split("\nFROM ")[-1]
    uid = re.findall(r"--uid (\d+)", final_stage)[0]
    assert f"\nUSER {uid}\n" in final_stage
    assert re.findall(r"-o tokenswarm .*?(/\S+)", final_stage) == ["/app/runs"]
    assert "--chown" not in final_stage


def test_image_is_installed_from_the_hashed_lock():
    assert "pip install --require-hashes -r requirements.lock" in DOCKERFILE
    assert set(re.findall(r"^FROM (\S+)", DOCKERFILE, re.MULTILINE)) == {"python:3.13-slim"}


def test_only_the_web_ui_is_published_and_only_on_loopback():
    published = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert published == ["127.0.0.1:8089:8089"]


def test_services_give_up_what_they_do_not_need():
    for service in SERVICES.values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["init"]


def test_service_references_resolve():
    declared = compose()
    for service in SERVICES.values():
        assert set(service.get("depends_on", [])) <= SERVICES.keys()
        assert {mount.split(":")[0] for mount in service.get("volumes", [])} <= declared["volumes"].keys()
        assert (DOCKER / service["build"]["context"] / service["build"]["dockerfile"]).resolve().is_file()
    assert f"--master-host={'master'}" in SERVICES["worker"]["command"]
    assert compose(WORKERS="8")["services"]["worker"]["deploy"]["replicas"] == 8
    assert "--expect-workers=8" in compose(WORKERS="8")["services"]["master"]["command"]


def test_health_checks_are_programs_that_fail_when_nobody_answers():
    for name in ("engine", "master"):
        kind, program, *arguments = SERVICES[name]["healthcheck"]["test"]
        assert (kind, program) == ("CMD", "python")
        code = re.sub(r":\d+/", ":1/", arguments[1])  # port 1: nobody listens there
        checked = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
        assert checked.returncode != 0
        assert "refused" in checked.stderr


def test_cron_job_is_a_shell_command_without_percent_signs():
    checked = subprocess.run(["bash", "-n", "-c", crontab_command()], capture_output=True, text=True)
    assert checked.returncode == 0, checked.stderr
    assert "%" not in crontab_command()  # cron would turn it into a line break


def test_schedules_run_the_soak_scenario():
    assert (ROOT / "scenarios" / "soak.toml").is_file()
    for where in ("cron", "service"):
        command = documented_commands()[where]
        assert command[command.index("--scenario") + 1] == "scenarios/soak.toml"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze on this machine")
def test_systemd_accepts_the_units(tmp_path):
    program = tmp_path / "locust"
    program.touch(0o755)
    for unit in SCHEDULES.glob("tokenswarm-soak.[st]*r*"):
        text = unit.read_text().replace("/opt/tokenswarm/.venv/bin/locust", str(program))
        (tmp_path / unit.name).write_text(text)
    units = sorted(path for path in tmp_path.iterdir() if path != program)
    assert [unit.suffix for unit in units] == [".service", ".timer"]
    checked = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, timeout=60)
    assert (checked.returncode, checked.stderr) == (0, "")
    when = re.findall(r"^OnCalendar=(.+)$", (SCHEDULES / "tokenswarm-soak.timer").read_text(), re.MULTILINE)
    assert subprocess.run(["systemd-analyze", "calendar", *when], capture_output=True, timeout=60).returncode == 0
