"""The one place that touches what Locust does not promise to keep: its page's markup, its module's names.

Each seam is tried at start and left out with one line in the log where this version of Locust has changed it.
Nothing depends on them: the page at /llm, /metrics and the terminal work without.
"""

import json
import logging
from argparse import Namespace
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import locust.html
from flask import Response, request
from locust.stats import RequestStats
from locust.web import WebUI

from scenarios.live.board import Board
from scenarios.live.report_section import section_html

logger = logging.getLogger(__name__)

KNOWN_LOCUST = "2."  # the seams were checked with 2.47
TAB_KEY = "llm"
TAB_SCRIPT = Path(__file__).parent / "page" / "tab.js"
HISTORY_KEPT = 1000


def add_tab(web_ui: WebUI, path: str) -> bool:
    """A tab "LLM" in Locust's own page that shows the page at `path`; False where Locust has no such place."""
    app = web_ui.app
    if app is None or not _known_version() or "index" not in _endpoints(web_ui):
        logger.warning("Locust %s: no LLM tab; the same page is at %s", version("locust"), path)
        return False
    web_ui.template_args["extended_tabs"] = [{"title": "LLM", "key": TAB_KEY}]
    config = json.dumps({"page": path, "key": TAB_KEY}).replace("<", "\\u003c")
    script = f"<script>window.tokenswarm = {config};</script><script>{TAB_SCRIPT.read_text(encoding='utf-8')}</script>"

    def inject(response: Response) -> Response:
        if request.endpoint == "locust.index" and response.mimetype == "text/html":
            response.set_data(_before_body_ends(response.get_data(as_text=True), script))
        return response

    app.after_request(inject)
    return True


def add_form_fields(web_ui: WebUI, fields: Callable[[], dict[str, dict[str, Any]]]) -> None:
    """Put fields into the start form, replacing those of the same name; asked anew each time the page is shown."""
    if not hasattr(web_ui, "update_template_args"):
        logger.warning("Locust %s: the start form keeps its plain fields", version("locust"))
        return
    update = web_ui.update_template_args
    if web_ui.app is not None:
        # fields stand in our order, not in the alphabet's
        web_ui.app.jinja_env.policies["json.dumps_kwargs"] = {"sort_keys": False}

    def update_with_fields() -> None:
        update()
        known = web_ui.template_args.get("extra_options") or {}
        ours = fields()
        web_ui.template_args["extra_options"] = {
            **{name: {**known.get(name, {}), **field} for name, field in ours.items()},
            **{name: field for name, field in known.items() if name not in ours},
        }

    web_ui.update_template_args = update_with_fields  # type: ignore[method-assign]  # Locust has no hook for fields


def add_report_section(board: Callable[[], Board | None]) -> None:
    """Let Locust's HTML report end with a section of LLM figures."""
    if not hasattr(locust.html, "render_template_from"):
        logger.warning("Locust %s: its HTML report has no LLM section", version("locust"))
        return
    render = locust.html.render_template_from

    def render_with_section(file: str, *arguments: Any, **named: Any) -> str:
        page = str(render(file, *arguments, **named))
        shown = board()
        if file == "report.html" and shown is not None:
            page = _before_body_ends(page, section_html(shown, dark=named.get("theme") == "dark"))
        return page

    locust.html.render_template_from = render_with_section


def silence_stats_table(options: Namespace) -> None:
    """Headless, Locust prints its table every 2 s unless told not to: our progress takes its place."""
    if not options.print_stats:
        options.only_summary = True
    if options.quiet:
        logging.getLogger("locust.stats_logger").setLevel(logging.WARNING)


def thin_history(stats: RequestStats) -> None:
    """Locust keeps a point of its charts every 5 s for ever: drop every other one of the older half when long."""
    history = stats.history
    if len(history) > HISTORY_KEPT:
        half = len(history) // 2
        history[:half] = history[:half:2]


def _before_body_ends(page: str, addition: str) -> str:
    # the last one: scripts in the page may hold the text too
    before, end, after = page.rpartition("</body>")
    return f"{before}{addition}{end}{after}" if end else page


def _known_version() -> bool:
    return version("locust").startswith(KNOWN_LOCUST)


def _endpoints(web_ui: WebUI) -> set[str]:
    assert web_ui.app is not None
    return {rule.endpoint.rpartition(".")[2] for rule in web_ui.app.url_map.iter_rules()}
