"""The page behind a login, below a base path, without a tab; what it gives away and what it refuses to run."""

import http.cookiejar
import json
import re
import urllib.error
import urllib.parse
import urllib.request

import pytest

from tests.support.locust_run import wait_for

EVIL = "</script><img src=x onerror='window.top.pwned = 1'><script>window.top.pwned = 1</script>"

LOGIN_LOCUSTFILE = """
from flask import Blueprint, redirect, request, session
from flask_login import UserMixin, login_user
from locust import events
from scenarios.users import LLMUser

class ChatUser(LLMUser):
    api = "chat"

class Somebody(UserMixin):
    def get_id(self):
        return "somebody"

@events.init.add_listener
def on_init(environment, web_ui=None, **_):
    if not web_ui:
        return
    web_ui.app.secret_key = "for this test"
    web_ui.login_manager.user_loader(lambda user_id: Somebody() if user_id == "somebody" else None)
    pages = Blueprint("login", __name__, url_prefix=environment.parsed_options.web_base_path)

    @pages.route("/let-me-in")
    def let_me_in():
        login_user(Somebody())
        return "in"

    web_ui.app.register_blueprint(pages)
"""

ANOTHER_LOCUST = """
from scenarios.live import locust_seams
from scenarios.users import LLMUser

locust_seams.KNOWN_LOCUST = "0."

class ChatUser(LLMUser):
    api = "chat"
"""

RUN = {"load.measure_s": "1", "load.levels": "1"}


def status_of(url, data=None):
    try:
        with urllib.request.urlopen(urllib.request.Request(url, data=data), timeout=10) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_a_login_covers_every_route_and_a_base_path_is_kept(web_locust, tmp_path):
    locustfile = tmp_path / "with_login.py"
    locustfile.write_text(LOGIN_LOCUSTFILE)
    with web_locust("--web-login", "--scenario", "demo", base_path="/load", locustfile=locustfile) as locust:
        paths = [
            "/llm",
            "/llm/data",
            "/llm/report",
            "/llm/files/run.json",
            "/llm/assets/llm.js",
            "/metrics",
            "/llm/stop",
        ]
        jar = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        for path in paths:
            data = b"" if path == "/llm/stop" else None
            answer = jar.open(locust.url + path, data=data, timeout=10)
            assert urllib.parse.urlsplit(answer.url).path == "/load/login", path
        jar.open(locust.url + "/let-me-in")
        answer = jar.open(locust.url + "/llm/data", timeout=10)
        assert urllib.parse.urlsplit(answer.url).path == "/load/llm/data"
        assert json.load(answer) == {"run": None}
        page = jar.open(locust.url + "/llm").read().decode()
        assert 'src="/load/llm/assets/llm.js"' in page
        index = jar.open(locust.url + "/").read().decode()
        assert '"page": "/load/llm"' in index


def test_beside_an_unknown_version_of_locust_the_page_stands_alone(web_locust, tmp_path):
    locustfile = tmp_path / "another.py"
    locustfile.write_text(ANOTHER_LOCUST)
    with web_locust("--scenario", "demo", locustfile=locustfile) as locust:
        assert b"tokenswarm" not in locust.get("/")
        assert "extended_tabs" not in locust.template_args()
        assert re.search(r"no LLM tab; the same page is at /llm", locust.finished.output)
        assert b"LLM metrics" in locust.get("/llm")
        assert locust.data() == {"run": None}


@pytest.fixture(scope="module")
def after_a_run(web_locust):
    with web_locust("--scenario", "demo", settings=RUN) as locust:
        assert locust.data() == {"run": None}
        assert status_of(locust.url + "/llm/report") == 404
        assert locust.start(scenario="demo", model=EVIL)["success"]  # an unknown model: all requests fail
        wait_for(locust.run_is_complete)
        yield locust


def test_only_regular_files_of_the_run_folder_can_be_had(after_a_run):
    folder = after_a_run.finished.run_dir
    secret = folder.parent / "secret.txt"
    secret.write_text("secret")
    (folder / "link.csv").symlink_to(secret)
    (folder / "more").mkdir()
    files = after_a_run.url + "/llm/files/"
    assert after_a_run.get("/llm/files/run.json") == (folder / "run.json").read_bytes()
    for name in ("../secret.txt", "..%2fsecret.txt", "%2fetc%2fpasswd", "link.csv", "more", ".", "absent.csv"):
        assert status_of(files + name) in (404, 405), name
    assert {"requests.csv", "tokens.csv", "levels.csv", "run.json"} <= {f["name"] for f in after_a_run.data()["files"]}
    # a scenario is chosen from the list: the form does not read files of the machine
    said = after_a_run.start(scenario="/etc/passwd")
    assert (said["success"], "not on the list" in said["message"]) == (False, True)
    assert status_of(after_a_run.url + "/llm/stop", data=b"") == 404  # no run goes on


def evil_copy(data):
    """The figures with markup in every text."""
    if isinstance(data, dict):
        return {f"{key}{EVIL}" if key in ("128", "32") else key: evil_copy(value) for key, value in data.items()}
    if isinstance(data, list):
        return [evil_copy(value) for value in data]
    return data + EVIL if isinstance(data, str) and data not in ("running", "ended", "ok") else data


@pytest.mark.browser
def test_texts_of_the_engine_are_shown_and_never_run(after_a_run, tab):
    figures = evil_copy(after_a_run.data())
    figures["failures"] = {EVIL: 3, "http_500": 1}
    row = figures["levels"][0]
    row["classes"] = {EVIL: {**row}, "128": {**row}}
    tab.route("**/llm/data*", lambda route: route.fulfill(json=figures))
    tab.goto(after_a_run.url + "/llm")
    tab.locator("#failures .fail").first.wait_for()
    assert EVIL in tab.locator("#failures").inner_text()
    assert EVIL in tab.locator("#about").inner_text()
    assert EVIL in tab.locator("#levels").inner_text()
    assert EVIL in tab.locator("#workers").inner_text()
    assert tab.evaluate("window.pwned") is None
    assert tab.trouble == []


@pytest.mark.browser
def test_locusts_report_ends_with_a_section_of_escaped_texts(after_a_run, tab):
    page = after_a_run.get("/stats/report").decode()
    section = page.partition('<section id="llm">')[2].partition("</section>")[0]
    assert EVIL not in section
    assert EVIL.replace("<", "&lt;").replace(">", "&gt;").replace("'", "&#39;") in section
    assert "http_404" in section
    tab.goto(after_a_run.url + "/stats/report")
    tab.locator("#llm table").first.wait_for()
    assert tab.evaluate("window.pwned") is None


@pytest.mark.browser
def test_the_page_says_when_locust_is_gone_and_keeps_the_last_figures(after_a_run, tab):
    tab.goto(after_a_run.url + "/llm")
    tab.locator("#tiles dd").first.wait_for()
    tab.route("**/llm/data*", lambda route: route.abort())
    tab.locator("#trouble:not([hidden])").wait_for()
    assert "No new figures" in tab.locator("#trouble").inner_text()
    assert tab.locator("#levels tbody tr").count() >= 1
