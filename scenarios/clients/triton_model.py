"""What a Triton model takes and gives, by its own metadata, and the inputs of one request to it.

Two interfaces are known by their inputs: the vLLM backend's (`sampling_parameters`, a JSON string) and the
TensorRT-LLM backend's (`max_tokens` and each sampling parameter an input of its own; ensemble and BLS alike).
Plain values only: tensors and JSON bodies are made from them elsewhere.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from scenarios.clients.call import Client, LLMRequest

PROMPT = "text_input"
TEXT = "text_output"
SAMPLING = "sampling_parameters"
# outputs that are asked for where the model has them; what else it gives may be large (logits) and is not needed
OUTPUTS = (TEXT, "finish_reason", "num_input_tokens", "num_output_tokens")
# inputs that are switched on where the model has them
SWITCHES = (
    "stream",
    "exclude_input_in_output",
    "return_finish_reason",
    "return_num_input_tokens",
    "return_num_output_tokens",
)
# inputs by which the TensorRT-LLM backend is asked not to stop early; older versions have the second name
LEAST_TOKENS = ("min_tokens", "min_length")


class TritonClient(Client, Protocol):
    """A client of a Triton server, which tells about itself. All of these raise `scenarios.clients.dial.WireError`."""

    def is_ready(self) -> bool:
        """Whether the server says that it and its models are ready."""

    def list_models(self) -> list[str]:
        """Names of the models that are loaded."""

    def describe(self, name: str) -> "TritonModel":
        """One model by its metadata."""


class InvalidInputs(ValueError):
    """The request does not fit the model; the text names what the model has."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output. `shape` counts the batch dimension, -1 is any size; `required` is None if unknown."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    required: bool | None = None

    def __str__(self) -> str:
        return f"{self.name} ({self.datatype} {list(self.shape)}{', required' if self.required else ''})"


@dataclass(frozen=True, slots=True)
class TritonModel:
    """One model of a server."""

    name: str
    inputs: Mapping[str, Tensor]
    outputs: Mapping[str, Tensor]
    decoupled: bool | None  # whether it may give several responses to a request; None where the server does not say

    @property
    def generates_text(self) -> bool:
        """Whether it has the inputs and outputs of one of the two interfaces."""
        has_length = SAMPLING in self.inputs or "max_tokens" in self.inputs
        return PROMPT in self.inputs and TEXT in self.outputs and has_length

    @property
    def wanted_outputs(self) -> tuple[str, ...]:
        return tuple(name for name in OUTPUTS if name in self.outputs)


def read_model(metadata: Mapping[str, Any], config: Mapping[str, Any] | None) -> TritonModel:
    """A model from the server's JSON: `/v2/models/NAME` and, where the server has it, `/v2/models/NAME/config`."""
    config = config or {}
    optional = {each["name"]: bool(each.get("optional")) for each in config.get("input", ())}

    def tensors(key: str) -> dict[str, Tensor]:
        return {
            each["name"]: Tensor(
                each["name"],
                each["datatype"],
                tuple(int(size) for size in each.get("shape", ())),
                not optional[each["name"]] if key == "inputs" and each["name"] in optional else None,
            )
            for each in metadata.get(key, ())
        }

    policy = config.get("model_transaction_policy") or {}
    decoupled = bool(policy.get("decoupled")) if config else None
    if config.get("ensemble_scheduling"):
        decoupled = None  # its steps decide, and its own configuration does not tell
    return TritonModel(metadata["name"], tensors("inputs"), tensors("outputs"), decoupled)


def unknown_model(name: str) -> TritonModel:
    """A model of a server that tells no metadata: vLLM's interface, with what every version of it has."""
    inputs = {PROMPT: "BYTES", "stream": "BOOL", SAMPLING: "BYTES"}
    return TritonModel(
        name,
        {each: Tensor(each, datatype, (1,)) for each, datatype in inputs.items()},
        {TEXT: Tensor(TEXT, "BYTES", (-1,))},
        None,
    )


def text_models(client: TritonClient) -> list[str]:
    """Names of a server's models that generate text by one of the two interfaces. Raises `WireError`."""
    return [name for name in client.list_models() if client.describe(name).generates_text]


def input_values(model: TritonModel, request: LLMRequest) -> dict[str, Any]:
    """Value by input name; `extra_body` wins, and None in it leaves an input out. Raises `InvalidInputs`."""
    if not model.generates_text:
        raise InvalidInputs(
            f"model {model.name} does not generate text by an interface that is known: expected inputs {PROMPT} and "
            f"max_tokens or {SAMPLING}, and an output {TEXT}; {_what_it_has(model)}"
        )
    values: dict[str, Any] = {PROMPT: _prompt(request)}
    values.update({name: True for name in SWITCHES if name in model.inputs})
    extra = dict(request.extra_body)
    if "model" not in model.inputs:
        extra.pop("model", None)  # names the model itself, as in a body of the OpenAI APIs
    if SAMPLING in model.inputs:
        values[SAMPLING] = _sampling_parameters(model, request, extra)
    elif request.max_tokens is not None:
        values["max_tokens"] = request.max_tokens
        least = next((name for name in LEAST_TOKENS if name in model.inputs), None)
        if request.ignore_eos and least:
            values[least] = request.max_tokens
    values.update(extra)
    values = {name: value for name, value in values.items() if value is not None}
    if faults := list(_faults(model, values)):
        raise InvalidInputs(f"model {model.name}: {'; '.join(faults)}; {_what_it_has(model)}")
    return values


def _prompt(request: LLMRequest) -> str:
    # Triton's text interfaces know no chat template: the contents are sent as they are, one after the other
    return request.prompt or "\n\n".join(str(message.get("content") or "") for message in request.messages or ())


def _sampling_parameters(model: TritonModel, request: LLMRequest, extra: dict[str, Any]) -> str | None:
    """The parameters as the JSON string that vLLM takes. What names no input in `extra` is one, and is taken out."""
    parameters: dict[str, Any] = {}
    if request.max_tokens is not None:
        parameters["max_tokens"] = request.max_tokens
    if request.ignore_eos:
        parameters["ignore_eos"] = True
    given = extra.pop(SAMPLING, {})
    if given is None:
        return None
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            given = None
    if not isinstance(given, Mapping):
        raise InvalidInputs(f"model {model.name}: {SAMPLING} is no JSON object")
    parameters.update(given)
    for name in [name for name in extra if name not in model.inputs]:
        parameters[name] = extra.pop(name)
    return json.dumps({name: value for name, value in parameters.items() if value is not None})


def _faults(model: TritonModel, values: Mapping[str, Any]) -> Iterable[str]:
    for name, value in values.items():
        tensor = model.inputs.get(name)
        if tensor is None:
            yield f"there is no input {name}"
        elif fault := _type_fault(tensor, value):
            yield fault
    for tensor in model.inputs.values():
        if tensor.required and tensor.name not in values:
            yield f"input {tensor.name} ({tensor.datatype}) is missing: give it in workload.extra_body"


def _type_fault(tensor: Tensor, value: Any) -> str | None:
    elements = value if isinstance(value, list | tuple) else [value]
    for element in elements:
        if not _fits(tensor.datatype, element):
            return f"input {tensor.name} is {tensor.datatype}, found {element!r}"
    size = tensor.shape[-1] if tensor.shape else 1
    if size not in (-1, len(elements)):
        return f"input {tensor.name} takes {size} values, found {len(elements)}"
    return None


def _fits(datatype: str, value: Any) -> bool:
    if datatype == "BOOL":
        return isinstance(value, bool)
    if datatype == "BYTES":
        return isinstance(value, str)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    if datatype.startswith("FP"):
        return True
    return isinstance(value, int) and (value >= 0 or not datatype.startswith("UINT"))


def _what_it_has(model: TritonModel) -> str:
    inputs = ", ".join(str(tensor) for tensor in model.inputs.values()) or "none"
    return f"its inputs are {inputs}; its outputs are {', '.join(model.outputs) or 'none'}"
