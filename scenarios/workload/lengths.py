"""Draws lengths and choices from what a scenario says; all by seed, so that a run can be repeated."""

import math
from collections.abc import Sequence
from itertools import accumulate
from random import Random

from scenarios.spec import LengthSpec

GOLDEN = (math.sqrt(5) - 1) / 2


class LengthSampler:
    """Lengths in tokens by one spec. Every length lies within its bounds and is at least 1; what had to be cut
    to that is counted, because a distribution that is cut much is not the one that was asked for.
    """

    def __init__(self, spec: LengthSpec, rng: Random) -> None:
        self._spec = spec
        self._rng = rng
        self.drawn = 0
        self.cut = 0

    def draw(self, limit: int | None = None) -> int:
        """One length, of at most `limit` tokens."""
        length = round(self._raw())
        highest = min((bound for bound in (self._spec.max, limit) if bound is not None), default=length)
        within = max(min(length, highest), self._spec.min or 1)
        self.drawn += 1
        self.cut += within != length
        return within

    def _raw(self) -> float:
        spec, rng = self._spec, self._rng
        if spec.tokens is not None:
            return spec.tokens
        if spec.distribution == "uniform":
            return rng.randint(spec.min or 1, spec.max or 1)
        if spec.distribution == "normal":
            return rng.gauss(spec.mean or 0.0, spec.stddev or 0.0)
        if spec.values:
            return rng.choice(spec.values)
        sigma = spec.sigma or 0.0
        # mean of a lognormal = exp(mu + sigma²/2), its median = exp(mu)
        mu = math.log(spec.median) if spec.median else math.log(spec.mean or 1.0) - sigma**2 / 2
        return rng.lognormvariate(mu, sigma)


class WeightedChoice:
    """Indices in proportion to weights, close to their shares at any time, not only in the long run.

    Steps of the golden ratio around a circle whose arcs are the weights: after n steps each share is off
    by about log(n) / n, where independent draws would be off by 1 / sqrt(n).
    """

    def __init__(self, weights: Sequence[float], rng: Random) -> None:
        self._ends = list(accumulate(weights))
        self._position = rng.random()

    def next(self) -> int:
        """Index of the arc that the next step lands on."""
        self._position = (self._position + GOLDEN) % 1.0
        point = self._position * self._ends[-1]
        return next((index for index, end in enumerate(self._ends) if point < end), len(self._ends) - 1)
