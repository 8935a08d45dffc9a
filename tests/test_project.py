"""What holds the project together: locks, make targets, hooks. Nothing here runs a load test."""

import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = [
    path.relative_to(ROOT).as_posix() for path in sorted([*ROOT.glob("*.lock"), *ROOT.glob("tests/engines/*.lock")])
]


def pins(lock: str) -> dict[str, set[Version]]:
    """Package -> the versions pinned for it (several where markers tell them apart)."""
    found: dict[str, set[Version]] = {}
    for name, version in re.findall(r"^([\w.-]+)==([^\s;\\]+)", (ROOT / lock).read_text(), re.MULTILINE):
        found.setdefault(canonicalize_name(name), set()).add(Version(version))
    return found


def declared(group: str | None) -> list[Requirement]:
    """Requirements of [project] or of one dependency group, groups within groups resolved."""
    if group is None:
        return [Requirement(text) for text in PYPROJECT["project"]["dependencies"]]
    requirements = []
    for entry in PYPROJECT["dependency-groups"][group]:
        requirements += declared(entry["include-group"]) if isinstance(entry, dict) else [Requirement(entry)]
    return requirements


def targets() -> dict[str, str]:
    return dict(re.findall(r"^([a-z-]+):.*?## (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE))


@pytest.mark.parametrize(
    ("lock", "group"),
    [
        ("requirements.lock", None),
        ("requirements.lock", "build"),
        ("requirements-dev.lock", None),
        ("requirements-dev.lock", "dev"),
    ],
)
def test_lock_pins_everything_pyproject_asks_for(lock, group):
    locked = pins(lock)
    stale = []
    for requirement in declared(group):
        versions = locked.get(canonicalize_name(requirement.name), set())
        if not versions or not all(requirement.specifier.contains(version) for version in versions):
            stale.append(str(requirement))
    assert not stale, f"{lock} does not fit pyproject.toml, run `make lock`: {stale}"


def test_tools_see_the_versions_that_users_run():
    development = pins("requirements-dev.lock")
    assert {name: development.get(name) for name in pins("requirements.lock")} == pins("requirements.lock")


@pytest.mark.parametrize("lock", LOCKS)
def test_every_pin_has_hashes_and_no_address(lock):
    text = (ROOT / lock).read_text()
    blocks = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]
    assert blocks
    assert all("--hash=sha256:" in block for block in blocks)
    assert "://" not in text
    assert not re.search(r"^-", text, re.MULTILINE)  # no option lines: where packages come from is the machine's choice


def test_make_help_lists_every_target_people_run():
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {"demo", "test", "check", "bench", "lock", "engines", "clean", "help"} <= targets().keys()
    for target, purpose in targets().items():
        assert re.search(rf"make {target} +{re.escape(purpose)}", shown)


def test_pre_commit_runs_the_commands_of_make_check():
    recipe = subprocess.run(["make", "-n", "check"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    recipe = recipe.replace(".venv/bin/python -m ", "").replace(".venv/bin/", "")
    entries = re.findall(r"entry: (.+)", (ROOT / ".pre-commit-config.yaml").read_text())
    assert len(entries) == 5
    for entry in entries:
        command = entry.replace(".venv/bin/python -m ", "").replace(".venv/bin/", "").replace(" --force-exclude", "")
        assert command in recipe, entry


def test_ci_runs_what_developers_run():
    script = (ROOT / ".ci" / "run").read_text()
    assert "\nmake check\n" in script
    assert '\nmake test || make test ARGS="--last-failed' in script
    assert "bash .ci/run" in (ROOT / ".github" / "workflows" / "ci.yml").read_text()


def test_package_is_not_for_upload():
    assert "Private :: Do Not Upload" in PYPROJECT["project"]["classifiers"]


@pytest.mark.parametrize(
    ("module", "forbidden"),
    [
        ("analysis/schema.py", "import scenarios.spec"),
        ("analysis/schema.py", "import gevent"),
        ("scenarios/spec/__init__.py", "import analysis.metrics"),
        ("scenarios/clients/call.py", "import locust"),
        ("scenarios/clients/call.py", "import scenarios.users"),
    ],
)
def test_import_rule_finds_what_it_forbids(tmp_path, module, forbidden):
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for package in ("analysis", "scenarios"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    with (tmp_path / module).open("a") as source:
        source.write(f"\n{forbidden}\n")
    linted = subprocess.run(
        [
            sys.executable,
            "-c",
            "from importlinter.cli import lint_imports_command; lint_imports_command()",
            "--no-cache",
        ],
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert linted.returncode == 1, linted.stdout + linted.stderr
    assert re.search(r"[1-9] broken", linted.stdout)
