"""Against llama.cpp's server with the known-output model: every byte of every answer is known beforehand."""


def test_350_requests_in_a_row_all_succeed_although_the_server_closes_after_each(llamacpp, drive, known_answer):
    results = drive(llamacpp, requests_each=350, max_tokens=64)
    assert len(results) == 350
    assert {result["outcome"] for result in results} == {"success"}
    assert {result["text"] for result in results} == {known_answer.text}
    assert {result["output_tokens"] for result in results} == {known_answer.completion_tokens}
    assert {result["output_tokens_source"] for result in results} == {"usage"}
    assert {result["finish_reason"] for result in results} == {"stop"}


def test_more_streams_than_slots_wait_but_none_is_lost(llamacpp, drive, known_answer):
    results = drive(llamacpp, streams=48, requests_each=2, max_tokens=64)
    assert [result["text"] for result in results] == [known_answer.text] * 96


def test_max_tokens_and_ignore_eos_are_obeyed(llamacpp, drive):
    (result,) = drive(llamacpp, max_tokens=100, ignore_eos=True)
    assert (result["outcome"], result["output_tokens"], result["finish_reason"]) == ("success", 100, "length")
    assert len(result["token_arrivals_ms"]) == 100


def test_legacy_completions_count_what_the_server_counts(llamacpp, drive):
    (result,) = drive(llamacpp, api="completions", max_tokens=30)
    assert (result["outcome"], result["output_tokens"], result["finish_reason"]) == ("success", 30, "length")


def test_a_too_long_prompt_is_an_http_400(llamacpp, drive):
    (result,) = drive(llamacpp, prompt="word " * 3000)
    assert (result["http_status"], result["outcome"]) == (400, "failure")
    assert "exceed" in result["error_text"]
