"""What is checked before the first measured request: that the engine answers, and which model it serves."""

import openai

from scenarios.clients.factory import list_models
from scenarios.running.session import connection_options
from scenarios.spec import Scenario

LIMIT_S = 5.0


class EngineUnreachable(Exception):
    """The engine does not answer as one; the text says what was tried."""


def first_model(host: str, scenario: Scenario) -> str:
    """The scenario's model, or the first one that the engine lists. EngineUnreachable if it does not answer."""
    try:
        models = list_models(host, timeout_s=LIMIT_S, **connection_options(scenario.engine))
    except openai.APIConnectionError as error:
        reason = error.__cause__ or error
        raise EngineUnreachable(f"{host} does not answer: {reason}. Is the engine up, and is --host right?") from error
    except openai.APIError as error:
        if scenario.engine.model:
            return scenario.engine.model  # an engine without a list of models is one all the same
        raise EngineUnreachable(
            f"{host} lists no models: {error}. Name the model with --set engine.model=NAME"
        ) from error
    if scenario.engine.model:
        return scenario.engine.model
    if not models:
        raise EngineUnreachable(f"{host} lists no model at /v1/models. Name one with --set engine.model=NAME")
    return models[0]
