"""The open loop: starts by the schedule, whatever becomes of the requests before."""

import gevent
import pytest

from scenarios.clients.call import LLMRequest
from scenarios.pacing.arrivals import Stage, schedule, share
from scenarios.pacing.open_loop import OpenLoop
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


def run(loop, due, length_s):
    begin_s = now_s() + 0.05
    loop.run(due, begin_s, begin_s + length_s)
    return begin_s


def requests(due):
    return ((at_s, LLMRequest(prompt="hi")) for at_s in due)


def constant(rate, length_s):
    return requests(schedule([Stage(length_s, rate)], "1", burstiness=None))


def test_slow_answers_do_not_delay_later_starts():
    # rate 5, service 1 s: five are always in flight, and a closed loop of one would have sent two
    engine = Engine(service_s=1.0)
    loop = OpenLoop(engine.send)
    begin_s = run(loop, constant(5, 2), 2)
    assert now_s() - begin_s == pytest.approx(2, abs=0.2)
    assert [round(planned - begin_s, 6) for planned in engine.planned_s] == [round(0.2 * n, 6) for n in range(10)]
    assert max(engine.lags_s()) < 0.05
    assert loop.in_flight == 5
    assert loop.join(timeout_s=5)
    assert (loop.started, loop.dropped, loop.missed) == (10, 0, 0)


def test_a_low_rate_over_several_workers_does_not_drift():
    engines = [Engine(service_s=0.6) for _ in range(4)]
    loops = [OpenLoop(engine.send) for engine in engines]
    begin_s = now_s() + 0.05
    greenlets = [
        gevent.spawn(loop.run, share(constant(2.5, 4), worker, 4), begin_s, begin_s + 4)
        for worker, loop in enumerate(loops)
    ]
    gevent.joinall(greenlets, raise_error=True)
    assert now_s() - begin_s == pytest.approx(4, abs=0.2)
    assert sum(loop.started for loop in loops) == 10
    assert max(lag for engine in engines for lag in engine.lags_s()) < 0.05
    for loop in loops:
        loop.join()


def test_starts_are_punctual():
    engine = Engine(service_s=0.02)
    loop = OpenLoop(engine.send)
    run(loop, requests(schedule([Stage(2, 100)], "1")), 2)
    loop.join()
    lags = sorted(engine.lags_s())
    # a millisecond alone on a core; other processes may share this one
    assert lags[len(lags) // 2] < 0.002
    assert lags[0] >= 0


def test_at_a_rate_that_cannot_be_reached_starts_are_late_and_the_rest_is_counted():
    # 4 places of 0.2 s: 20 per second of the 50 asked for
    engine = Engine(service_s=0.2)
    loop = OpenLoop(engine.send, max_in_flight=4)
    run(loop, constant(50, 2), 2)
    assert engine.most_at_once == 4
    assert loop.started == pytest.approx(40, abs=4)
    assert loop.started + loop.missed == 100
    # the 40th start, after 2 s, was planned for 0.8 s
    assert engine.lags_s()[-1] == pytest.approx(1.2, abs=0.25)
    assert loop.lag_max_s < 0.05  # ours: the engine's slowness is not the client's
    loop.join()


def test_what_finds_no_place_can_be_dropped_instead():
    engine = Engine(service_s=0.2)
    loop = OpenLoop(engine.send, max_in_flight=4, drop=True)
    run(loop, constant(50, 2), 2)
    assert loop.started + loop.dropped == 100
    assert loop.started == pytest.approx(40, abs=8)
    assert max(engine.lags_s()) < 0.05
    loop.join()


def test_killing_it_ends_what_is_in_flight():
    engine = Engine(service_s=60)
    loop = OpenLoop(engine.send)
    run(loop, constant(20, 0.5), 0.5)
    assert loop.in_flight == 10
    assert not loop.join(timeout_s=0.05)
    loop.kill()
    assert loop.in_flight == 0
