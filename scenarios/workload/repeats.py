"""Counts prompts that were sent before in the same run: an engine answers those faster, from its prefix cache."""

REMEMBERED = 65_536  # prompts of a worker: a run of days must not grow


class Repeats:
    """Prompts of one worker so far, by their hashes."""

    def __init__(self) -> None:
        self._seen: set[int] = set()
        self._checked = 0
        self._repeated = 0

    def note(self, prompt: str) -> None:
        """A prompt is about to be sent."""
        self._checked += 1
        known = hash(prompt)
        if known in self._seen:
            self._repeated += 1
        elif len(self._seen) < REMEMBERED:
            self._seen.add(known)

    def counts(self) -> dict[str, int]:
        """Prompts made, and those among them that one of the first `REMEMBERED` ones was equal to."""
        return {"prompts": self._checked, "prompts_repeated": self._repeated}
