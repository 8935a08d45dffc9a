"""How long prompts and answers are: one table of a scenario file per length.

Says what may stand in such a table; drawing lengths from it is `scenarios.workload.lengths`.
"""

import math
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    ValidationInfo,
    field_validator,
    model_validator,
)

from scenarios.spec.base import Table, raise_faults
from scenarios.spec.data import DataFile

MAX_VALUES = 1000  # of an empirical distribution: they travel with the scenario

# Keys of each distribution: those it needs, those it may have.
KEYS: dict[str, tuple[set[str], set[str]]] = {
    "fixed": ({"tokens"}, set()),
    "uniform": ({"min", "max"}, set()),
    "normal": ({"mean", "stddev"}, {"min", "max"}),
    "lognormal": ({"sigma"}, {"mean", "median", "min", "max"}),
    "empirical": ({"values"}, {"file", "min", "max"}),
}


class LengthSpec(Table):
    """A length in tokens: always the same, or drawn from a distribution. `64` is short for `{tokens = 64}`."""

    tokens: PositiveInt | None = None
    min: PositiveInt | None = None
    max: PositiveInt | None = None
    mean: PositiveFloat | None = None
    stddev: NonNegativeFloat | None = None
    median: PositiveFloat | None = None
    sigma: NonNegativeFloat | None = None
    file: DataFile | None = Field(default=None, description="empirical: a text file with one length a line")
    values: Annotated[tuple[PositiveInt, ...] | None, Field(strict=False, validate_default=True)] = None
    # The last one: its check sees all the others, also beside faulty ones.
    distribution: Literal["fixed", "uniform", "normal", "lognormal", "empirical"] = Field(
        default="fixed", validate_default=True
    )

    @field_validator("values")
    @classmethod
    def _read_file(cls, values: tuple[int, ...] | None, info: ValidationInfo) -> tuple[int, ...] | None:
        # Read once, where the scenario is loaded: workers get the values with the scenario.
        file = info.data.get("file")
        return _quantiles(Path(file)) if file and values is None else values

    @model_validator(mode="before")
    @classmethod
    def _from_number(cls, value: Any) -> Any:
        return {"tokens": value} if isinstance(value, int) and not isinstance(value, bool) else value

    @field_validator("distribution")
    @classmethod
    def _has_its_keys(cls, distribution: str, info: ValidationInfo) -> str:
        found = info.data
        needed, allowed = KEYS[distribution]
        faults = [
            (key, f"missing; distribution {distribution!r} needs it")
            for key in sorted(needed)
            if found.get(key, "faulty") is None
        ]
        extra = sorted({key for key, value in found.items() if value is not None} - needed - allowed)
        faults += [(key, f"not used with distribution {distribution!r}") for key in extra]
        if (
            distribution == "lognormal"
            and [found.get("mean", "faulty"), found.get("median", "faulty")].count(None) != 1
        ):
            faults.append(("median", "distribution 'lognormal' needs either median or mean"))
        if (found.get("min") or 1) > (found.get("max") or math.inf):
            faults.append(("min", f"found {found['min']}, expected at most max ({found['max']})"))
        raise_faults(faults)
        return distribution

    def label(self) -> str:
        """Short name of the length: `512`, `100-200`, `normal 512±64`."""
        if self.distribution == "fixed":
            return str(self.tokens)
        if self.distribution == "uniform":
            return f"{self.min}-{self.max}"
        if self.distribution == "normal":
            return f"normal {self.mean:g}±{self.stddev:g}"
        if self.distribution == "empirical":
            return f"empirical {Path(self.file).stem}" if self.file else "empirical"
        return f"lognormal {self.median or self.mean:g}"

    def longest(self) -> int | None:
        """Upper bound in tokens, where there is one."""
        if self.values and self.max is None:
            return max(self.values)
        return self.tokens if self.distribution == "fixed" else self.max


def _quantiles(path: Path) -> tuple[int, ...]:
    """Lengths of a file in order; of more than MAX_VALUES, evenly spaced quantiles stand for all of them."""
    lengths = []
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), start=1):
        if not line.strip():
            continue
        if not line.strip().isdecimal() or int(line) < 1:
            raise_faults([("", f"{path} line {number}: found {line.strip()[:40]!r}, expected a length of at least 1")])
        lengths.append(int(line))
    if not lengths:
        raise_faults([("", f"{path}: no lengths in it, expected one a line")])
    lengths.sort()
    steps = min(len(lengths), MAX_VALUES)
    return tuple(lengths[(2 * step + 1) * len(lengths) // (2 * steps)] for step in range(steps))


class InputSpec(LengthSpec):
    """One class of prompts in a mix: its length, its share and, if it differs, its answer's length.

    `512` is short for `{tokens = 512}`, `"512:0.3"` for `{tokens = 512, weight = 0.3}`.
    """

    weight: NonNegativeFloat = 1.0
    output: LengthSpec | None = Field(default=None, description="answer length of this class")
    extra_body: dict[str, Any] = Field(default_factory=dict, description="of this class, such as its priority")

    @model_validator(mode="before")
    @classmethod
    def _from_short_form(cls, value: Any) -> Any:
        if not isinstance(value, str):
            return value
        tokens, _, weight = value.partition(":")
        try:
            return {"tokens": int(tokens), "weight": float(weight) if weight else 1.0}
        except ValueError:
            return value  # refused as "expected a table", with what stands there
