"""A scenario: which engine, what is sent, under which load, and what is good enough.

The tables of a scenario file as frozen models. `model_dump(mode="json")` of a `Scenario` is what goes into
run.json and to the workers; `Scenario.model_validate` reads it back.
"""

import re
import secrets
from typing import Annotated, Literal

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    ValidationInfo,
    field_validator,
)

from scenarios.spec.base import AsTuple, Strings, Table, raise_faults
from scenarios.spec.workload import WorkloadSpec

SECRET_HEADER = re.compile(r"authorization|cookie|(api|access|auth)[-_]?(key|token)|secret|token$", re.IGNORECASE)


class TimeoutSpec(Table):
    """Limits after which a request fails, in seconds; without `total_s` a stream may go on for ever."""

    connect_s: PositiveFloat = 5.0
    first_token_s: PositiveFloat = 120.0
    gap_s: PositiveFloat = Field(default=60.0, description="longest silence within a stream")
    total_s: PositiveFloat | None = None


class EngineSpec(Table):
    """Whom to ask, and how. The address itself is Locust's --host."""

    api: Literal["chat", "completions", "responses", "triton-generate", "triton-grpc"] = "chat"
    model: str = Field(default="", description="empty: the first model that the engine lists")
    api_key_env: str = Field(default="", description="variable that holds the key; empty: OPENAI_API_KEY if set")
    reuse_connections: bool = True
    verify_tls: bool = True
    ca_file: str = ""
    cumulative: bool = Field(default=False, description="each event repeats the whole text so far")
    tokenizer: str = Field(default="", description="tokenizer.json that counts answers where the engine tells no count")
    practice: Strings = Field(default=(), description="flags of the practice engine, used only without --host")
    headers: dict[str, str] = Field(default_factory=dict, description="`$NAME` stands for a variable's value")
    timeouts: TimeoutSpec = TimeoutSpec()

    @field_validator("headers")
    @classmethod
    def _no_secrets(cls, headers: dict[str, str]) -> dict[str, str]:
        # The scenario goes into run.json. The value is not shown either.
        told = [name for name, value in headers.items() if SECRET_HEADER.search(name) and "$" not in value]
        text = 'found a secret written out, expected the name of a variable, such as "$MY_KEY"'
        raise_faults([(f"headers.{name}", text) for name in told])
        return headers


class LoadSpec(Table):
    """How much is sent, and for how long each level lasts."""

    mode: Literal["concurrency"] = "concurrency"
    levels: Annotated[tuple[PositiveInt, ...], *AsTuple] = (1, 2, 4, 8)
    ramp_s: NonNegativeFloat = 1.0
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


class SloSpec(Table):
    """What is good enough: limits per request, and the share of started requests that must keep all of them."""

    ttft_ms: PositiveFloat | None = None
    tpot_ms: PositiveFloat | None = None
    e2e_ms: PositiveFloat | None = None
    attainment: float = Field(default=0.95, gt=0, le=1, validate_default=True)

    @field_validator("attainment")
    @classmethod
    def _limits_something(cls, attainment: float, info: ValidationInfo) -> float:
        if all(info.data.get(key, "faulty") is None for key in ("ttft_ms", "tpot_ms", "e2e_ms")):
            raise_faults([("", "no limit to attain, expected at least one of ttft_ms, tpot_ms, e2e_ms")])
        return attainment


class ReportSpec(Table):
    """How the run is reported."""

    window_s: PositiveFloat | None = Field(default=None, description="report by windows of this length (soak)")


def _drawn_seed() -> int:
    # Drawn, not fixed: a second run with the same prompts would measure the engine's prefix cache.
    return secrets.randbelow(2**31)


class Scenario(Table):
    """A whole scenario file."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", description="part of the run folder's name")]
    description: str = ""
    seed: int = Field(default_factory=_drawn_seed, description="absent: drawn for each run")
    engine: EngineSpec = EngineSpec()
    workload: WorkloadSpec = WorkloadSpec()
    load: LoadSpec = LoadSpec()
    slo: SloSpec | None = None
    report: ReportSpec = ReportSpec()
