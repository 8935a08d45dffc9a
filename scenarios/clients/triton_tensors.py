"""Triton's gRPC messages: plain values to a request, a response to what measuring needs of it.

Tensors travel as raw bytes in the order of their names; each string in one has a 4-byte length in front.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError
from tritonclient.grpc import service_pb2

from scenarios.clients.payloads import Choice, Chunk, Usage
from scenarios.clients.triton_model import TEXT, Tensor, TritonModel

_LENGTH = struct.Struct("<I")
_FORMATS = {
    "BOOL": "?",
    "INT8": "b",
    "INT16": "h",
    "INT32": "i",
    "INT64": "q",
    "UINT8": "B",
    "UINT16": "H",
    "UINT32": "I",
    "UINT64": "Q",
    "FP16": "e",
    "FP32": "f",
    "FP64": "d",
}


class MalformedResponse(ValueError):
    """A response that is not what its own description says."""


def encode_request(model: TritonModel, values: Mapping[str, Any], request_id: str) -> bytes:
    """A ModelInferRequest; it asks for the empty last response by which some models end their stream."""
    message = service_pb2.ModelInferRequest(model_name=model.name, id=request_id)
    message.parameters["triton_enable_empty_final_response"].bool_param = True
    for name, value in values.items():
        tensor = model.inputs[name]
        elements = value if isinstance(value, list | tuple) else [value]
        message.inputs.add(name=name, datatype=tensor.datatype, shape=_shape(tensor, len(elements)))
        message.raw_input_contents.append(_encode(tensor.datatype, elements))
    for name in model.wanted_outputs:
        message.outputs.add(name=name)
    encoded: bytes = message.SerializeToString()
    return encoded


def _shape(tensor: Tensor, count: int) -> list[int]:
    leading = [1 if size == -1 else size for size in tensor.shape[:-1]]
    return [*leading, count] if tensor.shape else []


def _encode(datatype: str, elements: Sequence[Any]) -> bytes:
    if datatype == "BYTES":
        encoded = [element.encode() for element in elements]
        return b"".join(_LENGTH.pack(len(each)) + each for each in encoded)
    return struct.pack(f"<{len(elements)}{_FORMATS[datatype]}", *elements)


@dataclass(frozen=True, slots=True)
class Response:
    """One response of a stream. `final` is None where the server does not say whether it is the last one."""

    request_id: str
    chunk: Chunk
    final: bool | None


def decode_response(data: bytes) -> Response:
    """A ModelStreamInferResponse. Raises `MalformedResponse`."""
    try:
        message = service_pb2.ModelStreamInferResponse.FromString(data)
    except DecodeError as error:
        raise MalformedResponse(f"a response is no ModelStreamInferResponse: {error}") from None
    response = message.infer_response
    parameters = response.parameters
    final = parameters["triton_final_response"].bool_param if "triton_final_response" in parameters else None
    if message.error_message:
        return Response(response.id, Chunk(error_text=message.error_message), final)
    outputs = {output.name: _decode(response, index) for index, output in enumerate(response.outputs)}
    text = b"".join(outputs.get(TEXT, ())).decode("utf-8", "replace")
    reason = b"".join(outputs.get("finish_reason", ())).decode("utf-8", "replace")
    choice = Choice(text=text, finish_reason=None if reason in ("", "None") else reason)
    input_tokens = outputs.get("num_input_tokens")
    usage = Usage(prompt_tokens=max(input_tokens)) if input_tokens else None
    counts = outputs.get("num_output_tokens")
    chunk = Chunk(choices=[choice], usage=usage, event_tokens=sum(counts) if counts else None)
    return Response(response.id, chunk, final)


def _decode(response: Any, index: int) -> list[Any]:
    """The elements of one output; empty for a tensor that the server left out."""
    output = response.outputs[index]
    if index >= len(response.raw_output_contents):
        contents = output.contents
        return [element for _, field in contents.ListFields() for element in field]
    raw = response.raw_output_contents[index]
    if output.datatype == "BYTES":
        return _split(output.name, raw)
    code = _FORMATS.get(output.datatype)
    if code is None:
        return []
    size = struct.calcsize("<" + code)
    if len(raw) % size:
        raise MalformedResponse(f"output {output.name}: {len(raw)} bytes are no {output.datatype} values")
    return list(struct.unpack(f"<{len(raw) // size}{code}", raw))


def _split(name: str, raw: bytes) -> list[bytes]:
    elements = []
    position = 0
    while position < len(raw):
        start = position + _LENGTH.size
        if start > len(raw):
            raise MalformedResponse(f"output {name}: a length is cut off")
        (length,) = _LENGTH.unpack_from(raw, position)
        position = start + length
        if position > len(raw):
            raise MalformedResponse(f"output {name}: a string of {length} bytes is cut off")
        elements.append(raw[start:position])
    return elements
