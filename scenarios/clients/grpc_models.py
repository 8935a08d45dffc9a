"""What a Triton says of a model over gRPC, brought into the form that its HTTP API has."""

from collections.abc import Callable
from typing import Any

from tritonclient.grpc import service_pb2

from scenarios.clients.dial import WireError
from scenarios.clients.triton_model import TritonModel, read_model, unknown_model


def described(name: str, ask: Callable[[str, Any], Any]) -> TritonModel:
    """One model, by the answers that `ask` has to a method and its message. Raises `WireError`."""
    try:
        metadata = ask("ModelMetadata", service_pb2.ModelMetadataRequest(name=name))
    except WireError as error:
        if error.error_class != "grpc_unimplemented":
            raise
        return unknown_model(name)
    try:
        config = _config(ask("ModelConfig", service_pb2.ModelConfigRequest(name=name)).config)
    except WireError:
        config = None  # KServe's own protocol has no such call
    tensors = {"inputs": _tensors(metadata.inputs), "outputs": _tensors(metadata.outputs)}
    return read_model({"name": name, **tensors}, config)


def _tensors(tensors: Any) -> list[dict[str, Any]]:
    return [{"name": each.name, "datatype": each.datatype, "shape": list(each.shape)} for each in tensors]


def _config(config: Any) -> dict[str, Any]:
    return {
        "input": [{"name": each.name, "optional": each.optional} for each in config.input],
        "model_transaction_policy": {"decoupled": config.model_transaction_policy.decoupled},
        "ensemble_scheduling": config.HasField("ensemble_scheduling"),
    }
