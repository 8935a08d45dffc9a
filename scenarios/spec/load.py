"""The [load] table: when requests are sent, and for how long each level lasts.

`mode` says what a level is: a concurrency, a rate, a recorded trace, one batch, or the steps of a search.
"""

from typing import Annotated, Any, Literal

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationInfo,
    field_validator,
)

from scenarios.spec.base import AsTuple, Table, raise_faults

Mode = Literal["concurrency", "rate", "trace", "batch", "search"]

PHASES = {"ramp_s", "warmup_s", "warmup_requests", "measure_s", "measure_requests", "measure_max_s"}
CAP = {"max_in_flight", "when_full"}
ARRIVALS = {"arrivals", "burstiness"}
# Keys that only some modes use. All others serve every mode.
KEYS: dict[str, set[str]] = {
    "concurrency": {"levels", "think_time_s", *PHASES},
    "rate": {"rates", *ARRIVALS, *CAP, *PHASES},
    "trace": {"warmup_s", *CAP},
    "batch": {"requests", "max_in_flight"},
    "search": {"search", "think_time_s", *ARRIVALS, *CAP, *PHASES},
}
SOME_MODES = set().union(*KEYS.values())


class SearchSpec(Table):
    """Search for the highest concurrency or rate that meets the SLO: doubling, then halving the gap."""

    over: Literal["concurrency", "rate"] = "concurrency"
    start: PositiveFloat = 1.0
    lowest: PositiveFloat = 1.0
    highest: PositiveFloat = 1024.0
    resolution: float = Field(default=0.05, gt=0, lt=1, description="of a rate, relative; a concurrency is found to 1")
    min_runs: PositiveInt = Field(default=2, description="runs of each of the two levels at the border")
    max_runs: PositiveInt = Field(default=4, description="... while it is not sure on which side they lie")
    sure: float = Field(default=0.95, gt=0.5, lt=1, validate_default=True)

    @field_validator("sure")
    @classmethod
    def _can_be_walked(cls, sure: float, info: ValidationInfo) -> float:
        found = info.data
        whole = ("start", "lowest", "highest") if found.get("over") == "concurrency" else ()
        faults: list[tuple[str, str]] = [
            (key, f"found {found[key]:g}, expected a whole number of requests in flight")
            for key in whole
            if found.get(key, 0) % 1
        ]
        if {"start", "lowest", "highest"} <= found.keys() and not found["lowest"] <= found["start"] <= found["highest"]:
            text = f"found {found['start']:g}, expected between lowest ({found['lowest']:g}) and highest ({found['highest']:g})"
            faults.append(("start", text))
        if found.get("max_runs", 1 << 30) < found.get("min_runs", 0):
            faults.append(("max_runs", f"found {found['max_runs']}, expected at least min_runs ({found['min_runs']})"))
        raise_faults(faults)
        return sure


class LoadSpec(Table):
    """How much is sent, and for how long each level lasts."""

    mode: Mode = "concurrency"
    levels: Annotated[tuple[PositiveInt, ...], *AsTuple] = Field(default=(1, 2, 4, 8), description="concurrencies")
    rates: Annotated[tuple[PositiveFloat, ...], *AsTuple] = Field(default=(), description="requests per second")
    requests: PositiveInt | None = Field(default=None, description="of a batch: all of them at once")
    arrivals: Literal["poisson", "constant", "gamma"] = "poisson"
    burstiness: PositiveFloat | None = Field(default=None, description="gamma: below 1 in bursts, above 1 more regular")
    max_in_flight: PositiveInt | None = Field(default=None, description="cap over all workers; absent: none")
    when_full: Literal["wait", "drop"] = Field(
        default="wait", description="a due request waits for a place, or is dropped"
    )
    ramp_s: NonNegativeFloat = Field(default=1.0, description="change from the load of the level before")
    # Warm-up and measure last until both their time and their number of requests are reached.
    warmup_s: NonNegativeFloat = 5.0
    warmup_requests: NonNegativeInt = 0
    measure_s: NonNegativeFloat = 30.0
    measure_requests: NonNegativeInt = Field(default=0, validate_default=True)
    measure_max_s: PositiveFloat | None = Field(default=None, description="cap on the measure phase")
    tail_s: NonNegativeFloat = Field(default=120.0, description="limit on holding the load for measured requests")
    stop_timeout_s: NonNegativeFloat = Field(default=5.0, description="then requests in flight are cut off")
    think_time_s: NonNegativeFloat = 0.0
    respect_retry_after: bool = Field(default=True, description="a refused user waits as told, at most a minute")
    # The last one: its check sees all the others, also beside faulty ones.
    search: SearchSpec | None = Field(default=None, validate_default=True)

    @property
    def over(self) -> str:
        """What the levels are: concurrencies, rates, or the one level of a trace or batch."""
        if self.mode == "search":
            return self.search.over if self.search else "concurrency"
        return self.mode

    @property
    def open_loop(self) -> bool:
        """Requests are sent when they are due, and not by users one after the other."""
        return self.over != "concurrency"

    @property
    def gap_shape(self) -> float | None:
        """Shape of the gamma distribution that gaps are drawn from; None: all gaps alike."""
        return {"poisson": 1.0, "constant": None, "gamma": self.burstiness}[self.arrivals]

    @field_validator("levels")
    @classmethod
    def _some_levels(cls, levels: tuple[int, ...]) -> tuple[int, ...]:
        raise_faults(
            [] if levels else [("", "found an empty list, expected at least one concurrency, for example [1, 2, 4]")]
        )
        return levels

    @field_validator("measure_requests")
    @classmethod
    def _measures_something(cls, requests: int, info: ValidationInfo) -> int:
        if requests == 0 and info.data.get("measure_s") == 0:
            raise_faults([("", "found 0 with measure_s = 0, expected one of them above 0")])
        return requests

    @field_validator("measure_max_s")
    @classmethod
    def _cap_is_not_below_time(cls, cap: float | None, info: ValidationInfo) -> float | None:
        if cap is not None and cap < info.data.get("measure_s", 0):
            raise_faults([("", f"found {cap:g}, expected at least measure_s ({info.data['measure_s']:g})")])
        return cap

    @field_validator("search")
    @classmethod
    def _fits_the_mode(cls, search: SearchSpec | None, info: ValidationInfo) -> SearchSpec | None:
        found = {**info.data, "search": search}
        if "mode" in found:
            raise_faults([*_missing(found), *_unused(found)])
        return search


def used_keys(mode: object) -> set[str]:
    """Keys that mean something in a mode."""
    return set(LoadSpec.model_fields) - SOME_MODES | KEYS.get(str(mode), SOME_MODES)


def _missing(found: dict[str, Any]) -> list[tuple[str, str]]:
    mode = found["mode"]
    faults = []
    if mode == "rate" and found.get("rates") == ():
        faults.append(("rates", "missing; mode 'rate' needs at least one, for example [2, 4, 8]"))
    if mode == "batch" and found.get("requests", 1) is None:
        faults.append(("requests", "missing; mode 'batch' needs the number of requests"))
    if mode == "search" and found["search"] is None:
        faults.append(("search", "missing; mode 'search' needs the table [load.search]"))
    if found.get("arrivals") == "gamma" and found.get("burstiness", 1) is None:
        faults.append(("burstiness", "missing; arrivals 'gamma' needs it"))
    if found.get("when_full") == "drop" and found.get("max_in_flight", 1) is None:
        faults.append(("max_in_flight", "missing; when_full 'drop' needs it"))
    return faults


def _unused(found: dict[str, Any]) -> list[tuple[str, str]]:
    mode, arrivals = found["mode"], found.get("arrivals")
    fields = LoadSpec.model_fields
    given = {key for key, value in found.items() if key in SOME_MODES and value != fields[key].default}
    faults = [(key, f"not used with mode {mode!r}{_other_mode(key)}") for key in sorted(given - KEYS[mode])]
    if arrivals in ("poisson", "constant") and found.get("burstiness") is not None and "burstiness" in KEYS[mode]:
        faults.append(("burstiness", f"not used with arrivals {arrivals!r}, only with 'gamma'"))
    return faults


def _other_mode(key: str) -> str:
    modes = [mode for mode, keys in KEYS.items() if key in keys]
    return f", only with {modes[0]!r}" if len(modes) == 1 else ""
