"""Each metric against numbers worked out by hand."""

import math

import numpy as np
import pandas as pd
import pytest

from analysis import gaps, metrics, schema
from analysis.spool import Rows

NAMES = schema.names(schema.REQUESTS_FILE)


def requests(*rows):
    return pd.DataFrame([dict.fromkeys(NAMES, math.nan) | row for row in rows])


def answer(first, last, output, events=None, first_event=math.nan):
    return {
        "first_token_ms": first,
        "last_token_ms": last,
        "output_tokens": output,
        "token_events": output if events is None else events,
        "first_event_tokens": first_event,
    }


def test_tpot_is_decode_time_over_the_tokens_after_the_first():
    assert metrics.tpot_ms(requests(answer(100, 550, 10)))[0] == 50.0  # 450 / 9


def test_tpot_leaves_out_all_tokens_of_the_first_event_where_their_number_is_known():
    assert metrics.tpot_ms(requests(answer(100, 500, 10, events=3, first_event=2)))[0] == 50.0  # 400 / 8


@pytest.mark.parametrize(
    "row",
    [
        answer(100, 100, 1),  # one token
        answer(100, 100, 5, events=1),  # all in one event
        answer(100, 100, 5, events=5),  # one burst
        answer(100, 200, 0, events=2),  # the server counted none
        answer(100, 200, 4, events=2, first_event=4),  # all counted in the first event
        answer(math.nan, math.nan, math.nan),
    ],
)
def test_tpot_is_absent_where_it_is_not_defined(row):
    assert math.isnan(metrics.tpot_ms(requests(row))[0])


def test_decode_speed_and_tokens_over_the_request_are_two_things():
    row = answer(4000, 6000, 100) | {"e2e_ms": 6000}
    assert metrics.decode_tok_s(requests(row))[0] == pytest.approx(49.5)  # 99 tokens in 2 s
    assert metrics.tokens_over_e2e_s(requests(row))[0] == pytest.approx(16.667, abs=0.001)  # 100 tokens in 6 s


def test_queue_is_the_wait_between_plan_and_start_and_ttft_from_plan_holds_it():
    row = answer(100, 200, 3) | {"planned_ms": -350.0, "started_ms": -50.0}
    assert metrics.queue_ms(requests(row))[0] == 300
    assert metrics.ttft_from_plan_ms(requests(row))[0] == 450
    assert metrics.ttft_ms(requests(row))[0] == 100


def test_time_to_1000_tokens_shows_a_ttft_win_paid_with_tpot():
    assert metrics.time_to_1000_tokens_ms(500, 20) == 20_480
    assert metrics.time_to_1000_tokens_ms(100, 25) == 25_075
    assert metrics.time_to_1000_tokens_ms(100, None) is None


@pytest.mark.parametrize(("p", "value"), [(50, 10), (90, 18), (95, 19), (99, 20), (100, 20), (1, 1)])
def test_percentiles_are_nearest_rank(p, value):
    assert metrics.percentile(np.arange(1.0, 21.0), p) == value  # element ceil(p / 100 * 20)


def test_every_percentile_of_one_value_is_that_value():
    values = metrics.stats([575.0])
    assert (values.p50, values.p99, values.max) == (575, 575, 575)


def test_values_that_can_not_be_are_refused_and_counted():
    values = metrics.stats([10.0, math.nan, math.inf, -1e12, 20.0])
    assert (values.n, values.mean, values.invalid) == (2, 15.0, 2)  # NaN is absent, not invalid


def test_no_value_gives_no_statistic_instead_of_zero():
    values = metrics.stats([])
    assert (values.n, values.mean, values.p50, values.max) == (0, None, None, None)


def test_standard_deviation_is_the_sample_one_and_large_values_do_not_overflow():
    assert metrics.stats([4e9, 5e9, 6e9]).std == 1e9


def token_rows(*cells):
    """Rows of (request, index, arrival_ms, tokens)."""
    code, index, arrival, tokens = zip(*cells, strict=True)
    numbers = np.array(code, np.int32), np.array(index, np.int32)
    return Rows(*numbers, np.array(arrival, float), np.array(tokens, np.float32), np.zeros(len(code), np.int8))


def test_itl_pools_the_single_gaps_of_each_request():
    rows = token_rows((0, 0, 10, 1), (0, 1, 20, 1), (0, 2, 520, 1), (1, 0, 5, 1), (1, 1, 9, 1))
    assert gaps.between(rows).ms.tolist() == [10, 500, 4]  # none from one request to the next
    assert gaps.between(rows).code.tolist() == [0, 0, 1]


def test_a_gap_over_a_lost_token_row_is_no_gap():
    assert gaps.between(token_rows((0, 0, 10, 1), (0, 2, 30, 1), (0, 3, 40, 1))).ms.tolist() == [10]


def test_an_event_weighs_its_own_count_or_its_share_of_the_request():
    rows = token_rows((0, 0, 10, 3), (0, 1, 20, 2), (1, 0, 5, math.nan), (1, 1, 9, math.nan))
    asked = requests(answer(10, 20, 5, events=2), answer(5, 9, 8, events=2))
    assert metrics.event_weights(rows, asked).tolist() == [3, 2, 4, 4]


@pytest.mark.parametrize("count", [2, 130, 3_000_017])
def test_the_deviation_of_many_values_is_numpys_to_the_last_digit(count):
    values = np.sort(np.random.default_rng(count).gamma(2, 7, count))
    assert metrics.stats_of_ordered(values).std == float(values.std(ddof=1))
