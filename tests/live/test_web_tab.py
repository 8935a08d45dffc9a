"""A run with two workers as its user sees it: form, LLM tab, reload, stop with drain, report, files.

With TOKENSWARM_SCREENSHOTS=DIR the pictures for the README are written there.
"""

import json
import math
import os
from collections import Counter
from pathlib import Path

import pytest

from tests.support.locust_run import wait_for

pytestmark = [pytest.mark.browser, pytest.mark.slow]

SETTINGS = {
    "load.levels": "2,4,8",
    "load.warmup_s": "1",
    "load.measure_s": "6",
    "load.tail_s": "20",
    "load.stop_timeout_s": "0",
    "workload.inputs": "[{tokens = 128, weight = 0.5}, {tokens = 512, weight = 0.5}]",
    "workload.output.tokens": "64",
    "engine.practice": json.dumps(["--speed", "4", "--error-rate", "0.02"]),
    "slo.ttft_ms": "70",
    "slo.tpot_ms": "5",
}


def screenshot(page, name):
    if folder := os.environ.get("TOKENSWARM_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / name, full_page=True, scale="css")


def points_shown(frame):
    return int(frame.locator("html").get_attribute("data-points") or 0)


def number(text):
    return float(text.split()[0].replace(",", ""))


def test_a_run_from_the_form_to_the_report(web_locust, tab):
    with web_locust("--processes", "2", "--scenario", "demo", base_path="/load", settings=SETTINGS) as locust:
        tab.goto(locust.url + "/")
        start_with_a_fault_then_without(tab)
        tab.get_by_role("tab", name="LLM").click()
        frame = tab.frame_locator("#tokenswarm-llm")
        watch_it_move(tab, frame)
        so_far = locust.get("/llm/report").decode()
        assert "· Tokenswarm" in so_far
        assert not (locust.finished.run_dir / "report.html").exists()  # made beside, for whom asked
        stop_and_drain(tab, frame, locust)
        assert tab.trouble == []
        open_the_report(tab, frame)
        download_requests(tab, frame, locust)
        wait_for((locust.finished.run_dir / "report.json").exists)
        compare_with_the_report(locust)
        compare_seconds_with_the_token_rows(locust)
        assert_section_in_locusts_report(locust)


def start_with_a_fault_then_without(tab):
    tab.locator("[name=overrides]").fill("load.levels=nope; slo.ttft_ms=-1")  # the fold is open
    tab.get_by_role("button", name="Start").click()
    alert = tab.get_by_role("alert")
    alert.wait_for()
    assert len(alert.inner_text().strip().splitlines()) == 2, alert.inner_text()
    assert "load.levels" in alert.inner_text()
    assert "slo.ttft_ms" in alert.inner_text()
    tab.locator("[name=overrides]").fill("")
    scenarios = tab.locator("select[name=scenario]")
    assert {"demo", "mixed-chat", "soak"} <= set(scenarios.locator("option").all_inner_texts())
    scenarios.select_option("demo")
    screenshot(tab, "form.png")
    tab.get_by_role("button", name="Start").click()


def watch_it_move(tab, frame):
    wait_for(lambda: points_shown(frame) >= 3, limit_s=20)
    before, seen = frame.locator("#chart-tok_s").screenshot(), points_shown(frame)
    wait_for(lambda: points_shown(frame) >= seen + 2, limit_s=10)
    assert frame.locator("#chart-tok_s").screenshot() != before
    tiles = dict(
        zip(frame.locator("#tiles dt").all_inner_texts(), frame.locator("#tiles dd").all_inner_texts(), strict=True)
    )
    assert number(tiles["Output"]) > 50
    assert number(tiles["TTFT p95"]) > 1
    assert frame.locator("#workers tbody tr").count() == 2
    assert frame.locator("#lights li").count() == 9
    tab.reload()  # the address holds the tab, the server the history
    wait_for(lambda: points_shown(frame) >= seen + 2, limit_s=15)
    wait_for(
        lambda: (
            "Level 3 of 3" in frame.locator("#where").inner_text() and "measure" in frame.locator("#where").inner_text()
        ),
        40,
    )
    wait_for(lambda: frame.locator("#levels tr.class").count() == 2, limit_s=10)
    screenshot(tab, "llm-tab.png")
    assert frame.get_by_role("link", name="Report so far").get_attribute("href") == "/load/llm/report"


def stop_and_drain(tab, frame, locust):
    frame.get_by_role("button", name="Stop with drain").click()
    wait_for(locust.run_is_complete, limit_s=40)
    outcomes = {row["outcome"] for row in locust.finished.rows("requests.csv")}
    assert "success" in outcomes
    assert "cut_off" not in outcomes  # though stop_timeout_s is 0: what was in flight ended in its own time
    reconciliation = locust.finished.run["reconciliation"]
    assert reconciliation["started"] == len(locust.finished.rows("requests.csv"))
    assert reconciliation["missing"] == 0
    wait_for(lambda: frame.locator("#state").inner_text() == "ended", limit_s=10)


def open_the_report(tab, frame):
    with tab.context.expect_page() as opened:
        frame.get_by_role("link", name="Report").click()
    page = opened.value
    page.wait_for_selector("html[data-drawn]", timeout=30_000)
    assert "concurren" in page.locator("h1").inner_text()
    screenshot(page, "report.png")
    page.close()


def download_requests(tab, frame, locust):
    frame.locator("#files summary").click()
    with tab.expect_download() as download:
        frame.get_by_role("link", name="requests.csv").click()
    assert Path(download.value.path()).read_bytes() == (locust.finished.run_dir / "requests.csv").read_bytes()


def compare_with_the_report(locust):
    """Live p50 and p95 are within 2 % of the report's for the same window."""
    report = json.loads((locust.finished.run_dir / "report.json").read_text())
    live = {row["level"]: row for row in locust.data()["levels"]}
    assert live.keys() == {level["level"] for level in report["levels"]} == {1, 2, 3}
    for level in report["levels"]:
        row = live[level["level"]]
        compare(row, level)
        assert row["tok_s"] == pytest.approx(level["output_tok_s"], rel=0.02)
        assert row["slo_share"] == pytest.approx(level["slo_attainment"], abs=0.02)
        for part in level["classes"]:
            compare(row["classes"][part["name"]], part)


def compare_seconds_with_the_token_rows(locust):
    """Once all requests have ended, each second holds exactly the tokens that arrived in it."""
    sent = {row["request_id"]: row for row in locust.finished.rows("requests.csv")}
    arrived: Counter[int] = Counter()
    for token in locust.finished.rows("tokens.csv"):
        request = sent[token["request_id"]]
        if request["outcome"] == "success":
            arrived[math.floor(float(request["sent_unix_s"]) + float(token["arrival_ms"]) / 1000)] += 1
    shown = {point["t"]: point["tok_s"] for point in locust.data()["seconds"] if point["tok_s"] is not None}
    assert len(shown) > 10
    assert {second: round(tokens) for second, tokens in shown.items()} == {t: arrived[t] for t in shown}


def compare(row, reported):
    assert row["ended"] == reported["counts"]["started"]
    for metric in ("ttft_ms", "tpot_ms", "itl_ms", "e2e_ms"):
        p50, p95, _ = row[metric]
        assert p50 == pytest.approx(reported["latencies"][metric]["p50"], rel=0.02), metric
        assert p95 == pytest.approx(reported["latencies"][metric]["p95"], rel=0.02), metric


def assert_section_in_locusts_report(locust):
    page = locust.get("/stats/report?download=1").decode()
    assert '<section id="llm">' in page
    assert "concurrency 4" in page
    assert "prompt 512" in page
