"""Scenario files of a test's own, and what is told about faulty ones."""

from pathlib import Path

import pytest

from scenarios.spec import ScenarioError, load_scenario


def write(folder: Path, text: str) -> str:
    """The path of a scenario file that says `text`."""
    path = folder / "my.toml"
    path.write_text(text, encoding="utf-8")
    return str(path)


def faults_of(source: str, overrides: list[str] | None = None) -> list[str]:
    """All that is told when this scenario is loaded."""
    with pytest.raises(ScenarioError) as caught:
        load_scenario(source, overrides or [])
    assert str(caught.value) == "\n".join(caught.value.faults)
    return list(caught.value.faults)
