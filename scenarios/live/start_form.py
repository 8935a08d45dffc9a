"""The start form of the web UI: which scenario, what to override in it, which model; and what was filled in."""

from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from locust.web import WebUI

from scenarios.live import locust_seams
from scenarios.spec import ScenarioError, shipped_scenarios

SEPARATOR = ";"


def fields(options: Namespace, given: str, model: str) -> dict[str, dict[str, Any]]:
    """The form's own fields, in Locust's terms; `given` is the scenario of the command line."""
    known = [given, *(name for name in shipped_scenarios() if name != given)]
    plain = {"is_secret": False, "is_required": False, "is_multiple": False, "choices": None}
    return {
        "scenario": {**plain, "choices": known, "default_value": options.scenario, "help_text": None},
        "overrides": {
            **plain,
            "default_value": "",
            "help_text": f"KEY=VALUE{SEPARATOR} KEY=VALUE, for example load.levels=1,2,4{SEPARATOR} slo.ttft_ms=300",
        },
        "model": {**plain, "default_value": model, "help_text": "empty: the scenario's, or the engine's first one"},
    }


def filled_in(form: Mapping[str, str], given: str) -> tuple[str, list[str]]:
    """Scenario and overrides of a form that was sent. ScenarioError for one that is not on the list."""
    source = form.get("scenario") or given
    if source != given and source not in shipped_scenarios():
        raise ScenarioError([f"scenario {source!r}: not on the list; give a file of your own with --scenario at start"])
    overrides = [part.strip() for part in form.get("overrides", "").split(SEPARATOR) if part.strip()]
    if model := form.get("model", "").strip():
        overrides.append(f'engine.model="{model}"' if '"' not in model else f"engine.model={model}")
    return source, overrides


def install(web_ui: WebUI, options: Namespace, given: str) -> None:
    """Put the fields into the start form."""
    locust_seams.add_form_fields(web_ui, lambda: fields(options, given, ""))
