"""Reads a scenario file, lays the command line's values over it and checks the whole, all faults at once."""

import difflib
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from scenarios.spec.faults import faults
from scenarios.spec.load import LoadSpec, used_keys
from scenarios.spec.overrides import apply
from scenarios.spec.scenario import Scenario

SHIPPED_FOLDER = Path(__file__).parents[1]


class ScenarioError(Exception):
    """A scenario that cannot be run; `faults` has one line for each reason."""

    def __init__(self, faults: Sequence[str]) -> None:
        super().__init__("\n".join(faults))
        self.faults = tuple(faults)


def shipped_scenarios() -> list[str]:
    """Names of the scenarios that come with the suite."""
    return sorted(path.stem for path in SHIPPED_FOLDER.glob("*.toml"))


def load_scenario(source: str, overrides: Sequence[str] = ()) -> Scenario:
    """Scenario from a file, or from a shipped one by its name, with `key=value` overrides laid over it."""
    path = _find(source)
    data = _read(path)
    lines = []
    set_keys = []
    for override in overrides:
        key, fault = apply(data, override)
        set_keys.append(key)
        if fault:
            lines.append(f"--set {key}: {fault}")  # without the value: it may be a secret
    _drop_keys_of_another_mode(data, set_keys)
    try:
        scenario = Scenario.model_validate(data, context={"folder": path.parent})
    except ValidationError as error:
        for key, text in faults(error):
            lines.append(f"{_origin(key, set_keys, path)}: {key}: {text}")
    if lines:
        raise ScenarioError(lines)
    return scenario


def _drop_keys_of_another_mode(data: dict[str, Any], set_keys: Sequence[str]) -> None:
    """`--set load.mode=rate` on a scenario of levels: what the file says for its own mode does not count."""
    load = data.get("load")
    if "load.mode" not in set_keys or not isinstance(load, dict):
        return
    given = {step for key in set_keys for step in key.split(".")[1:2] if key.startswith("load.")}
    for key in load.keys() & LoadSpec.model_fields.keys() - used_keys(load["mode"]) - given:
        del load[key]


def _find(source: str) -> Path:
    path = Path(source)
    if path.is_file():
        return path
    shipped = SHIPPED_FOLDER / f"{source.removesuffix('.toml')}.toml"
    if path.name == source and shipped.is_file():
        return shipped
    names = shipped_scenarios()
    close = difflib.get_close_matches(path.stem, names, n=1)
    meant = f"; did you mean {close[0]}?" if close else f"; shipped ones: {', '.join(names)}"
    raise ScenarioError([f"{source}: no such scenario file{meant}"])


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ScenarioError([f"{path}: cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError as error:
        raise ScenarioError([f"{path}: not UTF-8 text at byte {error.start}"]) from None
    except tomllib.TOMLDecodeError as error:
        raise ScenarioError([f"{path}: not valid TOML: {error}"]) from None


def _origin(key: str, set_keys: Sequence[str], path: Path) -> str:
    """Where a faulty key was written: on the command line or in the file."""
    for set_key in set_keys:
        if key == set_key or key.startswith((f"{set_key}.", f"{set_key}[")):
            return "--set"
    return str(path)
