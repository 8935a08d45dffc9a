"""What is checked of a Triton before the first measured request: server, model, and a request that fits it."""

import logging

from scenarios.clients.dial import WireError
from scenarios.clients.factory import build_triton_client
from scenarios.clients.triton_model import InvalidInputs, TritonClient, input_values, text_models
from scenarios.running.session import engine_access
from scenarios.spec import EngineSpec, Scenario, ScenarioError
from scenarios.workload.planner import Workload

logger = logging.getLogger(__name__)

NO_MODEL = ("http_400", "http_404", "grpc_not_found", "grpc_unavailable", "grpc_invalid_argument")
NO_CONNECTION = ("connect", "timeout_connect", "disconnected", "tls")


class TritonUnfit(Exception):
    """This server can't be measured with this scenario; the text says why and what to do."""


def triton_model(host: str, scenario: Scenario, limit_s: float) -> str:
    """The scenario's model, or the only one that generates text. Raises `TritonUnfit`, `ScenarioError`."""
    engine = scenario.engine
    try:
        client = build_triton_client(engine.api, host, engine.model, engine_access(engine).within(limit_s))
    except ValueError as error:
        raise TritonUnfit(f"--host: {error}") from None
    try:
        return _checked(client, host, scenario)
    except WireError as error:
        if error.error_class in NO_CONNECTION:
            raise TritonUnfit(f"{host} does not answer: {error.text}. {_advice(engine)}") from None
        raise TritonUnfit(f"{host} answers {error.error_class}: {error.text}. {_advice(engine)}") from None
    finally:
        client.close()


def _advice(engine: EngineSpec) -> str:
    port = "gRPC port (8001 by default)" if engine.api == "triton-grpc" else "HTTP port (8000 by default)"
    return f"Is Triton up, and is its {port} the one in --host?"


def _checked(client: TritonClient, host: str, scenario: Scenario) -> str:
    if not client.is_ready():
        raise TritonUnfit(f"{host} is up, but not ready: a model may still be loading, or have failed to load")
    name = scenario.engine.model or _only_model(client, host)
    try:
        model = client.describe(name)
    except WireError as error:
        if error.error_class not in NO_MODEL:
            raise
        raise TritonUnfit(f"{host} has no model {name!r}: {error.text}; {_what_it_has(client)}") from None
    try:
        input_values(model, Workload(scenario.workload, scenario.seed, worker=0).next_request())
    except InvalidInputs as error:
        raise ScenarioError([str(error)]) from None
    if model.decoupled is False:
        logger.warning(
            "Model %s is not decoupled, so it answers in one piece: its TTFT is the whole latency. "
            "A streaming model has model_transaction_policy { decoupled: true } in its config.pbtxt",
            name,
        )
    return name


def _only_model(client: TritonClient, host: str) -> str:
    models = text_models(client)
    if len(models) == 1:
        return models[0]
    found = f"several models that generate text ({', '.join(models)})" if models else "no model that generates text"
    has = "" if models else f"; {_what_it_has(client)}"
    raise TritonUnfit(f"{host} has {found}{has}. Name one with --set engine.model=NAME")


def _what_it_has(client: TritonClient) -> str:
    try:
        return f"it has {', '.join(client.list_models()) or 'none'}"
    except WireError as error:
        return f"its list of models is not to be had ({error.text})"
