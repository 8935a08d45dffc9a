"""What one worker sends: request after request, as the scenario's [workload] says.

When they are sent, and by whom, is for pacing and the users.
"""

from random import Random

from scenarios.clients.call import LLMRequest
from scenarios.spec import WorkloadSpec
from scenarios.workload.lengths import LengthSampler, WeightedChoice
from scenarios.workload.prompts import PromptMaker


class Workload:
    """The requests of one worker. The same spec, seed and worker give the same requests in the same order."""

    def __init__(self, spec: WorkloadSpec, seed: int, worker: int) -> None:
        rng = Random(f"{seed}/{worker}/lengths")
        self._spec = spec
        self._prompts = PromptMaker(seed, worker, spec.language)
        self._classes = WeightedChoice([each.weight for each in spec.inputs], rng)
        self._inputs = [LengthSampler(each, rng) for each in spec.inputs]
        common = LengthSampler(spec.output, rng)
        self._outputs = [LengthSampler(each.output, rng) if each.output else common for each in spec.inputs]
        self._labels = [each.label() for each in spec.inputs]
        self._number = 0

    def next_request(self, planned_s: float | None = None) -> LLMRequest:
        """The next request; `planned_s` is passed on."""
        spec = self._spec
        number, self._number = self._number, self._number + 1
        chosen = self._classes.next()
        context = spec.context_tokens or None
        output_tokens = self._outputs[chosen].draw(context and context - 1)
        input_tokens = self._inputs[chosen].draw(context and context - output_tokens)
        text = self._prompts.text(number, input_tokens)
        system = spec.system_prompt
        return LLMRequest(
            prompt=f"{system}\n\n{text}" if system else text,
            messages=_messages(system, text) if system else None,
            max_tokens=output_tokens,
            ignore_eos=spec.ignore_eos,
            length_class=self._labels[chosen],
            input_tokens_requested=input_tokens,
            planned_s=planned_s,
            extra_body=spec.extra_body,
        )

    def cut_share(self) -> float:
        """Share of drawn lengths that had to be cut to their bounds or to the context."""
        samplers = {id(each): each for each in (*self._inputs, *self._outputs)}.values()
        drawn = sum(each.drawn for each in samplers)
        return sum(each.cut for each in samplers) / drawn if drawn else 0.0


def _messages(system: str, text: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": system}, {"role": "user", "content": text}]
