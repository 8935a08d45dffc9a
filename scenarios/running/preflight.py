"""What is checked before the first measured request: that the engine answers, and which model it serves."""

from collections.abc import Iterable, Sequence

import openai

from scenarios.clients.factory import TRITON_APIS, list_models
from scenarios.clients.local_tokenizer import load_counter
from scenarios.clients.tokenize import prompt_counter
from scenarios.running.session import engine_access
from scenarios.running.triton_check import TritonUnfit, triton_model
from scenarios.spec import Scenario, ScenarioError
from scenarios.workload.calibration import UNCALIBRATED, Calibration, ask
from scenarios.workload.planner import Workload
from scenarios.workload.rows import WorkloadEnd

LIMIT_S = 5.0


class NothingToSend(Exception):
    """The scenario's dataset or trace has no usable row; the text says why."""


class EngineUnreachable(Exception):
    """The engine does not answer as one; the text says what was tried."""


def model_of_all(hosts: Sequence[str], scenario: Scenario) -> str:
    """The model that all replicas serve. EngineUnreachable if one does not answer, or serves another."""
    models = [first_model(host, scenario) for host in hosts]
    if len(set(models)) > 1:
        told = ", ".join(f"{host}: {model}" for host, model in zip(hosts, models, strict=True))
        raise EngineUnreachable(f"the hosts list different models ({told}). Name one with --set engine.model=NAME")
    return models[0]


def first_model(host: str, scenario: Scenario) -> str:
    """The scenario's model, or the first one that the engine lists. EngineUnreachable if it does not answer."""
    if scenario.engine.api in TRITON_APIS:
        try:
            return triton_model(host, scenario, LIMIT_S)
        except TritonUnfit as error:
            raise EngineUnreachable(str(error)) from error
    try:
        models = list_models(host, engine_access(scenario.engine).within(LIMIT_S))
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


def with_api_of(scenario: Scenario, user_classes: Iterable[type]) -> Scenario:
    """The scenario with the API that the users speak, where all of them speak one; else as it is."""
    apis = {getattr(user, "api", None) or scenario.engine.api for user in user_classes}
    if len(apis) != 1:
        return scenario
    return scenario.model_copy(update={"engine": scenario.engine.model_copy(update={"api": apis.pop()})})


def needs_host(scenario: Scenario) -> None:
    """EngineUnreachable for an API that the practice engine does not speak."""
    if scenario.engine.api in TRITON_APIS:
        raise EngineUnreachable(
            f"no --host given, and the practice engine does not speak {scenario.engine.api}: name a Triton, for "
            f"example -H {'grpc://gpu:8001' if scenario.engine.api == 'triton-grpc' else 'http://gpu:8000'}"
        )


def check_tokenizer(scenario: Scenario) -> None:
    """ScenarioError unless the tokenizer that the scenario names can be used."""
    if scenario.engine.tokenizer:
        try:
            load_counter(scenario.engine.tokenizer)
        except ValueError as error:
            raise ScenarioError([str(error)]) from None


def check_workload(scenario: Scenario) -> None:
    """NothingToSend unless there is at least a first request."""
    try:
        Workload(scenario.workload, scenario.seed, worker=0).next_request()
    except WorkloadEnd as end:
        raise NothingToSend(str(end)) from end


def calibrate(host: str, model: str, scenario: Scenario) -> Calibration:
    """How the engine counts prompts; where it does not tell, by the scenario's tokenizer, if there is one.

    Of what neither knows (the chat template above all) workers learn from the usage of the first answers.
    """
    calibration = UNCALIBRATED
    if scenario.engine.api not in TRITON_APIS:  # no such question there
        access = engine_access(scenario.engine).within(LIMIT_S)
        with prompt_counter(host, api=scenario.engine.api, model=model, access=access) as count:
            calibration = ask(scenario.workload, count, "tokenize")
    if calibration is UNCALIBRATED and scenario.engine.tokenizer:
        counter = load_counter(scenario.engine.tokenizer)
        calibration = ask(scenario.workload, lambda request: counter(request.prompt), "tokenizer")
    return calibration
