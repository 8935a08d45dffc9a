"""Errors as vLLM words them: the JSON body and the HTTP status of a request that can't be served."""

from typing import Any

_REASONS = {
    400: "BadRequestError",
    404: "NotFoundError",
    405: "MethodNotAllowedError",
    429: "TooManyRequestsError",
    500: "InternalServerError",
    503: "ServiceUnavailableError",
}


class RequestError(Exception):
    """A request that gets an error instead of an answer."""

    def __init__(self, status: int, message: str, param: str | None = None, kind: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.body: dict[str, Any] = error_body(status, message, param, kind)
        self.headers: list[tuple[bytes, bytes]] = []


def error_body(status: int, message: str, param: str | None = None, kind: str | None = None) -> dict[str, Any]:
    """The JSON of an error, in a response or as an event in the middle of a stream."""
    return {"error": {"message": message, "type": kind or _REASONS[status], "param": param, "code": status}}


def unauthorized() -> RequestError:
    """A missing or wrong API key. vLLM's body has no details here."""
    error = RequestError(401, "Unauthorized", kind="AuthenticationError")
    error.body = {"error": "Unauthorized"}
    return error


def unknown_model(model: str, served: str) -> RequestError:
    """Another model than the one served was asked for."""
    return RequestError(404, f"The model `{model}` does not exist. Valid aliases: {served}.", "model")


def invalid_field(field: str, message: str) -> RequestError:
    """A field of the body has the wrong type or value."""
    location = f"body.{field}" if field else "body"
    return RequestError(
        400, f"1 validation error:\n  {{'loc': '{location}', 'msg': '{message}'}}", location, "Bad Request"
    )


def malformed_json(position: str, message: str) -> RequestError:
    """The body is not JSON."""
    detail = f"{{'type': 'json_invalid', 'loc': 'body{position}', 'msg': 'JSON decode error', 'ctx': {{'error': '{message}'}}}}"
    return RequestError(400, f"1 validation error:\n  {detail}", f"body{position}", "Bad Request")


def prompt_too_long(prompt_tokens: int, max_model_len: int) -> RequestError:
    """The prompt alone fills the context."""
    return RequestError(
        400,
        f"This model's maximum context length is {max_model_len} tokens. However, your prompt contains at least "
        f"{prompt_tokens} input tokens, which exceeds this limit even without any output tokens. Please reduce "
        f"the length of the input prompt. (parameter=input_tokens, value={prompt_tokens})",
        "input_tokens",
    )


def output_too_long(max_tokens: int, prompt_tokens: int, max_model_len: int) -> RequestError:
    """The prompt fits, but not with the output that was asked for."""
    return RequestError(
        400,
        f"This model's maximum context length is {max_model_len} tokens. However, you requested {max_tokens} output "
        f"tokens and your prompt contains {prompt_tokens} input tokens, for a total of {prompt_tokens + max_tokens} "
        f"tokens. Please reduce the length of the input prompt or the number of requested output tokens. "
        f"(parameter=max_tokens, value={max_tokens})",
        "max_tokens",
    )
