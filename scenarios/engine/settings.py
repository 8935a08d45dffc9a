"""What one practice engine is told at its start."""

from dataclasses import dataclass, field
from pathlib import Path

from scenarios.engine.faults import Faults
from scenarios.engine.profile import Profile

DEFAULT_MODEL = "practice-8b"
DEFAULT_PROFILE = "vllm-a100-8b"
DEFAULT_SPEED = 1.0


@dataclass(frozen=True, slots=True)
class Settings:
    """Options of the engine, as read from its command line. The key is never part of an output."""

    profile: Profile
    model: str = DEFAULT_MODEL
    host: str = "127.0.0.1"
    port: int = 0
    speed: float = DEFAULT_SPEED
    seed: int = 0
    prefix_caching: bool = False
    api_key: str | None = field(default=None, repr=False)
    truth: Path | None = None
    until_stdin_closes: bool = False
    faults: Faults = field(default_factory=Faults)
