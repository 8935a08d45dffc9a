"""What a token is."""

from time import perf_counter

import pytest

from scenarios.engine.tokenizer import token_ids, tokenize, tokenize_chat


def test_words_digits_and_marks_are_tokens():
    assert tokenize("In 2024, it ran.") == ["In", "202", "4", ",", " it", " ran", "."]


def test_white_space_alone_is_no_token():
    assert tokenize(" \n\t ") == []
    assert tokenize("a\n\nb") == ["a", "b"]


def test_letters_of_any_script_make_words():
    assert tokenize("Ça va, été") == ["Ça", " va", ",", " été"]


def test_each_character_of_a_script_without_blanks_is_a_token():
    assert tokenize("你好,世界 2024年") == ["你", "好", ",", "世", "界", "202", "4", "年"]
    assert tokenize("カナ한글𠀀x𠀁") == ["カ", "ナ", "한", "글", "𠀀", "x", "𠀁"]


def test_a_message_costs_four_tokens_beside_its_content_and_the_answer_three():
    messages = [{"role": "system", "content": "Be brief"}, {"role": "user", "content": "Hi"}]
    assert len(tokenize_chat(messages)) == 4 + 2 + 4 + 1 + 3


def test_content_may_come_in_parts():
    parts = [{"type": "text", "text": "one two"}, {"type": "image_url", "image_url": {}}]
    assert len(tokenize_chat([{"role": "user", "content": parts}])) == 4 + 2 + 3


def test_ids_are_stable():
    assert token_ids(["Hi", "Hi", " Hi"]) == token_ids(["Hi", "Hi", " Hi"])
    assert token_ids(["Hi"]) != token_ids([" Hi"])


@pytest.mark.parametrize("word", ["word ", "字"])
def test_a_prompt_of_8000_words_takes_no_time(word):
    prompt = word * 8000
    start_s = perf_counter()
    assert len(tokenize(prompt)) == 8000
    assert perf_counter() - start_s < 0.1
