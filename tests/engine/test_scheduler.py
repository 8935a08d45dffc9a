"""The model of continuous batching, in numbers that can be followed on paper."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from scenarios.engine.kv_blocks import block_hashes
from scenarios.engine.profile import Profile
from scenarios.engine.scheduler import Scheduler, Sequence, Step

PROFILE = Profile(
    name="paper",
    step_ms=10.0,
    decode_sequence_ms=1.0,
    kv_read_ms_per_1k_tokens=0.0,
    prefill_ms_per_token=0.1,
    request_ms=0.0,
    request_ms_per_running=0.0,
    max_model_len=1024,
    max_num_seqs=4,
    max_num_batched_tokens=64,
    prefill_share_tokens=64,
    min_prefill_chunk_tokens=16,
    kv_blocks=64,
)


def steps(scheduler: Scheduler, count: int) -> list[Step]:
    return [scheduler.step() for _ in range(count)]


def rounded(*items: Step) -> list[float]:
    return [round(step.duration_ms, 6) for step in items]


def run_to_end(scheduler: Scheduler) -> list[Step]:
    done = []
    while scheduler.has_work():
        done.append(scheduler.step())
        assert len(done) < 10_000
    return done


def test_a_prompt_is_computed_in_chunks_then_each_step_gives_one_token():
    scheduler = Scheduler(PROFILE)
    scheduler.add(request := Sequence(prompt_tokens=100, output_tokens=3))
    done = run_to_end(scheduler)
    # 64 tokens: 10 + 6.4; 36 tokens: 10 + 3.6 and the first token; then 10 + 1 for each token
    assert rounded(*done) == [16.4, 13.6, 11.0, 11.0]
    assert [step.emitted for step in done] == [[], [request], [request], [request]]
    assert scheduler.pool.used == 0


def test_reading_the_kv_cache_costs_time():
    scheduler = Scheduler(replace(PROFILE, kv_read_ms_per_1k_tokens=100.0))
    scheduler.add(Sequence(prompt_tokens=50, output_tokens=2))
    # 10 + 5 for 50 prompt tokens + 5 for 50 tokens in the cache; then 10 + 1 + 5.1 for 51
    assert rounded(*steps(scheduler, 2)) == [20.0, 16.1]


def test_a_prompt_beside_a_decoding_sequence_gets_only_its_share():
    scheduler = Scheduler(PROFILE)
    scheduler.add(Sequence(prompt_tokens=10, output_tokens=50))
    scheduler.step()
    scheduler.add(late := Sequence(prompt_tokens=100, output_tokens=1))
    done = steps(scheduler, 4)
    # two sequences share 64 tokens: 32 a step, so 32 + 32 + 32 + 4
    assert [step.prefill_tokens for step in done] == [32, 32, 32, 4]
    assert rounded(*done) == [14.2, 14.2, 14.2, 11.4]  # 10 + 1 + 0.1 x tokens
    assert [late in step.emitted for step in done] == [False, False, False, True]


def test_the_shares_of_all_unfinished_prompts_go_to_the_first_come():
    scheduler = Scheduler(PROFILE)
    scheduler.add(Sequence(prompt_tokens=10, output_tokens=50))
    scheduler.step()
    first, second = Sequence(prompt_tokens=100, output_tokens=9), Sequence(prompt_tokens=100, output_tokens=9)
    scheduler.add(first)
    scheduler.add(second)
    # three sequences: a share is 64 // 3 = 21, two prompts bring 42
    computed = []
    for _ in range(3):
        scheduler.step()
        computed.append((first.computed, second.computed))
    assert computed == [(42, 0), (84, 0), (100, 26)]


def test_a_share_is_never_smaller_than_the_smallest_chunk():
    scheduler = Scheduler(replace(PROFILE, prefill_share_tokens=4))
    scheduler.add(Sequence(prompt_tokens=40, output_tokens=1))
    assert [step.prefill_tokens for step in run_to_end(scheduler)] == [16, 16, 8]


def test_no_more_sequences_run_than_there_are_slots():
    scheduler = Scheduler(replace(PROFILE, max_num_seqs=2))
    for _ in range(3):
        scheduler.add(Sequence(prompt_tokens=4, output_tokens=2))
    scheduler.step()
    assert (len(scheduler.running), len(scheduler.waiting)) == (2, 1)
    scheduler.step()  # both end
    third = scheduler.step()
    assert third.prefill_tokens == 4


def test_when_the_kv_cache_is_full_the_last_come_recomputes_later():
    scheduler = Scheduler(replace(PROFILE, kv_blocks=4, max_model_len=64))
    first, last = Sequence(prompt_tokens=30, output_tokens=20), Sequence(prompt_tokens=30, output_tokens=20)
    scheduler.add(first)
    scheduler.add(last)
    done = steps(scheduler, 3)
    # 30 + 30 prompt tokens fill 4 blocks; with 32 tokens each they are full
    assert [len(step.emitted) for step in done] == [2, 2, 2]
    squeezed = scheduler.step()  # the first needs a third block
    assert (squeezed.emitted, squeezed.preemptions) == ([first], 1)
    assert (last.computed, last.emitted, list(scheduler.waiting)) == (0, 3, [last])
    rest = run_to_end(scheduler)
    # the first has 4 of its 20 tokens: it ends after 16 more steps, then the last recomputes 30 + 3 tokens
    assert [step.prefill_tokens for step in rest[:17]] == [0] * 16 + [33]
    assert (first.emitted, last.emitted, last.preemptions) == (20, 20, 1)
    assert scheduler.pool.used == 0


def test_an_aborted_request_gives_its_blocks_back_wherever_it_is():
    scheduler = Scheduler(replace(PROFILE, max_num_seqs=1))
    running, waiting = Sequence(prompt_tokens=30, output_tokens=9), Sequence(prompt_tokens=30, output_tokens=9)
    scheduler.add(running)
    scheduler.add(waiting)
    scheduler.step()
    scheduler.abort(running)
    scheduler.abort(waiting)
    scheduler.abort(running)  # once more: it is gone already
    assert scheduler.pool.used == 0
    assert not scheduler.has_work()


def words(count: int, start: int = 0) -> list[str]:
    return [str(number) for number in range(start, start + count)]


def cached(prompt: list[str], answer: list[str]) -> Sequence:
    return Sequence(len(prompt), len(answer), block_hashes(prompt + answer))


def test_a_known_prefix_is_not_computed_again():
    scheduler = Scheduler(PROFILE, prefix_caching=True)
    scheduler.add(cached(words(40), words(2, 100)))
    run_to_end(scheduler)
    scheduler.add(again := cached(words(40), words(2, 200)))
    first = scheduler.step()
    # 40 tokens have 2 full blocks of 16
    assert (again.cached_tokens, first.prefill_tokens) == (32, 8)
    assert (scheduler.prefix_queries, scheduler.prefix_hits) == (80, 32)


def test_the_last_prompt_token_is_always_computed():
    scheduler = Scheduler(PROFILE, prefix_caching=True)
    for _ in range(2):
        scheduler.add(request := cached(words(32), words(1, 100)))
        run_to_end(scheduler)
    assert request.cached_tokens == 16  # of two cached blocks


def test_an_answer_is_part_of_the_next_turns_prefix():
    scheduler = Scheduler(PROFILE, prefix_caching=True)
    scheduler.add(cached(words(20), words(30, 20)))
    run_to_end(scheduler)
    scheduler.add(next_turn := cached(words(60), words(1, 900)))
    scheduler.step()
    # 20 + 29 tokens were in the cache (the last one generated never is): 3 full blocks
    assert next_turn.cached_tokens == 48


def test_another_first_token_shares_nothing():
    scheduler = Scheduler(PROFILE, prefix_caching=True)
    scheduler.add(cached(words(40), ["a"]))
    run_to_end(scheduler)
    scheduler.add(other := cached(["x", *words(40)[1:]], ["a"]))
    scheduler.step()
    assert other.cached_tokens == 0


def test_room_for_new_blocks_is_made_by_forgetting_the_oldest_prefix():
    scheduler = Scheduler(replace(PROFILE, kv_blocks=4, max_model_len=64), prefix_caching=True)
    for start in (0, 100):
        scheduler.add(cached(words(40, start), ["a"]))
        run_to_end(scheduler)
    # the second request needed 3 of the 4 blocks: the end of the first prefix had to go
    scheduler.add(old := cached(words(40), ["a"]))
    scheduler.step()
    assert old.cached_tokens == 16


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 30), st.integers(0, 3), st.booleans()), max_size=12),
    st.booleans(),
    st.data(),
)
def test_every_request_ends_with_all_its_tokens_and_no_block_is_lost(requests, prefix_caching, data):
    profile = replace(PROFILE, kv_blocks=8, max_model_len=90)
    scheduler = Scheduler(profile, prefix_caching)
    pending = list(requests)
    kept = []
    while pending or scheduler.has_work():
        if pending and (not scheduler.has_work() or data.draw(st.booleans())):
            prompt_tokens, output_tokens, text, aborted = pending.pop()
            tokens = words(prompt_tokens + output_tokens, text * 7)
            sequence = Sequence(prompt_tokens, output_tokens, block_hashes(tokens) if prefix_caching else ())
            scheduler.add(sequence)
            if aborted:
                scheduler.step()
                scheduler.abort(sequence)
            else:
                kept.append(sequence)
        else:
            scheduler.step()
        assert 0 <= scheduler.pool.used <= profile.kv_blocks
        assert len(scheduler.running) <= profile.max_num_seqs
    assert [sequence.emitted for sequence in kept] == [sequence.output_tokens for sequence in kept]
    assert scheduler.pool.used == 0
    assert scheduler._kv_tokens == 0
