"""Counts by a local tokenizer: only where the engine tells none, and said to be that."""

import gevent
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from scenarios.clients.call import LLMRequest, RequestResult
from scenarios.clients.factory import build_client
from scenarios.clients.local_tokenizer import CountingClient, load_counter
from tests.support.scripted_server import DONE, Answer, ScriptedServer, chat_event, chat_stream


@pytest.fixture
def tokenizer_file(tmp_path):
    """One token a word and one a mark: "a b, c" are four."""
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.enable_truncation(2)  # as some files come; counts must not be cut by it
    tokenizer.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def measure(answer: Answer, tokenizer_file) -> RequestResult:
    with ScriptedServer(answer) as server:
        client = CountingClient(build_client("chat", server.url, "m"), load_counter(str(tokenizer_file)))
        call = client.call(LLMRequest(prompt="x"))
        gevent.spawn(call.run).join()
        client.close()
    return call.result()


def test_an_answer_without_usage_is_counted_by_the_tokenizer(tokenizer_file):
    answer = Answer(
        [(10, chat_event("a b,")), (10, chat_event(" c")), (0, chat_event(finish_reason="stop")), (0, DONE)]
    )
    result = measure(answer, tokenizer_file)
    assert (result.output_tokens, result.output_tokens_source) == (4, "tokenizer")
    assert len(result.token_arrivals_ms) == 2


def test_the_engines_own_count_is_kept(tokenizer_file):
    result = measure(chat_stream(10, 1, tokens=5), tokenizer_file)
    assert (result.output_tokens, result.output_tokens_source) == (5, "usage")


def test_reasoning_is_not_in_the_text_and_stays_estimated(tokenizer_file):
    answer = Answer(
        [(10, chat_event(reasoning="hm")), (10, chat_event("a b")), (0, chat_event(finish_reason="stop")), (0, DONE)]
    )
    result = measure(answer, tokenizer_file)
    assert (result.output_tokens, result.output_tokens_source) == (2, "estimated")


def test_a_models_folder_will_do(tokenizer_file):
    assert load_counter(str(tokenizer_file.parent))("a b, c") == 4


def test_no_tokenizer_is_one_clear_line(tmp_path):
    (tmp_path / "other.json").write_text("{}")
    for path in (tmp_path / "other.json", tmp_path / "nowhere.json"):
        with pytest.raises(ValueError, match=r"is no tokenizer\.json"):
            load_counter(str(path))
