"""The open loop: starts by the schedule, whatever becomes of the requests before."""

from collections import Counter

import gevent
import pytest

from scenarios.clients.call import LLMRequest
from scenarios.pacing.arrivals import Stage, schedule, share
from scenarios.pacing.open_loop import DROPPED, PLANNED, STARTED, OpenLoop, Stretch
from scenarios.recording.clock import now_s


class Engine:
    """Takes a while for each request, and notes when it was planned and when it began."""

    def __init__(self, service_s):
        self.service_s = service_s
        self.planned_s: list[float] = []
        self.began_s: list[float] = []
        self.at_once = 0
        self.most_at_once = 0

    def send(self, request):
        self.planned_s.append(request.planned_s)
        self.began_s.append(now_s())
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        gevent.sleep(self.service_s)
        self.at_once -= 1

    def lags_s(self):
        return [began - planned for planned, began in zip(self.planned_s, self.began_s, strict=True)]


class Running:
    """An open loop that serves, with the counts it has told."""

    def __init__(self, engine, next_request=lambda: LLMRequest(prompt="hi")):
        self.counts: Counter[str] = Counter()
        self.loop = OpenLoop(engine.send, next_request, lambda what, _planned_s: self.counts.update([what]))
        self.greenlet = gevent.spawn(self.loop.run)

    def follow(self, due, length_s=None, lead_s=0.05, level=1, **options):
        """Keep to these seconds after now; wait for the end of the time they take."""
        begin_s = now_s() + lead_s
        arrivals = ((begin_s + at_s, None) for at_s in due)
        self.loop.follow(Stretch(arrivals, begin_s, level, **options))
        if length_s is not None:
            gevent.sleep(begin_s + length_s - now_s())
        return begin_s

    def halt(self):
        self.loop.halt()
        self.greenlet.join()


@pytest.fixture
def serve():
    running = []

    def begin(engine, *more):
        running.append(Running(engine, *more))
        return running[-1]

    yield begin
    for each in running:
        each.halt()
        each.loop.kill()


def constant(rate, length_s):
    return schedule([Stage(length_s, rate)], "1", burstiness=None)


def test_slow_answers_do_not_delay_later_starts(serve):
    # rate 5, service 1 s: five are always in flight, and a closed loop of one would have sent two
    engine = Engine(service_s=1.0)
    running = serve(engine)
    begin_s = running.follow(constant(5, 2), 1.99)
    assert [round(planned - begin_s, 6) for planned in engine.planned_s] == [round(0.2 * n, 6) for n in range(10)]
    assert max(engine.lags_s()) < 0.05
    assert running.loop.in_flight == 5
    assert running.loop.join(timeout_s=5)
    assert running.counts == {PLANNED: 10, STARTED: 10}


def test_a_low_rate_over_several_workers_does_not_drift(serve):
    engines = [Engine(service_s=0.6) for _ in range(4)]
    everyone = [serve(engine) for engine in engines]
    for worker, running in enumerate(everyone):
        running.follow(share(constant(2.5, 4), worker, 4))
    gevent.sleep(4.1)
    assert sum(running.counts[STARTED] for running in everyone) == 10
    assert max(lag for engine in engines for lag in engine.lags_s()) < 0.05


def test_starts_are_punctual(serve):
    engine = Engine(service_s=0.02)
    serve(engine).follow(schedule([Stage(2, 100)], "1"), 2)
    lags = sorted(engine.lags_s())
    # a millisecond alone on a core; other processes may share this one
    assert lags[len(lags) // 2] < 0.002
    assert lags[0] >= 0


def test_at_a_rate_that_cannot_be_reached_starts_are_late_and_the_rest_waits(serve):
    # 4 places of 0.2 s: 20 per second of the 50 asked for
    engine = Engine(service_s=0.2)
    running = serve(engine)
    begin_s = running.follow(constant(50, 3), 2, max_in_flight=4)
    assert engine.most_at_once == 4
    assert running.counts[STARTED] == pytest.approx(40, abs=4)
    assert running.counts[DROPPED] == 0
    # the 40th start, after 2 s, was planned for 0.8 s
    assert engine.lags_s()[-1] == pytest.approx(1.2, abs=0.25)
    next_due_s = running.loop.next_due_s
    assert next_due_s is not None
    assert next_due_s - begin_s == pytest.approx(0.8, abs=0.1)  # still waits, and is known to
    assert running.loop.lag_max_s < 0.05  # ours: the engine's slowness is not the client's


def test_what_finds_no_place_can_be_dropped_instead(serve):
    engine = Engine(service_s=0.2)
    running = serve(engine)
    running.follow(constant(50, 2), 1.99, max_in_flight=4, drop=True)
    assert running.counts[STARTED] + running.counts[DROPPED] == running.counts[PLANNED] == 100
    assert running.counts[STARTED] == pytest.approx(40, abs=8)
    assert max(engine.lags_s()) < 0.05


def test_killing_it_ends_what_is_in_flight(serve):
    engine = Engine(service_s=60)
    loop = serve(engine).loop
    loop.follow(Stretch(((now_s(), None) for _ in range(10)), now_s()))
    gevent.sleep(0.1)
    assert loop.in_flight == 10
    assert not loop.join(timeout_s=0.05)
    loop.kill()
    assert loop.in_flight == 0


def test_a_level_takes_over_at_its_instant_and_no_arrival_of_either_is_lost_or_late(serve):
    engine = Engine(service_s=0.5)
    running = serve(engine)
    begin_s = running.follow(constant(10, 60))
    gevent.sleep(0.6)
    second_s = running.follow(constant(20, 60), 0.49, lead_s=begin_s + 0.95 - now_s(), level=2)
    planned = [round(planned_s - begin_s, 6) for planned_s in engine.planned_s]
    second = [second_s - begin_s + 0.05 * n for n in range(10)]
    assert planned == pytest.approx([0.1 * n for n in range(10)] + second, abs=0.0001)
    assert second_s == pytest.approx(begin_s + 0.95, abs=0.01)
    assert max(engine.lags_s()) < 0.05


def test_what_waits_is_given_up_for_a_new_level_but_not_for_a_new_share_of_the_same(serve):
    engine = Engine(service_s=0.4)
    running = serve(engine)
    begin_s = running.follow([0.0, 0.0, 0.0, 0.0, 5.0], max_in_flight=1)
    gevent.sleep(0.2)
    running.follow([0.3], lead_s=0.0, max_in_flight=1)  # the rest of level 1, shared otherwise
    gevent.sleep(0.45)
    assert running.counts[STARTED] == 2  # the first, and the one that waited
    running.follow([0.0], 0.5, level=2)
    assert running.counts == {PLANNED: 6, STARTED: 3}  # three were given up, then level 2 began
    assert [round(planned_s - begin_s, 1) for planned_s in engine.planned_s][:2] == [0.0, 0.0]


def test_a_workload_that_ends_ends_the_level(serve):
    left = [LLMRequest(prompt="a"), LLMRequest(prompt="b")]

    def next_request():
        if not left:
            raise StopIteration
        return left.pop(0)

    running = serve(Engine(service_s=0.01), next_request)
    running.follow(constant(50, 60), 0.3, level=3)
    assert running.counts == {PLANNED: 2, STARTED: 2}
    assert running.loop.through_level == 3
    assert running.loop.next_due_s is None
