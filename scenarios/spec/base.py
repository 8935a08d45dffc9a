"""What all tables of a scenario file have in common: strict types, no unknown keys, all faults at once."""

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

COMBINATION = "combination"  # error type of `raise_faults`


class Table(BaseModel):
    """A table of a scenario file. "4" is not a number, unknown keys are faults, NaN and infinity too."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)


def raise_faults(faults: Sequence[tuple[str, str]]) -> None:
    """Raise (key, text) faults from a key's validator, several at once; the empty key is that key, others stand beside it."""
    if faults:
        text = "; ".join(f"{key}: {fault}" for key, fault in faults)
        raise PydanticCustomError(COMBINATION, "{text}", {"text": text, "faults": list(faults)})


def _listed(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


# Marks a list-valued key: TOML gives lists where the frozen model keeps tuples, and a lone value is a list of one.
AsTuple = (BeforeValidator(_listed), Field(strict=False))
# A lone number in a list of texts is a text: flags such as ["--speed", 10].
_Text = Annotated[str, BeforeValidator(lambda value: str(value) if type(value) in (int, float) else value)]
Strings = Annotated[tuple[_Text, ...], *AsTuple]
