"""The [workload] table: what is sent."""

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
from scenarios.spec.data import DatasetSpec, PrefixSpec, TraceSpec
from scenarios.spec.images import ImagesSpec
from scenarios.spec.lengths import InputSpec, LengthSpec

DEFAULT_MIX = (
    InputSpec(tokens=128, weight=0.5),
    InputSpec(tokens=512, weight=0.3),
    InputSpec(tokens=2048, weight=0.2),
)


class ConversationSpec(Table):
    """Several turns with the whole history in each request; the first turn's length is one of `inputs`."""

    turns: LengthSpec = Field(description="questions of a conversation")
    later_input: LengthSpec | None = Field(default=None, description="length of later questions; absent: as `inputs`")


class CancelSpec(Table):
    """Requests that are given up on purpose, as people do who have read enough; counted apart."""

    share: float = Field(gt=0, le=1, description="of all requests")
    after_tokens: PositiveInt | None = Field(default=None, description="token events with that many tokens")
    after_ms: PositiveFloat | None = Field(default=None, description="since it was started", validate_default=True)

    @field_validator("after_ms")
    @classmethod
    def _some_instant(cls, after_ms: float | None, info: ValidationInfo) -> float | None:
        if (after_ms is None) == (info.data.get("after_tokens", "faulty") is None):
            found = "neither" if after_ms is None else "both"
            raise_faults([("", f"found {found} of after_tokens and after_ms, expected one of them")])
        return after_ms


class WorkloadSpec(Table):
    """What is sent: a mix of made-up prompts, or a dataset, or a trace; and the rest of the request's body."""

    inputs: Annotated[tuple[InputSpec, ...], *AsTuple] = DEFAULT_MIX
    prefix: PrefixSpec | None = None
    conversation: ConversationSpec | None = None
    dataset: DatasetSpec | None = None
    trace: TraceSpec | None = None
    output: LengthSpec = Field(default=LengthSpec(tokens=256), description="where the dataset does not tell")
    ignore_eos: bool = Field(default=True, description="ask the engine to go on to the full answer length")
    system_prompt: str = ""
    language: Literal["en", "zh"] = "en"
    cancel: CancelSpec | None = None
    images: ImagesSpec | None = Field(default=None, description="chat only")
    models: dict[str, NonNegativeFloat] = Field(default_factory=dict, description="names, such as LoRAs, by weight")
    extra_body: dict[str, Any] = Field(default_factory=dict, description="of every request: sampling, tools, priority")
    context_tokens: NonNegativeInt = Field(default=0, description="the model's context; 0: unknown")

    @field_validator("inputs")
    @classmethod
    def _weighted(cls, inputs: tuple[InputSpec, ...]) -> tuple[InputSpec, ...]:
        if not inputs:
            raise_faults([("", "found an empty list, expected at least one prompt length")])
        elif sum(each.weight for each in inputs) <= 0:
            raise_faults([("", "found weights that sum up to 0, expected at least one above 0")])
        return inputs

    @field_validator("models")
    @classmethod
    def _weighted_models(cls, models: dict[str, float]) -> dict[str, float]:
        if models and sum(models.values()) <= 0:
            raise_faults([("", "found weights that sum up to 0, expected at least one above 0")])
        return models

    @field_validator("images")
    @classmethod
    def _one_turn(cls, images: ImagesSpec | None, info: ValidationInfo) -> ImagesSpec | None:
        if images and info.data.get("conversation"):
            raise_faults([("", "not used with conversation: its history is text")])
        return images

    @field_validator("dataset", "trace")
    @classmethod
    def _one_source(cls, value: Any, info: ValidationInfo) -> Any:
        others = [key for key in ("prefix", "conversation", "dataset") if key != info.field_name and info.data.get(key)]
        if info.data.get("inputs", DEFAULT_MIX) != DEFAULT_MIX:
            others.append("inputs")
        if value and others:
            raise_faults([("", f"found beside {others[0]}, expected one of inputs (with its options), dataset, trace")])
        return value

    @field_validator("context_tokens")
    @classmethod
    def _fits_context(cls, context_tokens: int, info: ValidationInfo) -> int:
        """Refuse requests that the engine can only refuse. What has no upper bound is cut when it is drawn."""
        common = info.data.get("output")
        if not context_tokens or common is None or info.data.get("dataset") or info.data.get("trace"):
            return context_tokens
        faults = []
        prefix = info.data.get("prefix")
        prefix_tokens = prefix.tokens if prefix else 0
        for index, each in enumerate(info.data.get("inputs", ())):
            prompt = (each.longest() or 1) + prefix_tokens
            answer = (each.output or common).longest() or 1
            room = context_tokens - answer
            if room < prompt:
                limit = f"at most {room} prompt tokens fit" if room > 0 else "no prompt fits"
                size = f"inputs[{index}] may be {prompt} prompt + {answer} output"
                faults.append(("", f"found {context_tokens}, but {size}; {limit}"))
        raise_faults(faults)
        return context_tokens
