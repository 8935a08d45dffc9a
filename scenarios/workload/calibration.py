"""How many units of our text make a prompt of n tokens, by the engine's own count.

Either asked before the run (an engine with /tokenize, else a local tokenizer) or learned from the first answers'
usage. A text's units are known, so one line through (units, tokens) tells the tokens per unit and what comes on
top: chat template, system prompt, special tokens.
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from scenarios.clients.call import LLMRequest
from scenarios.spec import WorkloadSpec
from scenarios.workload.prompts import PromptMaker
from scenarios.workload.request import build_request

PROBE_UNITS = (64, 1024)
PROBES = 3  # of each length
SPREAD = 1.5  # lengths that lie closer together tell the overhead only
SANE_TOKENS_PER_UNIT = (0.3, 3.0)
LEARNED_ANSWERS = 8


@dataclass(frozen=True, slots=True)
class Calibration:
    """tokens = overhead_tokens + tokens_per_unit · units."""

    tokens_per_unit: float = 1.0
    overhead_tokens: float = 0.0
    source: str = "none"  # none, tokenize, tokenizer or usage

    def units(self, tokens: int) -> int:
        """Units of text for a prompt of `tokens` tokens in all."""
        return max(1, round((tokens - self.overhead_tokens) / self.tokens_per_unit))


UNCALIBRATED = Calibration()


def ask(spec: WorkloadSpec, count: Callable[[LLMRequest], int | None], source: str = "tokenize") -> Calibration:
    """Calibration by an engine that counts prompts on request, or by a local tokenizer; None from `count`: not told."""
    maker = PromptMaker("calibration", spec.language)
    samples = []
    for units in PROBE_UNITS:
        for number in range(PROBES):
            text = maker.text(f"{units}/{number}", units)
            tokens = count(build_request(spec, text=text, max_tokens=1, length_class=""))
            if tokens is None:
                return UNCALIBRATED
            samples.append((units, tokens))
    return fit(samples, source)


def fit(samples: Sequence[tuple[int, int]], source: str, per_unit: float = 1.0) -> Calibration:
    """The line through (units, tokens) samples; through lengths that are all alike, with `per_unit` as its slope."""
    units = [each for each, _ in samples]
    tokens = [each for _, each in samples]
    if max(units) >= SPREAD * min(units):
        per_unit = statistics.linear_regression(units, tokens).slope
        lowest, highest = SANE_TOKENS_PER_UNIT
        if not lowest <= per_unit <= highest:
            return UNCALIBRATED  # that is no count of this text
    overhead = statistics.mean(count - per_unit * each for each, count in samples)
    return Calibration(per_unit, overhead, source)


class Learner:
    """Learns the calibration from the usage of a worker's first answers, where nobody could be asked before."""

    def __init__(self, calibration: Calibration) -> None:
        self.calibration = calibration
        self.learns = calibration.source in ("none", "tokenizer")  # a tokenizer knows no chat template
        self._per_unit = calibration.tokens_per_unit
        self._samples: list[tuple[int, int]] = []

    def learn(self, units: int, tokens: int) -> None:
        """An answer said that a prompt of so many units had so many tokens."""
        self._samples.append((units, tokens))
        self.calibration = fit(self._samples, "usage", self._per_unit)
        self.learns = len(self._samples) < LEARNED_ANSWERS
