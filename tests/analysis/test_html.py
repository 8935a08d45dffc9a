"""The HTML report: one file that asks no network, draws every chart and runs nothing that the engine said."""

import hashlib
import re
from pathlib import Path

import pytest

import analysis
from analysis import compare
from analysis.html import page
from tests.support.chromium import chromium

VENDOR = Path(page.__file__).parent / "vendor"
EVIL = "</script><script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>"
CHARTS = {"frontier", "interactivity", "ttft", "tpot", "ecdf", "outcomes", "flow", "timeline", "heatmap"}


@pytest.fixture
def evil_run(build):
    """Two levels; every text that comes from outside tries to break out of the page."""
    run = build()
    run.slo(ttft_ms=250, tpot_ms=60)
    run.info |= {"model": EVIL, "host": EVIL, "engine": EVIL, "name": EVIL, "platform": EVIL, "overrides": [EVIL]}
    run.info["workers"] = [{"client_id": EVIL, "host": EVIL, "lost": False}]
    run.info["scenario"] |= {"description": EVIL, "report": {"window_s": 5}}
    for number, concurrency in enumerate((1, 4), 1):
        run.level(number, concurrency, number * 20, number * 20 + 10)
        for turn in range(9):
            first = 90 + 10 * turn * concurrency
            run.request(
                number * 20 + turn,
                [first + 20 * token for token in range(10)],
                level=number,
                request_id=f"{number}-{turn}{EVIL}",
                length_class=EVIL if turn % 2 else "128",
            )
        run.request(number * 20 + 9, level=number, error_class=f"{number}{EVIL}", error_text=EVIL)
    return run


def render(run):
    loaded = analysis.load(run.write())
    return page.render_page(loaded, analysis.summarise(loaded))


def test_texts_of_the_run_can_not_leave_their_place(evil_run):
    text = render(evil_run)
    assert "<script>window.pwned" not in text
    assert "<img src=x" not in text


def test_the_page_names_no_address_to_fetch(evil_run):
    text = render(evil_run)
    shell = text.replace((VENDOR / "echarts.min.js").read_text(encoding="utf-8"), "")
    assert not re.search(r"""(?:src|href|url|action)\s*[=(]\s*["']?(?:https?:)?//""", shell)
    assert "@import" not in shell


def test_the_inlined_chart_library_is_the_one_that_is_written_down():
    digest = hashlib.sha256((VENDOR / "echarts.min.js").read_bytes()).hexdigest()
    assert digest in (VENDOR / "README.md").read_text(encoding="utf-8")


def test_a_long_run_makes_no_large_page(build):
    run = build()
    for number in range(1, 9):
        run.level(number, number, number * 100, number * 100 + 90)
        for turn in range(300):
            run.request(number * 100 + turn * 0.3, [50 + turn, 60 + turn, 71 + turn], level=number)
    assert len(render(run).encode()) < 3_000_000


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


def open_page(browser, run, **context):
    """The report opened from its file with the network off, and what it complained about or asked for."""
    loaded = analysis.load(run.write())
    file = loaded.path / "report.html"
    page.write_page(loaded, analysis.summarise(loaded), file)
    return open_file(browser, file, **context)


def open_file(browser, file, **context):
    tab = browser.new_context(offline=True, **context).new_page()
    trouble = []
    tab.on("console", lambda message: trouble.append(message.text))
    tab.on("pageerror", lambda error: trouble.append(str(error)))
    tab.on(
        "request", lambda request: trouble.extend([request.url] if "//" in request.url.removeprefix("file://") else [])
    )
    tab.goto(file.as_uri())
    return tab, trouble


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_chart_is_drawn_with_the_network_off_and_no_error(browser, evil_run, scheme):
    tab, trouble = open_page(browser, evil_run, color_scheme=scheme)
    shapes = "node => node.querySelectorAll('svg path').length"
    drawn = {plot.get_attribute("id"): plot.evaluate(shapes) for plot in tab.query_selector_all(".plot")}
    assert set(drawn) == CHARTS | {"drift"}
    assert min(drawn.values()) >= 5, drawn
    assert not any("No data" in (plot.text_content() or "") for plot in tab.query_selector_all(".plot"))
    assert trouble == []
    assert tab.evaluate("window.pwned") is None


@pytest.mark.browser
def test_switches_and_the_level_choice_redraw_and_say_their_state(browser, evil_run):
    tab, trouble = open_page(browser, evil_run)
    for group in tab.query_selector_all(".switch"):
        for button in group.query_selector_all("button"):
            button.click()
            assert button.get_attribute("aria-pressed") == "true"
            assert len(group.query_selector_all("[aria-pressed=true]")) == 1
    before, gaps_before = tab.inner_html("#timeline"), tab.inner_html("#heatmap")
    tab.select_option("#chosen-level", "2")
    assert tab.inner_html("#timeline") != before
    assert tab.inner_html("#heatmap") != gaps_before
    assert trouble == []


@pytest.mark.browser
def test_charts_and_tables_speak_to_screen_readers(browser, evil_run):
    tab, _ = open_page(browser, evil_run)
    assert all(
        "tables of this page" in (plot.get_attribute("aria-label") or "") for plot in tab.query_selector_all(".plot")
    )
    assert all(table.query_selector("caption") for table in tab.query_selector_all("table"))
    assert tab.eval_on_selector_all("th:not([scope])", "cells => cells.filter(c => c.textContent.trim()).length") == 0


@pytest.mark.browser
@pytest.mark.parametrize("kind", ["svg", "png"])
def test_a_chart_can_be_saved(browser, evil_run, kind, tmp_path):
    tab, trouble = open_page(browser, evil_run)
    with tab.expect_download() as download:
        tab.click(f'#fig-ecdf [data-save="{kind}"]')
    download.value.save_as(tmp_path / "chart")
    start = (tmp_path / "chart").read_bytes()[:8]
    assert start.startswith(b"<svg" if kind == "svg" else b"\x89PNG")
    assert trouble == []


@pytest.mark.browser
def test_a_run_without_a_success_opens_without_an_error(browser, build):
    run = build()
    run.level()
    run.request(0, error_class="http_500")
    tab, trouble = open_page(browser, run)
    assert "No request succeeded" in tab.text_content("h1")
    assert trouble == []


@pytest.mark.browser
def test_nothing_runs_out_of_a_small_screen(browser, evil_run):
    tab, _ = open_page(browser, evil_run, viewport={"width": 390, "height": 800})
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.browser
def test_the_page_of_a_comparison_draws_its_charts(browser, evil_run, tmp_path):
    summaries = [analysis.summarise(analysis.load(evil_run.write())) for _ in range(2)]
    file = tmp_path / "compare.html"
    page.write_comparison(summaries, compare.compare([[summary] for summary in summaries]), file)
    tab, trouble = open_file(browser, file)
    assert {plot.get_attribute("id") for plot in tab.query_selector_all(".plot")} == {"effects", "frontier", "bylevel"}
    for plot in tab.query_selector_all(".plot"):
        assert plot.evaluate("node => node.querySelectorAll('svg path').length") >= 5
    for button in tab.query_selector_all(".switch button"):
        button.click()
    assert trouble == []
    assert tab.evaluate("window.pwned") is None
