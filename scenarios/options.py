"""Locust command-line options of the suite, and the hooks that make a Locust test a run.

`install()` is called when a locustfile imports `scenarios.users`; from then on Locust's own events drive
everything: init -> (test start -> levels -> test stop)*.
"""

import logging
from typing import Any

from locust import events
from locust.argument_parser import LocustArgumentParser
from locust.env import Environment
from locust.runners import WorkerRunner
from locust.web import WebUI

from scenarios.live import view
from scenarios.running.leader import BY_HAND, Leader
from scenarios.running.taken_port import explain_taken_port
from scenarios.running.worker import Worker
from scenarios.spec import shipped_scenarios

DEFAULT_SCENARIO = "mixed-chat"
FROM_SCENARIO = "scenario"

_installed = False


def install() -> None:
    """Hook into Locust; a second call does nothing."""
    global _installed
    if not _installed:
        events.init_command_line_parser.add_listener(add_options)
        events.init.add_listener(on_init)
        explain_taken_port()
        _installed = True


def on_init(environment: Environment, web_ui: WebUI | None, **_: Any) -> None:
    """Locust's runner exists: take the worker's or the leading side."""
    logging.getLogger("httpx2").setLevel(logging.WARNING)  # it logs each request
    if isinstance(environment.runner, WorkerRunner):
        Worker(environment)
    else:
        Leader(environment, web_ui).prepare()


def add_options(parser: LocustArgumentParser, **_: Any) -> None:
    """Add the suite's options; those in the web UI are shown in its start form."""
    parser.add_argument(
        "--scenario",
        default=DEFAULT_SCENARIO,
        metavar="FILE",
        env_var="TOKENSWARM_SCENARIO",
        help=f"Scenario file, or the name of a shipped one: {', '.join(shipped_scenarios())}",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="scenario_overrides",
        metavar="KEY=VALUE",
        include_in_web_ui=False,
        help="Override a value of the scenario, for example --set load.levels=1,2,4 (may be repeated)",
    )
    parser.add_argument(
        "--load",
        choices=[FROM_SCENARIO, BY_HAND],
        default=FROM_SCENARIO,
        env_var="TOKENSWARM_LOAD",
        help="Who sets the number of users: the scenario's levels, or you (users and ramp-up; implied by --users)",
    )
    parser.add_argument(
        "--runs-dir",
        default="runs",
        metavar="DIR",
        env_var="TOKENSWARM_RUNS_DIR",
        include_in_web_ui=False,
        help="Where run folders are made (default: runs)",
    )
    view.options(parser)
