"""Closed-loop users in front of the scheduler, in virtual time: what serving for a minute would measure."""

import heapq
from dataclasses import dataclass

from scenarios.engine.profile import Profile
from scenarios.engine.scheduler import Scheduler, Sequence

CLIENT_MS = 1.0  # from the end of a request until the same user's next one arrives


@dataclass
class Measured:
    ttft_ms: float
    tpot_ms: float
    tokens_per_s: float


def closed_loop(profile: Profile, users: int, stagger_ms: float, prompt_tokens=512, output_tokens=256) -> Measured:
    """Means over requests sent from 15 s to 60 s."""
    scheduler = Scheduler(profile)
    now_ms, from_ms, until_ms = 0.0, 15_000.0, 60_000.0
    arrivals = [(user * stagger_ms + profile.request_delay_ms(0), user * stagger_ms) for user in range(users)]
    sent_ms: dict[Sequence, float] = {}
    first_ms: dict[Sequence, float] = {}
    ttfts, tpots, tokens = [], [], 0
    while now_ms < until_ms:
        while arrivals and arrivals[0][0] <= now_ms:
            _, sent = heapq.heappop(arrivals)
            sequence = Sequence(prompt_tokens, output_tokens)
            sent_ms[sequence] = sent
            scheduler.add(sequence)
        if not scheduler.has_work():
            now_ms = arrivals[0][0]
            continue
        step = scheduler.step()
        now_ms += step.duration_ms
        tokens += len(step.emitted) if now_ms > from_ms else 0
        for sequence in step.emitted:
            first_ms.setdefault(sequence, now_ms)
            if sequence.emitted == output_tokens:
                if sent_ms[sequence] > from_ms:
                    ttfts.append(first_ms[sequence] - sent_ms[sequence])
                    tpots.append((now_ms - first_ms[sequence]) / (output_tokens - 1))
                sent = now_ms + CLIENT_MS
                heapq.heappush(arrivals, (sent + profile.request_delay_ms(len(scheduler.running)), sent))
    return Measured(sum(ttfts) / len(ttfts), sum(tpots) / len(tpots), tokens / (until_ms - from_ms) * 1000)
