"""Continuous batching, as a pure model: which sequences compute what in the next step, and how long it takes.

No clock and no I/O: `step()` advances the model by one iteration and tells its duration, so a test can
run hours of serving in a moment and the engine's loop can play the same steps in real time.

The rules are vLLM's: running sequences first, in order of arrival, then waiting ones while there is room in
the token budget, the sequence slots and the KV cache; a prompt may be computed in chunks beside the others'
decoding; when the KV cache is full, the sequence that came last gives its blocks back and recomputes later.
One rule is added, in the manner of stall-free schedulers, so that prompts don't hold up everybody's next
token: each unfinished prompt brings only its even share of `prefill_share_tokens` into the step (the fuller
the batch, the less), and what they bring together goes to the prompts in order of arrival.
"""

from collections import deque
from collections.abc import Sequence as Items
from dataclasses import dataclass, field

from scenarios.engine.kv_blocks import BlockPool, blocks_for
from scenarios.engine.profile import BLOCK_TOKENS, Profile


@dataclass(slots=True, eq=False)
class Sequence:
    """One request in the scheduler. `hashes` covers prompt and answer; empty without prefix caching."""

    prompt_tokens: int
    output_tokens: int  # ends after so many
    hashes: Items[int] = ()
    emitted: int = 0  # output tokens so far
    computed: int = 0  # tokens in the KV cache
    cached_tokens: int = 0  # prompt tokens found in the prefix cache at first admission
    private_blocks: int = 0
    shared: list[int] = field(default_factory=list)  # hashes of its leading, shared blocks
    published: int = 0  # leading blocks already offered to the cache
    preemptions: int = 0
    running: bool = False

    @property
    def tokens(self) -> int:
        """Tokens known so far: the prompt and what was generated."""
        return self.prompt_tokens + self.emitted

    @property
    def missing(self) -> int:
        """Known tokens that are not in the KV cache; exactly 1 while decoding."""
        return self.prompt_tokens + self.emitted - self.computed

    @property
    def in_prefill(self) -> bool:
        """Whether it has to compute its prompt, or to recompute after a preemption."""
        return not self.emitted or self.missing > 1


@dataclass(frozen=True, slots=True)
class Step:
    """One iteration: who got a token at its end, and how long it takes at speed 1."""

    duration_ms: float
    emitted: list[Sequence]
    prefill_tokens: int
    decodes: int
    preemptions: int


class Scheduler:
    """The state of one engine's queue, batch and KV cache."""

    def __init__(self, profile: Profile, prefix_caching: bool = False) -> None:
        self.profile = profile
        self.prefix_caching = prefix_caching
        self.pool = BlockPool(profile.kv_blocks)
        self.waiting: deque[Sequence] = deque()
        self.running: list[Sequence] = []
        self.prefix_queries = 0  # prompt tokens looked up in the prefix cache
        self.prefix_hits = 0  # prompt tokens found there
        self._kv_tokens = 0  # tokens in the KV cache of running sequences

    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return bool(self.running or self.waiting)

    def add(self, sequence: Sequence) -> None:
        """Queue a request."""
        self.waiting.append(sequence)

    def abort(self, sequence: Sequence) -> None:
        """Forget a request, wherever it is; one that has ended already is left alone."""
        if sequence.running:
            self.running.remove(sequence)
            self._free(sequence)
        elif sequence in self.waiting:
            self.waiting.remove(sequence)

    def step(self) -> Step:
        """Run one iteration."""
        planned, preemptions = self._schedule()
        emitted: list[Sequence] = []
        prefill_tokens = decodes = 0
        finished = False
        for sequence, count in planned:
            if sequence.in_prefill:
                prefill_tokens += count
            else:
                decodes += 1
            sequence.computed += count
            self._kv_tokens += count
            if sequence.computed == sequence.tokens:
                sequence.emitted += 1
                emitted.append(sequence)
                finished = finished or sequence.emitted >= sequence.output_tokens
        duration_ms = self._duration_ms(decodes, prefill_tokens)
        if self.prefix_caching:
            for sequence, _ in planned:
                self._publish(sequence)
        if finished:
            for sequence in emitted:
                if sequence.emitted >= sequence.output_tokens:
                    self._free(sequence)
            self.running = [sequence for sequence in self.running if sequence.running]
        return Step(duration_ms, emitted, prefill_tokens, decodes, preemptions)

    def _duration_ms(self, decodes: int, prefill_tokens: int) -> float:
        profile = self.profile
        return (
            profile.step_ms
            + profile.decode_sequence_ms * decodes
            + profile.kv_read_ms_per_1k_tokens * self._kv_tokens / 1000
            + profile.prefill_ms_per_token * prefill_tokens
        )

    def _schedule(self) -> tuple[list[tuple[Sequence, int]], int]:
        """Choose how many tokens each sequence computes in this step; count preemptions."""
        budget = self.profile.max_num_batched_tokens
        prefill = min(budget, self._prefill_tokens())
        planned: list[tuple[Sequence, int]] = []
        preemptions = 0
        index = 0
        while index < len(self.running) and budget > 0:
            sequence = self.running[index]
            index += 1
            count = sequence.missing
            if sequence.in_prefill:
                count = min(count, prefill, budget)
                prefill -= count
                if not count:
                    continue
            while not self._reserve(sequence, count):
                preemptions += 1
                if self._preempt_last() is sequence:
                    return planned, preemptions
            planned.append((sequence, count))
            budget -= count
        if not preemptions:
            self._admit(planned, min(budget, prefill))
        return planned, preemptions

    def _prefill_tokens(self) -> int:
        """Prompt tokens that this step may compute: one even share for each unfinished prompt."""
        profile = self.profile
        admissible = min(len(self.waiting), profile.max_num_seqs - len(self.running))
        unfinished = admissible + sum(sequence.in_prefill for sequence in self.running)
        share = profile.prefill_share_tokens // max(1, len(self.running) + admissible)
        return unfinished * max(profile.min_prefill_chunk_tokens, share)

    def _admit(self, planned: list[tuple[Sequence, int]], budget: int) -> None:
        """Start waiting sequences, first come first served, while there is room."""
        while self.waiting and budget > 0 and len(self.running) < self.profile.max_num_seqs:
            sequence = self.waiting[0]
            prefix = self._cached_prefix(sequence)
            self.pool.share(prefix)
            sequence.shared.extend(prefix)
            sequence.computed = len(prefix) * BLOCK_TOKENS
            count = min(sequence.missing, budget)
            if not self._reserve(sequence, count):
                self.pool.release(prefix)
                sequence.shared.clear()
                sequence.computed = 0
                return
            self.waiting.popleft()
            self.running.append(sequence)
            sequence.running = True
            sequence.published = len(prefix)
            self._kv_tokens += sequence.computed
            if self.prefix_caching and not sequence.preemptions:
                sequence.cached_tokens = sequence.computed
                self.prefix_queries += sequence.prompt_tokens
                self.prefix_hits += sequence.computed
            planned.append((sequence, count))
            budget -= count

    def _cached_prefix(self, sequence: Sequence) -> Items[int]:
        if not self.prefix_caching:
            return ()
        # At least one token has to be computed: it gives the next one.
        reusable = sequence.hashes[: (sequence.tokens - 1) // BLOCK_TOKENS]
        return reusable[: self.pool.cached_prefix(reusable)]

    def _reserve(self, sequence: Sequence, count: int) -> bool:
        """Make sure that the blocks for `count` more tokens are there."""
        missing = blocks_for(sequence.computed + count) - len(sequence.shared) - sequence.private_blocks
        if missing <= 0:
            return True
        if not self.pool.take(missing):
            return False
        sequence.private_blocks += missing
        return True

    def _preempt_last(self) -> Sequence:
        """Take the blocks of the sequence that came last; it recomputes all of its tokens later."""
        sequence = self.running.pop()
        self._free(sequence)
        sequence.computed = 0
        sequence.preemptions += 1
        self.waiting.appendleft(sequence)
        return sequence

    def _publish(self, sequence: Sequence) -> None:
        """Offer the blocks that have become full to the prefix cache."""
        full = min(sequence.computed // BLOCK_TOKENS, len(sequence.hashes))
        while sequence.published < full:
            block = sequence.hashes[sequence.published]
            # Shared blocks are a leading run: behind a private copy the rest stays private too.
            if sequence.published > len(sequence.shared) or not self.pool.publish(block):
                sequence.published = len(sequence.hashes)
                return
            sequence.shared.append(block)
            sequence.private_blocks -= 1
            sequence.published += 1

    def _free(self, sequence: Sequence) -> None:
        self.pool.give_back(sequence.private_blocks)
        self.pool.release(sequence.shared)
        self._kv_tokens -= sequence.computed
        sequence.private_blocks = 0
        sequence.shared.clear()
        sequence.published = 0
        sequence.running = False
