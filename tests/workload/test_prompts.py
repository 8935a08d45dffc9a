"""Prompts: exact in length, never the same twice, repeatable by seed, and cheap."""

import re
import time

import pytest

from scenarios.workload.prompts import PromptMaker

# The rule of thumb of most vocabularies, and the practice engine's: a word, up to three digits, or another character.
UNIT = re.compile(r"[A-Za-z]+|\d{1,3}|\S")


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("units", [1, 2, 9, 10, 11, 25, 26, 27, 128, 512, 2048, 8191])
def test_a_prompt_is_exactly_as_long_as_asked(language, units):
    maker = PromptMaker("1/0", language)
    for number in range(5):
        assert len(UNIT.findall(maker.text(number, units))) == units


def test_no_two_prompts_share_their_beginning():
    beginnings = set()
    for seed in (1, 2):
        for worker in (0, 1):
            maker = PromptMaker(f"{seed}/{worker}")
            beginnings |= {tuple(maker.text(number, 128).split()[:10]) for number in range(1000)}
    assert len(beginnings) == 4000


def test_a_block_of_sixteen_tokens_is_never_shared():
    # prefix caches work by blocks, mostly of 16 tokens; one shared first block would already be a hit
    maker = PromptMaker("1/0")
    blocks = [tuple(UNIT.findall(maker.text(number, 512))[:16]) for number in range(2000)]
    assert len(set(blocks)) == len(blocks)


def test_the_same_seed_and_worker_give_the_same_prompts():
    assert [PromptMaker("7/3").text(n, 200) for n in range(5)] == [PromptMaker("7/3").text(n, 200) for n in range(5)]


def test_a_prompt_does_not_depend_on_the_ones_before():
    maker = PromptMaker("7/3")
    maker.text(0, 2048)
    assert maker.text(5, 200) == PromptMaker("7/3").text(5, 200)


def test_text_looks_like_sentences_of_plain_words():
    text = PromptMaker("1/0").text(0, 200)
    assert re.fullmatch(r"[a-z ]+(\. [a-z ]+)*\.?", text)
    assert "  " not in text


def test_a_long_prompt_costs_the_worker_less_than_a_tenth_of_a_millisecond():
    maker = PromptMaker("1/0")
    costs = []
    for number in range(300):
        began = time.perf_counter()
        maker.text(number, 2048)
        costs.append(time.perf_counter() - began)
    # the median: about 25 µs alone on a core; other processes may share this one
    assert sorted(costs)[150] < 100e-6
