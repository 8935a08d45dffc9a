"""The shipped profiles show what they were made to show, whatever way the users are spread."""

import pytest

from scenarios.engine.profile import load_profile
from tests.engine.virtual_time import closed_loop

STAGGERS_MS = (0.0, 20.0, 100.0, 183.0)


def test_one_user_of_the_default_profile_sees_45_ms_ttft_and_12_ms_tpot():
    alone = closed_loop(load_profile("vllm-a100-8b"), 1, 0.0)
    assert alone.ttft_ms == pytest.approx(45, abs=1)
    assert alone.tpot_ms == pytest.approx(12, abs=0.1)


@pytest.mark.parametrize("stagger_ms", STAGGERS_MS)
def test_32_users_of_the_default_profile_get_17_times_the_throughput_of_one(stagger_ms):
    profile = load_profile("vllm-a100-8b")
    alone, together = closed_loop(profile, 1, 0.0), closed_loop(profile, 32, stagger_ms)
    assert together.tokens_per_s / alone.tokens_per_s == pytest.approx(17, abs=0.5)
    assert 7 <= together.ttft_ms / alone.ttft_ms <= 9
    assert together.tpot_ms / alone.tpot_ms == pytest.approx(1.8, abs=0.05)


def test_latency_and_throughput_grow_with_each_level():
    levels = [closed_loop(load_profile("vllm-a100-8b"), users, 100.0) for users in (1, 2, 4, 8, 16, 32, 64)]
    for metric in ("ttft_ms", "tpot_ms", "tokens_per_s"):
        values = [getattr(level, metric) for level in levels]
        assert values == sorted(values)


def test_the_tensorrt_like_profile_trades_ttft_under_load_for_tpot():
    vllm, tensorrt = (closed_loop(load_profile(name), 32, 100.0) for name in ("vllm-a100-8b", "trtllm-a100-8b"))
    assert tensorrt.tpot_ms < 0.9 * vllm.tpot_ms
    assert tensorrt.ttft_ms > 1.1 * vllm.ttft_ms
