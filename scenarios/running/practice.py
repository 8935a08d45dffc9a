"""The practice engine that a leader starts where no host is given: it lives as long as the process needs it."""

import logging

from scenarios.engine.embedded import EmbeddedEngine, start_embedded_engine
from scenarios.running.preflight import needs_host
from scenarios.spec import Scenario

logger = logging.getLogger(__name__)


class Practice:
    """One engine at a time, with the flags of the scenario that wants it."""

    def __init__(self) -> None:
        self._engine: EmbeddedEngine | None = None
        self._flags: tuple[str, ...] = ()
        self._urls: set[str] = set()  # those of earlier scenarios too

    def host_for(self, scenario: Scenario, host: str | None) -> str:
        """The host that is given, else an engine with this scenario's flags. Raises `ScenarioError` if it can't serve."""
        if host and host not in self._urls:  # a form may still hold the address of an engine that is gone
            return host
        needs_host(scenario)
        if self._engine and self._flags == scenario.engine.practice:
            return self._engine.url
        self.stop()
        self._flags = scenario.engine.practice
        self._engine = start_embedded_engine(self._flags)
        self._urls.add(self._engine.url)
        logger.info("No --host given: using the embedded practice engine at %s", self._engine.url)
        return self._engine.url

    def told(self, host: str) -> str:
        """What serves at a host, for the record; empty where it is not this engine."""
        embedded = self._engine is not None and host == self._engine.url
        return " ".join(("practice engine", *self._flags)) if embedded else ""

    def stop(self) -> None:
        """End the engine, if there is one."""
        if self._engine:
            self._engine.stop()
            self._engine = None
