"""What is checked before the first measured request: that the engine answers, and which model it serves."""

from scenarios.clients import list_models
from scenarios.running.session import connection_options
from scenarios.spec import Scenario

LIMIT_S = 5.0


class EngineUnreachable(Exception):
    """The engine does not answer as one; the text says what was tried."""


def first_model(host: str, scenario: Scenario) -> str:
    """The scenario's model, or the first one that the engine lists. EngineUnreachable if it does not answer."""
    try:
        models = list_models(base_url=host, timeout_s=LIMIT_S, **connection_options(scenario.engine))
    except OSError as error:
        raise EngineUnreachable(f"{host} does not answer: {error}. Is the engine up, and is --host right?") from error
    if scenario.engine.model:
        return scenario.engine.model
    if not models:
        raise EngineUnreachable(f"{host} lists no model at /v1/models; name one with --set engine.model=NAME")
    return models[0]
