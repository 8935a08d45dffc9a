"""A real browser, and Locust with its web UI on a free port."""

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.chromium import chromium
from tests.support.locust_run import Finished, command, free_port, output_of, started, wait_for


@dataclass(frozen=True, slots=True)
class LiveLocust:
    """A Locust process that shows its web UI."""

    url: str
    folder: Path

    def get(self, path: str) -> bytes:
        """Body of a page of it."""
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            body: bytes = answer.read()
            return body

    def data(self) -> dict[str, Any]:
        """The live figures."""
        loaded: dict[str, Any] = json.loads(self.get("/llm/data"))
        return loaded

    def template_args(self) -> dict[str, Any]:
        """What Locust's page was made from."""
        _, _, after = self.get("/").decode().partition("window.templateArgs = ")
        loaded: dict[str, Any] = json.JSONDecoder().raw_decode(after)[0]
        return loaded

    def start(self, **form: str) -> dict[str, Any]:
        """Send the start form; what Locust answers."""
        body = urllib.parse.urlencode({"user_count": "1", "spawn_rate": "1", **form}).encode()
        with urllib.request.urlopen(self.url + "/swarm", body, timeout=30) as answer:
            said: dict[str, Any] = json.load(answer)
            return said

    @property
    def finished(self) -> Finished:
        """Its run folder, as if the process had ended."""
        return Finished(0, output_of(self.folder), self.folder)

    def run_is_complete(self) -> bool:
        """Whether the one run has been closed."""
        found = list((self.folder / "runs").glob("*/run.json"))
        return bool(found) and bool(self.finished.run["finished"])


@pytest.fixture(scope="module")
def web_locust(tmp_path_factory) -> Callable[..., AbstractContextManager[LiveLocust]]:
    """Start `locust` with its web UI, `settings` on top of the quick ones."""

    @contextmanager
    def start(*arguments: str, base_path: str = "", **more: Any) -> Iterator[LiveLocust]:
        port, master_port = free_port(), str(free_port())
        url = f"http://127.0.0.1:{port}{base_path}"
        line = command("--web-host", "127.0.0.1", "--web-port", str(port), *arguments, **more)
        line += ["--master-bind-port", master_port, "--master-port", master_port]
        if base_path:
            line += ["--web-base-path", base_path]
        folder = tmp_path_factory.mktemp("locust")
        with started(folder, line) as process:
            wait_for(lambda: process.poll() is not None or _answers(url), limit_s=30)
            assert process.poll() is None, output_of(folder)
            workers = int(arguments[arguments.index("--processes") + 1]) if "--processes" in arguments else 0
            # a start before the last one has come would move users between them, and cut requests off
            wait_for(lambda: output_of(folder).count("reported as ready") >= workers, limit_s=30)
            yield LiveLocust(url, folder)

    return start


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url + "/", timeout=1).close()
    except urllib.error.HTTPError:
        return True
    except OSError:
        return False
    return True


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture
def tab(browser):
    """A fresh tab; what it complains about is in `tab.trouble`."""
    page = browser.new_context(viewport={"width": 1360, "height": 900}).new_page()
    page.trouble = []
    page.on("console", lambda message: page.trouble.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: page.trouble.append(str(error)))
    yield page
    page.context.close()
