"""Shared beginnings: as many, as long and as often shared as asked."""

import re
from collections import Counter

import pytest

from scenarios.spec import InputSpec, PrefixSpec, WorkloadSpec
from scenarios.workload.planner import Workload

UNIT = re.compile(r"[A-Za-z]+|\d{1,3}|\S")
N = 2000


def beginnings(prefix: PrefixSpec, worker: int = 0, seed: int = 1):
    workload = Workload(WorkloadSpec(inputs=(InputSpec(tokens=20),), prefix=prefix), seed, worker)
    prompts = [UNIT.findall(workload.next_request().prompt) for _ in range(N)]
    return prompts, Counter(tuple(prompt[: prefix.tokens]) for prompt in prompts)


def test_every_prompt_is_a_shared_beginning_and_a_rest_of_its_own():
    prompts, counts = beginnings(PrefixSpec(pool=4, tokens=100))
    assert {len(prompt) for prompt in prompts} == {120}
    assert len(counts) == 4
    assert len({tuple(prompt[100:]) for prompt in prompts}) == N


def test_the_asked_length_counts_the_beginning_too():
    spec = WorkloadSpec(inputs=(InputSpec(tokens=20),), prefix=PrefixSpec(pool=1, tokens=100))
    request = Workload(spec, 1, 0).next_request()
    assert request.input_tokens_requested == 120
    assert request.length_class == "20"


def test_the_share_is_kept_and_the_others_are_as_long_but_on_their_own():
    prompts, counts = beginnings(PrefixSpec(pool=4, tokens=100, share=0.75))
    assert {len(prompt) for prompt in prompts} == {120}
    shared = sum(count for count in counts.values() if count > 1)
    assert shared == pytest.approx(0.75 * N, abs=5)
    assert len(counts) == 4 + N - shared


def test_uniform_picks_all_alike_and_zipf_the_first_ones_most():
    _, uniform = beginnings(PrefixSpec(pool=4, tokens=50))
    assert all(count == pytest.approx(N / 4, rel=0.2) for count in uniform.values())
    _, zipf = beginnings(PrefixSpec(pool=4, tokens=50, pick="zipf"))
    # weights 1, 1/2, 1/3, 1/4 of 25/12: 48 %, 24 %, 16 %, 12 %
    shares = [count / N for _, count in zipf.most_common()]
    assert shares == pytest.approx([0.48, 0.24, 0.16, 0.12], abs=0.04)


def test_workers_share_the_beginnings_and_two_runs_do_not():
    first = set(beginnings(PrefixSpec(pool=4, tokens=50), worker=0)[1])
    assert set(beginnings(PrefixSpec(pool=4, tokens=50), worker=1)[1]) == first
    assert not set(beginnings(PrefixSpec(pool=4, tokens=50), seed=2)[1]) & first
