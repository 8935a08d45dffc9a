"""Every fault of a scenario in one line: where, which key, what stands there, what is expected."""

import difflib
import json
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from scenarios.spec.base import COMBINATION
from scenarios.spec.overrides import dotted
from scenarios.spec.scenario import Scenario

MAX_SHOWN = 60  # characters of a faulty value

EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "text in quotes",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "finite_number": "a finite number",
    "greater_than": "a number above {gt:g}",
    "greater_than_equal": "a number of at least {ge:g}",
    "less_than": "a number below {lt:g}",
    "less_than_equal": "a number of at most {le:g}",
    "literal_error": "{expected}",
    "string_pattern_mismatch": "letters, digits, '.', '_' and '-' only, a letter or digit first",
}


def faults(error: ValidationError) -> Iterator[tuple[str, str]]:
    """(key, text) of every fault that the scenario's models found."""
    for each in error.errors(include_url=False):
        loc = each["loc"]
        if each["type"] == COMBINATION:
            for key, text in each["ctx"]["faults"]:
                yield dotted((*loc[:-1], key) if key else loc), text
        else:
            yield dotted(loc), _text(each)


def _text(error: ErrorDetails) -> str:
    kind, loc = error["type"], error["loc"]
    if kind == "extra_forbidden":
        return "unknown key" + _suggestion(loc)
    if kind == "missing":
        return "missing; it has to be set"
    expected = EXPECTED.get(kind)
    if expected is None:
        return f"found {_shown(error['input'])}; {error['msg']}"
    return f"found {_shown(error['input'])}, expected {expected.format(**error.get('ctx', {}))}"


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 1] + "…"


def _suggestion(loc: tuple[int | str, ...]) -> str:
    """The key that was probably meant: a similar one in the same table, else the same one in another."""
    name = str(loc[-1])
    siblings = list(_table(loc[:-1]).model_fields)
    close = difflib.get_close_matches(name, siblings, n=1)
    if close:
        return f"; did you mean {dotted((*loc[:-1], close[0]))}?"
    elsewhere = [path for path in known_keys(Scenario) if path.rpartition(".")[2] == name]
    if elsewhere:
        return f"; did you mean {elsewhere[0]}?"
    return f"; known here: {', '.join(siblings)}"


def _table(loc: tuple[int | str, ...]) -> type[BaseModel]:
    model: type[BaseModel] = Scenario
    for step in loc:
        if isinstance(step, str) and step in model.model_fields:
            model = next(_models(model.model_fields[step].annotation), model)
    return model


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Tables in an annotation such as `SloSpec | None` or `tuple[InputSpec, ...]`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for inner in get_args(annotation):
        yield from _models(inner)


def known_keys(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    """All keys of a table and of the tables in it, dotted."""
    for name, field in model.model_fields.items():
        yield prefix + name
        for inner in _models(field.annotation):
            yield from known_keys(inner, f"{prefix}{name}.")
