"""A scenario: which engine, what is sent, under which load, and what is good enough.

The tables of a scenario file as frozen models. `model_dump(mode="json")` of a `Scenario` is what goes into
run.json and to the workers; `Scenario.model_validate` reads it back.
"""

import re
import secrets
from typing import Annotated, Literal

from pydantic import Field, PositiveFloat, PositiveInt, ValidationInfo, field_validator

from scenarios.spec.base import Strings, Table, raise_faults
from scenarios.spec.load import LoadSpec
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
    spread: Literal["round-robin", "per-user"] = Field(
        default="round-robin", description="how requests go to several hosts: --host http://a:8000,http://b:8000"
    )
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


class RecordingSpec(Table):
    """How the run folder is kept."""

    rotate_mb: PositiveInt = Field(default=256, description="tokens.csv goes on in a new file after so much")
    compress: bool = Field(default=False, description="gzip the token files that are full")


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
    recording: RecordingSpec = RecordingSpec()
    # The last one: its check sees all the others, also beside faulty ones.
    report: ReportSpec = Field(default=ReportSpec(), validate_default=True)

    @field_validator("report")
    @classmethod
    def _fits_together(cls, report: ReportSpec, info: ValidationInfo) -> ReportSpec:
        load, workload = info.data.get("load"), info.data.get("workload")
        faults = []
        if load and workload:
            if load.mode == "trace" and not workload.trace:
                faults.append(("load.mode", 'found "trace" without [workload.trace], expected the file to send'))
            if load.open_loop and workload.conversation:
                text = 'needs the users of load.mode = "concurrency": who asks on has to wait for the answer'
                faults.append(("workload.conversation", text))
        engine = info.data.get("engine")
        if engine and workload and workload.images and engine.api != "chat":
            faults.append(("workload.images", f"not used with engine.api {engine.api!r}, only with 'chat'"))
        if engine and load and load.open_loop and engine.spread == "per-user":
            faults.append(("engine.spread", 'found "per-user", but only load.mode = "concurrency" has users'))
        if load and load.mode == "search" and info.data.get("slo", "faulty") is None:
            faults.append(("slo", "missing; load.mode 'search' needs the limits to search for"))
        raise_faults(faults)
        return report
