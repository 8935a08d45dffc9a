"""The compose file as `docker compose` reads it."""

import re
from pathlib import Path
from typing import Any

import yaml

FILE = Path(__file__).parents[2] / "docker" / "compose.yaml"


def compose(**environment: str) -> dict[str, Any]:
    """The compose file with its ${NAME:-default} filled in."""
    text = re.sub(r"\$\{(\w+):-([^}]*)\}", lambda found: environment.get(found[1], found[2]), FILE.read_text())
    loaded: dict[str, Any] = yaml.safe_load(text)
    return loaded
