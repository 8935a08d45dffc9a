"""Prompt lengths by the engine's own count: asked for before the run, or learned from its answers."""

import re

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from scenarios.clients.local_tokenizer import load_counter
from scenarios.clients.tokenize import prompt_counter
from scenarios.engine.embedded import start_embedded_engine
from scenarios.engine.tokenizer import tokenize_chat
from scenarios.running.preflight import calibrate
from scenarios.spec import InputSpec, PrefixSpec, WorkloadSpec, load_scenario
from scenarios.workload.calibration import UNCALIBRATED, Calibration, ask, fit
from scenarios.workload.planner import Workload
from scenarios.workload.vocabulary import estimated_tokens
from tests.support.scripted_server import ScriptedServer, json_answer

MODEL = "practice-8b"
WORD = re.compile(r"\w+|\S")
MIX = WorkloadSpec(inputs=tuple(InputSpec(tokens=n) for n in (64, 500, 2000)))


@pytest.fixture(scope="module")
def engine():
    running = start_embedded_engine(["--speed", "100"])
    yield running
    running.stop()


def chat_tokens(request, per_word=1.0, overhead=0):
    """Tokens of a request for an engine with a vocabulary and a template of its own."""
    messages = request.messages or [{"role": "user", "content": request.prompt}]
    return round(per_word * sum(len(WORD.findall(each["content"])) for each in messages)) + overhead


def deviations(workload, count, n=30):
    return [
        count(request) / request.input_tokens_requested - 1
        for request in (workload.next_request() for _ in range(n))
        if request.input_tokens_requested
    ]


def test_an_engine_that_counts_makes_prompts_exact_from_the_first_one(engine):
    for api in ("chat", "completions"):
        with prompt_counter(engine.url, api=api, model=MODEL) as count:
            calibration = ask(MIX, count)
            assert calibration.source == "tokenize"
            assert calibration.tokens_per_unit == pytest.approx(1.0)
            # practice engine: 4 tokens of the message and 3 that open the answer; nothing around a bare prompt
            assert calibration.overhead_tokens == pytest.approx(7 if api == "chat" else 0)
            workload = Workload(MIX, 1, 0, calibration=calibration)
            assert deviations(workload, count, n=12) == [0.0] * 12


def test_a_system_prompt_is_part_of_the_length(engine):
    spec = WorkloadSpec(inputs=(InputSpec(tokens=200),), system_prompt="You are a very helpful assistant.")
    with prompt_counter(engine.url, api="chat", model=MODEL) as count:
        workload = Workload(spec, 1, 0, calibration=ask(spec, count))
        assert count(workload.next_request()) == 200


def test_an_engine_that_does_not_count_is_not_calibrated_by(engine):
    with prompt_counter(engine.url + "/nowhere", api="chat", model=MODEL) as count:
        assert ask(MIX, count) == UNCALIBRATED
    with prompt_counter("http://127.0.0.1:9", api="chat", model=MODEL) as count:
        assert ask(MIX, count) == UNCALIBRATED


def test_another_vocabulary_is_calibrated_to_two_tokens():
    def count(request):
        return chat_tokens(request, per_word=1.3, overhead=31)

    calibration = ask(MIX, count)
    assert calibration.tokens_per_unit == pytest.approx(1.3, rel=0.01)
    assert calibration.overhead_tokens == pytest.approx(31, abs=1)
    workload = Workload(MIX, 1, 0, calibration=calibration)
    for _ in range(30):
        request = workload.next_request()
        assert count(request) == pytest.approx(request.input_tokens_requested, abs=2)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_usage_of_the_first_answers_is_enough(language):
    spec = WorkloadSpec(inputs=MIX.inputs, language=language)
    workload = Workload(spec, 1, 0)
    for _ in range(8):
        request = workload.next_request()
        tokens = round(0.9 * estimated_tokens(request.prompt)) + 25
        workload.learn(request, tokens)
    for _ in range(30):
        request = workload.next_request()
        tokens = round(0.9 * estimated_tokens(request.prompt)) + 25
        assert tokens == pytest.approx(request.input_tokens_requested, abs=2)


def test_lengths_that_are_all_alike_teach_the_overhead():
    spec = WorkloadSpec(inputs=(InputSpec(tokens=512),))
    workload = Workload(spec, 1, 0)
    first = workload.next_request()
    assert len(tokenize_chat([{"role": "user", "content": first.prompt}])) == 519
    workload.learn(first, 519)
    second = workload.next_request()
    assert len(tokenize_chat([{"role": "user", "content": second.prompt}])) == 512


def test_what_was_asked_before_is_not_learned_again():
    workload = Workload(MIX, 1, 0, calibration=Calibration(1.0, 7.0, "tokenize"))
    before = workload.next_request()
    workload.learn(before, 10_000)
    after = workload.next_request()
    assert estimated_tokens(after.prompt) == (after.input_tokens_requested or 0) - 7


def test_a_local_tokenizer_is_asked_where_the_engine_does_not_count(tmp_path):
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Whitespace(), pre_tokenizers.Split("a", "isolated")]
    )
    tokenizer.save(str(tmp_path / "tokenizer.json"))  # an "a" is a token of its own: words are several
    source = tmp_path / "my.toml"
    source.write_text(f'name = "x"\n[engine]\ntokenizer = "{tmp_path / "tokenizer.json"}"\n')
    with ScriptedServer(json_answer(404, {"detail": "not here"})) as server:
        calibration = calibrate(server.url, "m", load_scenario(str(source), ["workload.inputs=100"]))
    assert calibration.source == "tokenizer"
    assert calibration.tokens_per_unit > 1.3
    count = load_counter(str(tmp_path / "tokenizer.json"))
    workload = Workload(MIX, 1, 0, calibration=calibration)
    # words differ in length, so a short prompt is off by some; on average they are right
    assert sum(deviations(workload, lambda request: count(request.prompt), n=200)) / 200 == pytest.approx(0, abs=0.05)


def test_what_a_tokenizer_cannot_know_is_learned_from_usage(tmp_path):
    def count(request):
        return chat_tokens(request, per_word=1.3, overhead=31)

    spec = WorkloadSpec(inputs=(InputSpec(tokens=500),))
    workload = Workload(spec, 1, 0, calibration=Calibration(1.3, 0.0, "tokenizer"))
    before = workload.next_request()
    assert count(before) == pytest.approx(531, abs=2)
    workload.learn(before, count(before))
    assert count(workload.next_request()) == pytest.approx(500, abs=2)


def test_answers_without_usage_teach_nothing():
    workload = Workload(MIX, 1, 0)
    workload.learn(workload.next_request(), None)
    request = workload.next_request()
    assert estimated_tokens(request.prompt) == request.input_tokens_requested


def test_counts_that_cannot_be_of_our_text_are_not_believed():
    # an engine that counts characters, or a proxy that answers with a constant
    assert fit([(64, 400), (1024, 6400)], "tokenize") == UNCALIBRATED
    assert fit([(64, 5), (1024, 5)], "tokenize") == UNCALIBRATED


def test_a_shared_beginning_stays_as_long_as_asked_and_the_rest_makes_up_for_the_template():
    spec = WorkloadSpec(inputs=(InputSpec(tokens=50),), prefix=PrefixSpec(pool=1, tokens=100))
    workload = Workload(spec, 1, 0, calibration=Calibration(1.0, 7.0, "tokenize"))
    first, second = (WORD.findall(workload.next_request().prompt) for _ in range(2))
    assert len(first) == len(second) == 143  # 100 + 50 - 7
    assert first[:100] == second[:100]
    assert first[100:] != second[100:]


def test_a_prompt_shorter_than_the_template_is_one_word():
    spec = WorkloadSpec(inputs=(InputSpec(tokens=3),))
    request = Workload(spec, 1, 0, calibration=Calibration(1.0, 7.0, "tokenize")).next_request()
    assert len(request.prompt.split()) == 1


def test_estimates_count_words_digits_and_characters_of_scripts_without_blanks():
    assert estimated_tokens("In 2024, it ran.") == 7  # In 202 4 , it ran .
    assert estimated_tokens("你好，world") == 4
