"""The real Triton with models of both interfaces and known times, over gRPC."""

import json
import re
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from tests.support.calls import drive

MODELS = {"vllm_model": (200, 40), "tensorrt_llm_bls": (150, 30), "ensemble": (150, 30)}  # as in their config.pbtxt
STEPS_MS = {"ensemble": 5}  # its first and last step take a time of their own, which no parameter gives
TOKENS = 20
ATTEMPTS = 3  # one quiet moment of a shared machine is enough


def tolerance_ms(true_ms):
    return 2 + 0.02 * true_ms


@pytest.mark.parametrize("model", MODELS)
def test_sixteen_streams_show_the_times_of_the_model(triton, model):
    ttft_ms, gap_ms = MODELS[model]
    for _ in range(ATTEMPTS):
        calls = [
            {"model": model, "after_s": 0.5, "count": 16, "requests_each": 3, "request": {"max_tokens": TOKENS}},
        ]
        results = drive(triton.grpc, calls)
        assert {(result["outcome"], result["output_tokens"]) for result in results} == {("success", TOKENS)}
        ttft = median(result["first_token_ms"] for result in results)
        tpot = median((r["last_token_ms"] - r["first_token_ms"]) / (TOKENS - 1) for r in results)
        ttft_within_ms = tolerance_ms(ttft_ms) + STEPS_MS.get(model, 0)
        right = (pytest.approx(ttft_ms, abs=ttft_within_ms), pytest.approx(gap_ms, abs=tolerance_ms(gap_ms)))
        if (ttft, tpot) == right:
            return
        time.sleep(2)
    assert (ttft, tpot) == right


def test_text_counts_and_reasons_are_the_models(triton):
    calls = [{"model": model, "request": {"prompt": "a b c", "max_tokens": 3}} for model in MODELS]
    results = {result["name"]: result for result in drive(triton.grpc, calls)}
    assert {result["text"] for result in results.values()} == {" tok0 tok1 tok2"}
    told = {
        name: (r["output_tokens_source"], r["input_tokens"], r["finish_reason"], r["token_counts"])
        for name, r in results.items()
    }
    assert told == {
        "vllm_model": ("usage", 3, "length", [1, 1, 1]),
        "tensorrt_llm_bls": ("usage", 3, None, [1, 1, 1]),
        "ensemble": ("estimated", None, None, [None] * 3),  # it counts nothing
    }


@pytest.mark.parametrize(("api", "host"), [("triton-grpc", "grpc"), ("triton-generate", "http")])
def test_a_probe_shows_one_request(triton, api, host):
    command = [Path(sys.executable).parent / "tokenswarm", "probe", "--api", api, "--host", getattr(triton, host)]
    asked = subprocess.run([*command, "--model", "vllm_model", "--max-tokens", "5", "--json"], capture_output=True)
    figures = json.loads(asked.stdout)
    assert (asked.returncode, figures["outcome"], figures["text"]) == (0, "success", " tok0 tok1 tok2 tok3 tok4")
    assert (figures["output_tokens"], figures["finish_reason"]) == (5, "length")
    refused = subprocess.run(command, capture_output=True, text=True)  # without a model, and there are three
    assert refused.returncode == 2
    assert "generate text: ensemble, tensorrt_llm_bls, vllm_model" in refused.stderr


def test_failures_of_the_server_are_told_in_its_words(triton):
    calls: list[dict[str, object]] = [
        {"model": "nope"},
        {"model": "vllm_model", "request": {"max_tokens": 4000}},
        {"model": "vllm_model", "request": {"max_tokens": 9, "extra_body": {"fail_after": 2}}},
        {"model": "tensorrt_llm_bls"},
        {"model": "preprocessing", "request": {"max_tokens": 3}},
    ]
    results = drive(triton.grpc, calls)
    found = {(r["model"], r["error_class"], len(r["token_arrivals_ms"])): r["error_text"] for r in results}
    assert "unknown model" in found["nope", "grpc_not_found", 0]
    assert "exceeds context 2048" in found["vllm_model", "server_error_event", 0]
    assert "out of memory" in found["vllm_model", "server_error_event", 2]
    assert "input max_tokens (INT32) is missing" in found["tensorrt_llm_bls", "invalid_inputs", 0]
    assert "its inputs are QUERY (BYTES" in found["preprocessing", "invalid_inputs", 0]


def test_a_stopped_user_stops_the_model(triton):
    before = triton.log.read_text().count("cancelled after")
    calls = [
        {"model": model, "kill_after_s": 1, "request": {"max_tokens": 400}}
        for model in ("vllm_model", "tensorrt_llm_bls")
    ]
    results = drive(triton.grpc, calls)
    assert [result["outcome"] for result in results] == ["cut_off", "cut_off"]
    tokens = [int(n) for n in re.findall(r"cancelled after (\d+)", triton.log.read_text())][before:]
    assert len(tokens) == 2
    assert max(tokens) < 100


def test_answers_that_are_not_streamed_have_no_token_times(triton):
    request = {"max_tokens": 5, "extra_body": {"stream": False}}
    results = drive(triton.grpc, [{"model": model, "request": request} for model in MODELS])
    for result in results:
        assert (result["outcome"], result["text"]) == ("success", " tok0 tok1 tok2 tok3 tok4")
        assert result["first_token_ms"] is None
        assert result["output_tokens"] == (None if result["model"] == "ensemble" else 5)


def test_gaps_of_a_lone_stream_are_the_models(triton):
    (result,) = drive(triton.grpc, [{"model": "vllm_model", "request": {"max_tokens": 30}}])
    gaps_ms = sorted(late - early for early, late in pairwise(result["token_arrivals_ms"]))
    assert gaps_ms[len(gaps_ms) // 2] == pytest.approx(40, abs=2)
