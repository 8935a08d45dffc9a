"""`--set load.levels=1,2,4`: values from the command line laid over a scenario file's tables.

Values are typed as in TOML, or as in JSON where TOML has no such value (null). What is neither is text, so
`engine.api=chat` needs no quotes; `'engine.model="7"'` keeps a number as text. Bare commas make a list.
"""

import json
import re
import tomllib
from typing import Any

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")


def apply(data: dict[str, Any], override: str) -> tuple[str, str | None]:
    """Set one `key=value` in the tables of a file; returns the key and, where it cannot be set, the fault."""
    key, equals, text = override.partition("=")
    key = key.strip()
    steps = [name or int(index) for name, index in _STEP.findall(key)]
    if not equals or not steps:
        return key, "expected key=value, for example load.levels=1,2,4"
    place: Any = data
    for number, step in enumerate(steps):
        done = dotted(tuple(steps[:number])) or "the scenario"
        if isinstance(place, list) and str(step).isdigit():
            step = int(step)  # noqa: PLW2901 - inputs.0 is inputs[0]
            if step >= len(place):
                return key, f"{done} has {len(place)} items, counted from 0"
        elif not isinstance(place, dict) or isinstance(step, int):
            return key, f"{done} is not a table"
        if number == len(steps) - 1:
            place[step] = typed(text.strip())
        elif isinstance(place, dict):
            place = place.setdefault(step, {})
        else:
            place = place[step]
    return key, None


def typed(text: str) -> Any:
    """Value of a command-line text: `true`, `64`, `0.5`, `null`, `"7"`, `[1, 2]`, `{tokens = 5}`, `1,2,4`, else text."""
    for parse in (_toml, json.loads):
        try:
            value = parse(text)
        except ValueError:
            continue
        if value is None or isinstance(value, bool | int | float | str | list | dict):
            return value  # and not a TOML date or time
    if "," in text:
        return [typed(part.strip()) for part in text.split(",") if part.strip()]
    return text


def _toml(text: str) -> Any:
    if "\n" in text:
        raise ValueError("one value, not a document")
    return tomllib.loads(f"value = {text}")["value"]


def dotted(loc: tuple[int | str, ...]) -> str:
    """Key as written in faults: `load.levels[2]`."""
    text = ""
    for step in loc:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text
