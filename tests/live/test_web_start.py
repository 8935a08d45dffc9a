"""Starting a run in Locust's web UI, as a user does."""

from functools import partial

import pytest

from tests.support.locust_run import wait_for

pytestmark = pytest.mark.browser


def test_the_form_is_prefilled_and_a_run_started_there_writes_a_complete_run_folder(web_locust, tab):
    with web_locust("--scenario", "demo") as locust:
        tab.goto(locust.url + "/")
        host = tab.locator("input[name=host]")
        host.wait_for()
        assert host.input_value().startswith("http://127.0.0.1:")  # the embedded engine's
        tab.get_by_text("Custom parameters").click()
        assert tab.locator("[name=scenario]").input_value() == "demo"
        tab.get_by_role("button", name="Start").click()
        wait_for(locust.run_is_complete, limit_s=40)
        assert locust.finished.run["name"] == "demo"
        (level,) = locust.finished.rows("levels.csv")
        assert (level["requested"], level["complete"]) == ("2", "true")
        reconciliation = locust.finished.run["reconciliation"]
        assert reconciliation["started"] == len(locust.finished.rows("requests.csv")) > 0
        assert reconciliation["missing"] == 0
        wait_for((locust.finished.run_dir / "report.html").exists)


def test_a_second_run_with_another_scenario_finds_the_practice_engine_though_the_form_names_the_first_one(web_locust):
    settings = {"load.levels": "1", "load.measure_s": "0.5"}
    with web_locust("--scenario", "mixed-chat", settings=settings) as locust:
        first_host = locust.template_args()["host"]
        for speed in ("3", "4"):  # other flags: another practice engine each time
            said = locust.start(host=first_host, overrides=f'engine.practice=["--speed", "{speed}"]')
            assert said["success"], said
            data = wait_for(partial(ended_run, locust, f"--speed {speed}"))
            assert data["total"]["success"] == data["total"]["ended"] > 0
            assert data["run"]["host"] != first_host


def ended_run(locust, flag):
    """The figures once the run with this flag has ended."""
    data = locust.data()
    run = data["run"]
    return data if run and flag in run["engine"] and run["state"] == "ended" else None


def test_a_start_before_any_worker_has_connected_is_refused_with_the_reason(web_locust):
    with web_locust("--master", "--master-bind-host", "127.0.0.1") as locust:
        said = locust.start(host="http://127.0.0.1:9", load="scenario")
        assert said["success"] is False
        assert said["message"].startswith("No worker has connected yet: start the workers")
        assert not (locust.folder / "runs").exists()
