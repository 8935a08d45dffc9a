"""What made-up prompts of one length lack: shared beginnings, datasets and traces of production load.

Files are named as seen from where the command runs, or else from the scenario file's folder. Each worker
reads the file itself, so it has to lie at the same place on every machine.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationInfo,
    field_validator,
)

from scenarios.spec.base import Table, raise_faults


def resolved(file: str, info: ValidationInfo) -> str:
    """Absolute path of a file that a scenario names. A scenario that came over the wire is left as it is."""
    context: dict[str, Any] | None = info.context
    if context is None:
        return file
    for path in (Path(file), context["folder"] / file):
        if path.is_file():
            return str(path.resolve())
    raise_faults([("", f"no such file: {file} (looked in {Path.cwd()} and {context['folder'].resolve()})")])
    return file


DataFile = Annotated[str, AfterValidator(resolved)]


class DatasetSpec(Table):
    """Prompts from a file: ShareGPT JSON, OpenAI-batch JSONL, plain JSONL or CSV, told apart by their fields."""

    file: DataFile
    repeat: bool = Field(default=False, description="begin again at its end, instead of ending the load")
    max_bad_rows: NonNegativeInt = Field(default=100, description="stop when a worker has met more than these")


class TraceSpec(Table):
    """Recorded production load, lengths instead of texts: Mooncake JSONL, BurstGPT or Azure CSV."""

    file: DataFile
    speed: PositiveFloat = Field(default=1.0, description="2: the trace runs in half its time")
    start_s: NonNegativeFloat = Field(default=0.0, description="cut-out of the trace, in its own time")
    length_s: PositiveFloat | None = None
    block_tokens: PositiveInt = Field(default=512, description="tokens that one hash id of a Mooncake trace stands for")
    repeat: bool = False
    max_bad_rows: NonNegativeInt = 100

    @field_validator("repeat")
    @classmethod
    def _repeats_a_known_length(cls, repeat: bool, info: ValidationInfo) -> bool:
        # Each worker reads its own rows only, so none of them knows when the whole trace ends.
        if repeat and info.data.get("length_s", 0) is None:
            raise_faults([("", "found true without length_s, expected the length after which the trace begins again")])
        return repeat


class PrefixSpec(Table):
    """Beginnings that several prompts share, as system prompts and documents do; they come before each input."""

    pool: PositiveInt = Field(description="number of different beginnings")
    tokens: PositiveInt = Field(description="length of each of them")
    share: float = Field(default=1.0, ge=0, le=1, description="of prompts; the others begin as long, but on their own")
    pick: Literal["uniform", "zipf"] = "uniform"
    zipf_exponent: PositiveFloat = 1.0
