"""Made-up requests: a mix of prompt lengths, with or without shared beginnings."""

from random import Random

from scenarios.clients.call import LLMRequest
from scenarios.spec import PrefixSpec, WorkloadSpec
from scenarios.workload.calibration import Learner
from scenarios.workload.lengths import LengthSampler, WeightedChoice
from scenarios.workload.prompts import PromptMaker
from scenarios.workload.request import build_request


class SyntheticRequests:
    """The made-up requests of one worker."""

    def __init__(self, spec: WorkloadSpec, seed: int, worker: int, learner: Learner) -> None:
        rng = Random(f"{seed}/{worker}/lengths")
        self._spec = spec
        self._learner = learner
        self._prompts = PromptMaker(f"{seed}/{worker}", spec.language)
        self._prefixes = SharedPrefixes(spec.prefix, seed, worker, spec.language) if spec.prefix else None
        self._classes = WeightedChoice([each.weight for each in spec.inputs], rng)
        self._inputs = [LengthSampler(each, rng) for each in spec.inputs]
        common = LengthSampler(spec.output, rng)
        self._outputs = [LengthSampler(each.output, rng) if each.output else common for each in spec.inputs]
        self._labels = [each.label() for each in spec.inputs]
        self._number = 0

    def next(self) -> LLMRequest:
        """The next request."""
        number, self._number = self._number, self._number + 1
        chosen = self._classes.next()
        prefix_tokens = self._spec.prefix.tokens if self._spec.prefix else 0
        context = self._spec.context_tokens or None
        output_tokens = self._outputs[chosen].draw(context and max(1, context - prefix_tokens - 1))
        input_tokens = self._inputs[chosen].draw(context and context - prefix_tokens - output_tokens)
        return build_request(
            self._spec,
            text=self._text(number, prefix_tokens, input_tokens),
            max_tokens=output_tokens,
            length_class=self._labels[chosen],
            input_tokens=prefix_tokens + input_tokens,
            extra_body=self._spec.inputs[chosen].extra_body,
        )

    def question(self, tokens: int | None = None) -> tuple[str, int]:
        """Text without a shared beginning, and the length of its answer; of `tokens`, else of a class of the mix."""
        number, self._number = self._number, self._number + 1
        chosen = self._classes.next()
        text = self._prompts.text(number, tokens or self._inputs[chosen].draw())
        return text, self._outputs[chosen].draw()

    def counts(self) -> dict[str, int]:
        """Lengths drawn, and those cut to their bounds or to the context."""
        samplers = {id(each): each for each in (*self._inputs, *self._outputs)}.values()
        return {
            "lengths_drawn": sum(each.drawn for each in samplers),
            "lengths_cut": sum(each.cut for each in samplers),
        }

    def _text(self, number: int, prefix_tokens: int, input_tokens: int) -> str:
        units = self._learner.calibration.units(prefix_tokens + input_tokens)
        prefix = self._prefixes.next() if self._prefixes else None
        if prefix is None:
            return self._prompts.text(number, units)
        return self._prompts.join(prefix, self._prompts.text(number, max(1, units - prefix_tokens)))


class SharedPrefixes:
    """Beginnings that prompts of all workers share."""

    def __init__(self, spec: PrefixSpec, seed: int, worker: int, language: str) -> None:
        maker = PromptMaker(f"{seed}/shared", language)
        self._rng = Random(f"{seed}/{worker}/prefixes")
        self._texts = [maker.text(f"prefix {number}", spec.tokens) for number in range(spec.pool)]
        skew = spec.zipf_exponent if spec.pick == "zipf" else 0.0
        self._weights = [1 / rank**skew for rank in range(1, spec.pool + 1)]
        self._shared = WeightedChoice([spec.share, 1 - spec.share], self._rng)

    def next(self) -> str | None:
        """One of the beginnings; None for a prompt of its own."""
        if self._shared.next() != 0:
            return None
        return self._rng.choices(self._texts, self._weights)[0]
