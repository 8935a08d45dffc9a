"""A verdict with its reasons: what stands above every headline.

`client-bound`: the load generator, not the engine, set the numbers. `suspect`: something stands against them.
`valid`: nothing found. Notes are worth knowing and do not change the verdict.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

Status = Literal["valid", "suspect", "client-bound"]
Severity = Literal["note", "suspect", "client-bound"]
ORDER = ("valid", "note", "suspect", "client-bound")


@dataclass(frozen=True, slots=True)
class Reason:
    """One finding: how much it weighs, what was found and what to do."""

    severity: Severity
    text: str
    advice: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What stands above the headline."""

    status: Status
    reasons: tuple[Reason, ...]


def verdict(reasons: Iterable[Reason]) -> Verdict:
    """The worst reason decides; the reasons stand in that order."""
    ordered = tuple(sorted(reasons, key=lambda reason: -ORDER.index(reason.severity)))
    worst = ordered[0].severity if ordered else "note"
    return Verdict("valid" if worst == "note" else worst, ordered)
