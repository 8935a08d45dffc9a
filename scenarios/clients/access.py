"""How an engine is reached: what its clients need to know besides API, address and model."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from scenarios.clients.connection import Pool
from scenarios.clients.exchange import Timeouts, Wire

OPENAI_KEY = "OPENAI_API_KEY"  # the variable that the clients of OpenAI's API look into of themselves


@dataclass(frozen=True, slots=True)
class EngineAccess:
    """Key, limits, certificates, headers, proxies and connections, and the form that the answers have.

    `proxies` by scheme; None takes them from the environment. `cumulative`: each event repeats the whole text so far.
    """

    api_key_env: str | None = None
    timeouts: Timeouts = field(default_factory=Timeouts)
    verify: bool = True
    ca_file: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    proxies: Mapping[str, str] | None = None
    reuse_connections: bool = True
    cumulative: bool = False

    def api_key(self, otherwise: str = "") -> str:
        """The key in the named environment variable, else in the one called `otherwise`; "" where none is set."""
        variable = self.api_key_env
        if variable and variable not in os.environ:
            raise ValueError(f"environment variable {variable} is not set; it was named as the one with the API key")
        return os.environ.get(variable or otherwise, "")

    def within(self, limit_s: float) -> "EngineAccess":
        """The same for one question: neither connection nor answer is waited for longer than that."""
        return replace(self, timeouts=Timeouts(limit_s, limit_s, limit_s, limit_s))

    def wire(self) -> Wire:
        """What the HTTP requests of one client share; each client has its own."""
        return Wire(Pool(keeps=self.reuse_connections), self.timeouts, self.verify, self.ca_file)


DEFAULT_ACCESS = EngineAccess()


def bearer(api_key: str) -> dict[str, str]:
    """The header that carries a key; none without one."""
    return {"Authorization": f"Bearer {api_key}"} if api_key else {}
