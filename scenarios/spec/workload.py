"""The [workload] table: what is sent."""

from typing import Annotated, Any, Literal

from pydantic import Field, NonNegativeInt, ValidationInfo, field_validator

from scenarios.spec.base import AsTuple, Table, raise_faults
from scenarios.spec.lengths import InputSpec, LengthSpec

DEFAULT_MIX = (
    InputSpec(tokens=128, weight=0.5),
    InputSpec(tokens=512, weight=0.3),
    InputSpec(tokens=2048, weight=0.2),
)


class WorkloadSpec(Table):
    """What is sent: a mix of prompt lengths, the length of the answers and the rest of the request's body."""

    inputs: Annotated[tuple[InputSpec, ...], *AsTuple] = DEFAULT_MIX
    output: LengthSpec = LengthSpec(tokens=256)
    ignore_eos: bool = Field(default=True, description="ask the engine to go on to the full answer length")
    system_prompt: str = ""
    language: Literal["en", "zh"] = "en"
    extra_body: dict[str, Any] = Field(default_factory=dict, description="further keys of the request's body")
    context_tokens: NonNegativeInt = Field(default=0, description="the model's context; 0: unknown")

    @field_validator("inputs")
    @classmethod
    def _weighted(cls, inputs: tuple[InputSpec, ...]) -> tuple[InputSpec, ...]:
        if not inputs:
            raise_faults([("", "found an empty list, expected at least one prompt length")])
        elif sum(each.weight for each in inputs) <= 0:
            raise_faults([("", "found weights that sum up to 0, expected at least one above 0")])
        return inputs

    @field_validator("context_tokens")
    @classmethod
    def _fits_context(cls, context_tokens: int, info: ValidationInfo) -> int:
        """Refuse requests that the engine can only refuse. What has no upper bound is cut when it is drawn."""
        common = info.data.get("output")
        if not context_tokens or common is None:
            return context_tokens
        faults = []
        for index, each in enumerate(info.data.get("inputs", ())):
            prompt = each.longest()
            answer = (each.output or common).longest() or 1
            room = context_tokens - answer
            if room < (prompt or 1):
                limit = f"at most {room} prompt tokens fit" if room > 0 else "no prompt fits"
                faults.append(
                    (
                        "",
                        f"found {context_tokens}, but inputs[{index}] may be {prompt or 1} prompt + {answer} output; {limit}",
                    )
                )
        raise_faults(faults)
        return context_tokens
