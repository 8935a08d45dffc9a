"""All live views of a Locust process that leads: the board of the current run, and who shows it."""

import logging
from typing import Any

import gevent
from locust.env import Environment
from locust.runners import MasterRunner
from locust.web import WebUI

from scenarios.live import locust_seams
from scenarios.live.board import Board
from scenarios.live.console import Console
from scenarios.live.placing import tell_places
from scenarios.live.prometheus import registry_of, serve
from scenarios.live.watched import Watched
from scenarios.live.web import add_pages

logger = logging.getLogger(__name__)

TICK_S = 1.0


class LiveView:
    """Shows the run that goes on, and after it its last figures until the next one."""

    def __init__(self, environment: Environment, web_ui: WebUI | None) -> None:
        assert environment.runner is not None
        assert environment.parsed_options is not None
        self._environment = environment
        self._runner = environment.runner
        self._options = environment.parsed_options
        self._ticks: gevent.Greenlet | None = None
        self.board: Board | None = None
        registry = registry_of(lambda: self.board)
        if web_ui is not None:
            add_pages(web_ui, lambda: self.board, registry, environment)
        if self._options.metrics_port:
            server = serve(registry, self._options.metrics_port)
            logger.info("Metrics for Prometheus at http://%s:%s/metrics", *server.address[:2])
        self._console = Console(self._options.quiet)
        self._shows_progress = web_ui is None
        locust_seams.add_report_section(lambda: self.board)
        if web_ui is None:
            locust_seams.silence_stats_table(self._options)

    def begin(self, watched: Watched) -> None:
        """A run starts."""
        self.board = board = Board(watched)
        watched.inbox.on_health = lambda worker, health: board.add(worker, health, None)
        watched.inbox.on_live = lambda worker, figures: board.add(worker, None, figures)
        if isinstance(self._runner, MasterRunner):
            runner = self._runner
            watched.timeline.on_boundary = lambda: tell_places(runner, watched.timeline)
        if self._shows_progress:
            self._console.begin(board)
        self._ticks = gevent.spawn(self._tick_forever, board)

    def end(self) -> None:
        """The run is closed."""
        if self._ticks:
            self._ticks.kill()
        if self.board:
            self.board.tick()
            self.board.end()
        if self._shows_progress:
            self._console.end()

    def _tick_forever(self, board: Board) -> None:
        while True:
            gevent.sleep(TICK_S)
            board.tick()
            locust_seams.thin_history(self._runner.stats)
            if isinstance(self._runner, MasterRunner):
                tell_places(self._runner, board.watched.timeline)
            if self._shows_progress:
                self._console.update()


def options(parser: Any) -> None:
    """Command-line options of the live views."""
    parser.add_argument(
        "--quiet",
        action="store_true",
        help="Headless: no progress and no tables of Locust's own, only warnings and the report",
        include_in_web_ui=False,
    )
    parser.add_argument(
        "--metrics-port",
        default="",
        metavar="[HOST:]PORT",
        env_var="TOKENSWARM_METRICS_PORT",
        include_in_web_ui=False,
        help="Serve /metrics for Prometheus on a port of its own, on loopback unless a host is given; "
        "the web UI serves it anyway",
    )
