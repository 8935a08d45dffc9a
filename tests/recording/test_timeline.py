"""Levels and phases on one time axis."""

from scenarios.recording.timeline import Level, Timeline


def test_a_request_belongs_to_the_phase_in_which_it_was_sent() -> None:
    ended: list[Level] = []
    timeline = Timeline(ended.append)
    assert timeline.locate(1.0) == (None, None)
    timeline.begin_level("concurrency", 4, 10.0)
    timeline.begin_phase("warmup", 12.0)
    timeline.begin_phase("measure", 15.0)
    timeline.begin_phase("tail", 25.0)
    timeline.end_level(27.0, complete=True)
    timeline.begin_level("concurrency", 8, 28.0)
    assert timeline.locate(9.999) == (None, None)
    assert timeline.locate(10.0) == (1, "ramp")
    assert timeline.locate(14.999) == (1, "warmup")
    assert timeline.locate(15.0) == (1, "measure")
    assert timeline.locate(24.999) == (1, "measure")
    assert timeline.locate(25.0) == (1, "tail")
    assert timeline.locate(27.5) == (None, None)
    assert timeline.locate(28.0) == (2, "ramp")
    assert [level.level for level in ended] == [1]
    assert ended[0].measure_start_unix_s == 15.0
    assert ended[0].measure_end_unix_s == 25.0


def test_a_level_stopped_while_it_is_measured_ends_its_window_there() -> None:
    timeline = Timeline(lambda level: None)
    timeline.begin_level("concurrency", 4, 10.0)
    timeline.begin_phase("measure", 12.0)
    timeline.end_level(15.0, complete=False)
    timeline.end_level(99.0, complete=True)  # already over: changes nothing
    level = timeline.levels[0]
    assert (level.measure_end_unix_s, level.tail_end_unix_s, level.complete) == (15.0, 15.0, False)
