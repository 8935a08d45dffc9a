"""Faults that people have met, each against its right answer: `tests/cases/analysis.yaml`."""

import math
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
import yaml

import analysis
from analysis import foreign, metrics, runs, schema, tables, windows
from analysis.figures import iso

FILE = Path(__file__).parents[1] / "cases" / "analysis.yaml"
CASES = {case["id"]: case["repro"] for case in yaml.safe_load(FILE.read_text(encoding="utf-8"))}
T0 = 1_800_000_000.0


@pytest.fixture
def case(request, tmp_path):
    """The case that the test is named for: what goes in, what is expected, and its files written."""
    repro = CASES[request.node.name.removeprefix("test_").replace("_", "-")]
    for name, text in repro.get("files", {}).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return repro.get("input"), repro["expect"], tmp_path


def test_every_case_has_its_test():
    assert {"test_" + name.replace("-", "_") for name in CASES} <= set(globals())


def table(rows):
    return pd.DataFrame([dict.fromkeys(schema.names(schema.REQUESTS_FILE), math.nan) | row for row in rows])


def level_of(run):
    return analysis.summarise(analysis.load(run.write())).levels[0]


def test_run_report_times_in_viewer_zone(case):
    given, expected, _ = case
    assert iso(given["epoch"]) == expected["utc"]
    assert iso(given["epoch"], ZoneInfo(given["zones"][1])) == expected["shanghai"]


def test_run_fast_failures_pull_percentiles(case, build):
    given, expected, _ = case
    run = build()
    run.level()
    for _ in range(given["failed"]["n"]):
        run.request(0, e2e_ms=given["failed"]["ms"], error_class="http_429")
    for _ in range(given["ok"]["n"]):
        run.request(0, [given["ok"]["ms"]])
    level = level_of(run)
    assert level.latencies.e2e_ms.p50 == expected["p50_success_ms"]
    assert level.latencies.e2e_ms.mean == expected["mean_success_ms"]
    assert level.counts.failure / level.counts.started == expected["fail_ratio"]


def test_cli_monotonic_sent_as_epoch(case):
    given, expected, _ = case
    frame = table([{"sent_unix_s": given["stage_start_monotonic"]}, {"sent_unix_s": given["stage_start_epoch"]}])
    assert runs.refuse_invalid(frame)["sent_unix_s"] == 1
    window = windows.Window(given["stage_start_epoch"], given["stage_start_epoch"] + given["stage_seconds"])
    assert window.end_unix_s == expected["query_time"]


def test_cli_negative_ttft_from_missing_stamp(case):
    given, expected, _ = case
    stored = [(record["first"] or 0.0) - record["start"] for record in given["records"]]  # the fault: 0 for missing
    frame = table([{"first_token_ms": round(seconds * 1000, 3)} for seconds in stored])
    invalid = runs.refuse_invalid(frame)
    values = metrics.stats(metrics.ttft_ms(frame))
    assert (values.n, invalid["first_token_ms"]) == (expected["n_ttft"], expected["invalid"])
    assert values.mean == pytest.approx(expected["mean_ttft_ms"], abs=0.01)
    assert metrics.stats(np.array(stored) * 1000).invalid == expected["invalid"]  # the same without a table


def test_cli_tpot_zero_in_mean(case):
    given, expected, _ = case
    values = metrics.stats([math.nan if value is None else value for value in given["tpot_ms"]])
    assert (values.mean, values.n) == (expected["mean"], expected["n"])


def test_cli_rate_including_first_fill(case):
    _, expected, _ = case
    ends = T0 + np.arange(10.0, 21.0)
    assert metrics.steady_requests_s(ends) == expected["steady_rps"]
    assert len(ends) / (ends.max() - T0) == expected["whole_run_rps"]


def test_cli_trimmed_sum_untrimmed_time(case, build):
    given, expected, _ = case
    run = build()
    # a second for each request, its tokens evenly inside; the window leaves out the first and the last two
    run.level(start_s=given["trim_head"], end_s=given["duration_s"] - given["trim_tail"])
    for second in range(given["requests"]):
        run.request(second, [round((token + 0.5) * 1000 / 101, 3) for token in range(given["tokens_each"])])
    assert level_of(run).output_tok_s == pytest.approx(expected["tokens_per_s"])


def test_cli_finished_only_token_rate(case, build):
    given, expected, _ = case
    run = build()
    run.level(start_s=0, end_s=given["window_s"])
    for outcome, kind in (("success", "finished"), ("cut_off", "cut_off")):
        for _ in range(given[kind]["n"]):
            run.request(0, range(1, given[kind]["tokens"] + 1), outcome=outcome)
    assert level_of(run).output_tok_s == pytest.approx(expected["tokens_per_s"])


def test_cli_decode_speed_vs_request_speed(case):
    given, expected, _ = case
    first, last = given["ttft_s"] * 1000, given["last_token_s"] * 1000
    row = {"first_token_ms": first, "last_token_ms": last, "e2e_ms": last, "output_tokens": given["tokens"]}
    frame = table([row | {"token_events": given["tokens"]}])
    assert metrics.decode_tok_s(frame)[0] == pytest.approx(expected["decode_tokens_per_s"])
    assert metrics.tokens_over_e2e_s(frame)[0] == pytest.approx(expected["tokens_over_e2e_per_s"], abs=0.001)


def test_cli_p99_above_maximum(case):
    given, expected, _ = case
    values = metrics.stats(given["values_ms"])
    assert {name: getattr(values, name) for name in expected} == expected


def test_cli_small_tpot_rounded_away(case):
    given, expected, _ = case
    values = metrics.stats(given["values_ms"])
    assert {name: getattr(values, name) for name in expected} == expected


def test_cli_average_of_worker_percentiles(case, build):
    given, expected, _ = case
    run = build()
    run.level()
    for number, worker in enumerate(given["workers"].values()):
        for _ in range(worker["n"]):
            run.request(0, [worker["ms"]], worker=number)
    values = level_of(run).latencies.ttft_ms
    assert {name: getattr(values, name) for name in expected} == expected


def test_cli_missing_values_in_denominator(case):
    given, expected, _ = case
    values = metrics.stats([*map(float, range(100)), *[math.nan] * given["missing"]])
    assert values.n == expected["n"]
    assert values.p50 in expected["p50"]
    assert values.p95 in expected["p95"]


def test_cli_short_percentile_window(case, build):
    given, expected, _ = case
    run = build()
    run.info["scenario"]["report"] = {"window_s": given["window_s"]}
    run.level(start_s=given["now"] - 3 * given["window_s"], end_s=given["now"])
    for sample in given["samples"]:
        run.request(sample["t"], [sample["ms"]])
    first, empty, last = level_of(run).windows
    assert (first.ttft_ms.p50, last.ttft_ms.p50) == (100, expected["p50"])
    assert (empty.ttft_ms.n, empty.ttft_ms.p50) == (0, None)  # no data


def test_cli_nan_or_inf_metric(case, build):
    given, expected, _ = case
    run = build()
    run.level()
    for value in given["values"]:
        run.request(0, [5, 6], e2e_ms=value)
    loaded = analysis.load(run.write())
    values = analysis.summarise(loaded).levels[0].latencies.e2e_ms
    assert (values.n, values.mean) == (expected["n"], expected["mean"])
    assert loaded.invalid["e2e_ms"] == 1  # NaN in a file is an absent cell
    assert metrics.stats([float(value) for value in given["values"]]).n == expected["n"]


def test_csv_history_header_of_two_versions(case):
    _, expected, folder = case
    totals = [foreign.locust_totals(folder / name) for name in ("old_history.csv", "new_history.csv")]
    assert sum(total.requests for total in totals) == expected["requests"]
    assert sum(total.failures for total in totals) == expected["failures"]
    (folder / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(tables.RunError, match="is it a file of Locust"):
        foreign.locust_totals(folder / "other.csv")


def test_csv_columns_shift_between_benchmarks(case):
    _, expected, folder = case
    found = foreign.read_foreign(folder / "sweep.csv")
    assert (len(found.rows), len(found.damages)) == (expected["rows_ok"], expected["rows_bad"])
    assert found.damages[0].line == expected["message_names_line"]
    assert found.numbers("ttft_ms") == [100]


def test_csv_trailing_comma(case):
    _, expected, folder = case
    found = foreign.read_foreign(folder / "r.csv")
    assert found.numbers("p99 latency")[1] == expected["p99"]
    assert found.untitled == expected["untitled_columns"]


def test_csv_stats_file_read_while_rewritten(case):
    _, expected, folder = case
    totals = foreign.locust_totals(folder / "x_stats.csv")
    assert (totals.requests, totals.leftover_lines) == (expected["requests"], expected["leftover_lines"])


def test_csv_not_available_is_not_zero(case):
    _, expected, folder = case
    values = foreign.read_foreign(folder / "n.csv").numbers("95%")
    assert (min(values), len(values)) == (expected["min"], expected["n"])


def test_csv_commas_quotes_newlines_in_error(case):
    _, expected, folder = case
    found = foreign.read_foreign(folder / "x_failures.csv")
    assert len(found.rows) == expected["records"]
    assert sum(found.numbers("Occurrences")) == expected["occurrences"]
    assert found.rows[0]["Name"] == expected["name_0"]
    assert found.rows[1]["Error"] == 'Traceback:\nfile "a.py", line 1\nboom'


def test_csv_decimal_comma_locale(case):
    _, expected, folder = case
    assert foreign.read_foreign(folder / "de.csv").numbers("Mean ms") == [expected["mean"]]
    with pytest.raises(tables.RunError, match="no number with a decimal point"):
        foreign.number("1.234,5")


def test_csv_bom_in_first_title(case):
    _, expected, folder = case
    assert foreign.read_foreign(folder / "bom.csv").numbers("Timestamp") == [expected["timestamp"]]


def test_cli_standard_deviation_overflow(case):
    given, expected, _ = case
    values = metrics.stats([nanoseconds / 1e6 for nanoseconds in given["ns"]])
    assert values.std == pytest.approx(expected["sample_ms"])  # the sample deviation, as Stats says


def test_cli_unit_always_requests_per_second(case):
    given, expected, _ = case
    ours = {
        "request_goodput": "goodput",
        "output_token_throughput": "output_throughput",
        "time_to_first_token": "ttft",
    }
    assert [metrics.UNITS[ours[name]] for name in given["metrics"]] == expected["units"]
    assert "unknown" not in metrics.UNITS


def test_sse_stall_hidden_by_request_average(case, build):
    _, expected, _ = case
    run = build()
    run.level()
    arrivals = np.cumsum([expected["ttft_ms"], *expected["gaps_ms"]]).tolist()
    run.request(0, arrivals)
    found = level_of(run).latencies
    assert (found.itl_ms.p50, found.itl_ms.max, found.itl_ms.n) == (10, 500, 9)
    assert found.tpot_ms.mean == pytest.approx(expected["tpot_ms"], abs=0.001)


def test_locusts_own_count_beside_the_run_is_compared(build):
    run = build()
    run.level()
    run.request(0, [10, 20])
    folder = run.write()
    (folder / "x_stats.csv").write_text("Type,Name,Request Count,Failure Count\n,Aggregated,3,1\n")
    reasons = analysis.summarise(analysis.load(folder)).verdict.reasons
    assert any("Locust counted 3 requests in x_stats.csv, 1 are recorded" in reason.text for reason in reasons)
