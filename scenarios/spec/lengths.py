"""How long prompts and answers are: one table of a scenario file per length.

Says what may stand in such a table; drawing lengths from it is `scenarios.workload.lengths`.
"""

from typing import Any, Literal, Self

from pydantic import Field, NonNegativeFloat, PositiveFloat, PositiveInt, model_validator

from scenarios.spec.base import Table, raise_faults

# Keys of each distribution: those it needs, those it may have.
KEYS: dict[str, tuple[set[str], set[str]]] = {
    "fixed": ({"tokens"}, set()),
    "uniform": ({"min", "max"}, set()),
    "normal": ({"mean", "stddev"}, {"min", "max"}),
    "lognormal": ({"sigma"}, {"mean", "median", "min", "max"}),
}


class LengthSpec(Table):
    """A length in tokens: always the same, or drawn from a distribution. `64` is short for `{tokens = 64}`."""

    distribution: Literal["fixed", "uniform", "normal", "lognormal"] = "fixed"
    tokens: PositiveInt | None = None
    min: PositiveInt | None = None
    max: PositiveInt | None = None
    mean: PositiveFloat | None = None
    stddev: NonNegativeFloat | None = None
    median: PositiveFloat | None = None
    sigma: NonNegativeFloat | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_number(cls, value: Any) -> Any:
        return {"tokens": value} if isinstance(value, int) and not isinstance(value, bool) else value

    @model_validator(mode="after")
    def _check(self) -> Self:
        needed, allowed = KEYS[self.distribution]
        set_keys = {key for key in _LENGTH_KEYS if getattr(self, key) is not None}
        faults = [(key, f"missing; distribution {self.distribution!r} needs it") for key in sorted(needed - set_keys)]
        extra = sorted(set_keys - needed - allowed)
        faults += [(key, f"not used with distribution {self.distribution!r}") for key in extra]
        if self.distribution == "lognormal" and (self.mean is None) == (self.median is None):
            faults.append(("median", "distribution 'lognormal' needs either median or mean"))
        if self.min is not None and self.max is not None and self.min > self.max:
            faults.append(("min", f"found {self.min}, expected at most max ({self.max})"))
        raise_faults(faults)
        return self

    def label(self) -> str:
        """Short name of the length: `512`, `100-200`, `normal 512±64`."""
        if self.distribution == "fixed":
            return str(self.tokens)
        if self.distribution == "uniform":
            return f"{self.min}-{self.max}"
        if self.distribution == "normal":
            return f"normal {self.mean:g}±{self.stddev:g}"
        return f"lognormal {self.median or self.mean:g}"

    def longest(self) -> int | None:
        """Upper bound in tokens, where there is one."""
        return self.tokens if self.distribution == "fixed" else self.max


_LENGTH_KEYS = tuple(key for key in LengthSpec.model_fields if key != "distribution")


class InputSpec(LengthSpec):
    """One class of prompts in a mix: its length, its share and, if it differs, its answer's length.

    `512` is short for `{tokens = 512}`, `"512:0.3"` for `{tokens = 512, weight = 0.3}`.
    """

    weight: NonNegativeFloat = 1.0
    output: LengthSpec | None = Field(default=None, description="answer length of this class")

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
