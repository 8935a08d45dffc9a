"""What the engine says, and when it stops."""

import random

import pytest

from scenarios.engine.answers import EOS, TEXT, end_early, plan_answer
from scenarios.engine.tokenizer import tokenize


def plan(seed=1, **options):
    return plan_answer(random.Random(seed), **options)


@pytest.mark.parametrize("tokens", [1, 2, 256, 9000])
def test_the_text_has_as_many_tokens_as_the_usage_says(tokens):
    answer = plan(max_tokens=tokens, ignore_eos=True)
    assert len(answer.tokens) == tokens
    assert tokenize("".join(answer.tokens)) == answer.tokens
    assert answer.finish_reason == "length"


def test_texts_need_no_json_escapes():
    assert all(character.isalpha() or character in " ,." for character in "".join(TEXT))


def test_the_same_seed_says_the_same():
    assert plan(seed=5, max_tokens=50) == plan(seed=5, max_tokens=50)
    assert plan(seed=5, max_tokens=50) != plan(seed=6, max_tokens=50)


def test_an_answer_may_end_by_itself_with_an_end_token_without_text():
    answer = plan(max_tokens=5000)
    assert answer.finish_reason == "stop"
    assert answer.tokens[-1] == EOS
    assert EOS not in answer.tokens[:-1]


def test_min_tokens_come_before_the_end_token():
    for seed in range(50):
        assert len(plan(seed=seed, max_tokens=5000, min_tokens=400).tokens) > 400


def test_a_stop_string_ends_the_answer_and_is_not_part_of_it():
    whole = "".join(plan(max_tokens=40, ignore_eos=True).tokens)
    stop = whole[60:70]  # the middle of words: it spans tokens
    answer = plan(max_tokens=40, ignore_eos=True, stop=[stop, "never said"])
    assert "".join(answer.tokens) == whole[: whole.index(stop)]
    assert (answer.finish_reason, answer.stop_reason) == ("stop", stop)
    # the tokens that make up the stop string were generated, so they count
    assert len(answer.tokens) == len(tokenize(whole[: whole.index(stop) + len(stop)]))


def test_a_stop_string_before_min_tokens_does_not_stop():
    tokens = plan(max_tokens=40, ignore_eos=True).tokens
    answer = plan(max_tokens=40, min_tokens=40, ignore_eos=True, stop=[tokens[3]])
    assert answer.finish_reason == "length"


def test_an_early_end_replaces_the_rest_by_an_end_token():
    answer = end_early(plan(max_tokens=10, ignore_eos=True), 4)
    assert len(answer.tokens) == 4
    assert (answer.tokens[-1], answer.finish_reason) == (EOS, "stop")
