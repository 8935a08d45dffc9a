"""Plays the scheduler's steps in real time and fans their tokens out to the streams.

Steps follow one another on an absolute timeline: each ends at the end of the one before plus its own
duration, whatever the machine was late by. Only when the engine can't keep up at all does the timeline slip.
"""

import asyncio
from time import perf_counter

from scenarios.engine.generation import Generation
from scenarios.engine.metrics import Metrics
from scenarios.engine.scheduler import Scheduler, Sequence

MAX_LAG_S = 0.05  # the timeline slips rather than to run after a machine that is too slow or was asleep


class Runtime:
    """One engine at work. `speed` divides all of the model's times."""

    def __init__(self, scheduler: Scheduler, speed: float, metrics: Metrics) -> None:
        self._scheduler = scheduler
        self._s_per_model_ms = 1 / 1000 / speed
        self._metrics = metrics
        self._generations: dict[Sequence, Generation] = {}
        self._work = asyncio.Event()

    async def wait_model_ms(self, model_ms: float, since_s: float | None = None) -> None:
        """Wait for a time of the model, from `since_s` or from now on."""
        start_s = perf_counter() if since_s is None else since_s
        await sleep_until(start_s + model_ms * self._s_per_model_ms)

    @property
    def running(self) -> int:
        """Requests that the scheduler knows."""
        return len(self._generations)

    def start(self, generation: Generation) -> None:
        """Queue a request; its `done` says when its tokens have been delivered."""
        self._generations[generation.sequence] = generation
        self._scheduler.add(generation.sequence)
        self._work.set()

    def stop(self, generation: Generation) -> None:
        """The request has ended or its client has gone: spend no more steps on it."""
        if self._generations.pop(generation.sequence, None):
            self._scheduler.abort(generation.sequence)

    async def run(self) -> None:
        """Run step after step, for ever."""
        begin_s = perf_counter()
        while True:
            if not self._scheduler.has_work():
                self._work.clear()
                await self._work.wait()
                begin_s = perf_counter()
            step = self._scheduler.step()
            due_s = begin_s + step.duration_ms * self._s_per_model_ms
            emitted = [generation for sequence in step.emitted if (generation := self._generations.get(sequence))]
            chunks = [generation.next_chunk() for generation in emitted]
            await sleep_until(due_s)
            for generation, chunk in zip(emitted, chunks, strict=True):
                generation.deliver(chunk, due_s)
            self._metrics.count_step(step, due_s - begin_s)
            begin_s = max(due_s, perf_counter() - MAX_LAG_S)


async def sleep_until(instant_s: float) -> None:
    """Sleep until an instant of the monotonic clock; other tasks get a turn in any case."""
    await asyncio.sleep(max(0.0, instant_s - perf_counter()))
