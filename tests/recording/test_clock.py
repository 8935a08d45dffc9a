"""Offsets between the clocks of a worker and its master."""

from scenarios.recording.clock import Clock, OffsetEstimate


def test_the_exchange_with_the_shortest_round_trip_gives_the_offset() -> None:
    clock = Clock()
    estimate = OffsetEstimate(clock)
    own_unix_s = clock.unix_s(100.0)
    # asked at 100.0, answered at 100.4: the middle is 100.2; the master's clock is 5 s ahead of it
    estimate.add(100.0, own_unix_s + 0.2 + 5.0, 100.4)
    assert round(clock.offset_s, 6) == 5.0
    assert round(clock.uncertainty_s, 6) == 0.2
    # a quicker exchange (10 ms there and back) is trusted more: the offset is 4.9 s
    estimate.add(101.0, own_unix_s + 1.005 + 4.9, 101.010)
    assert round(clock.offset_s, 6) == 4.9
    assert round(clock.uncertainty_s, 6) == 0.005
    # a slower one changes nothing
    estimate.add(102.0, own_unix_s + 2.0 + 9.0, 104.0)
    assert round(clock.offset_s, 6) == 4.9


def test_an_old_exchange_is_forgotten_because_clocks_drift() -> None:
    clock = Clock()
    estimate = OffsetEstimate(clock)
    own_unix_s = clock.unix_s(0.0)
    estimate.add(0.0, own_unix_s + 0.0005 + 1.0, 0.001)
    for second in range(1, OffsetEstimate.KEPT_EXCHANGES + 1):
        estimate.add(float(second), own_unix_s + second + 0.005 + 1.1, second + 0.010)
    assert round(clock.offset_s, 6) == 1.1
