"""The web page of the live figures at /llm, its data, the run folder's files, and /metrics.

Routes hang below Locust's base path and behind its login, if there is one. Only what the page needs is served:
our own assets, and regular files that lie directly in the run folder.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

from flask import Blueprint, Response, jsonify, render_template_string, request, send_file
from locust.env import Environment
from locust.web import WebUI
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from analysis import schema
from scenarios.live import locust_seams
from scenarios.live.board import Board
from scenarios.live.live_report import LiveReport
from scenarios.live.stopping import stop_with_drain

logger = logging.getLogger(__name__)

PAGE_FOLDER = Path(__file__).parent / "page"
ECHARTS = Path(schema.__file__).parent / "html" / "vendor" / "echarts.min.js"
ASSETS = {
    "llm.js": PAGE_FOLDER / "llm.js",
    "charts.js": PAGE_FOLDER / "charts.js",
    "llm.css": PAGE_FOLDER / "llm.css",
    "echarts.js": ECHARTS,
}
# Whatever text an engine may have sneaked in: no script but ours runs, nothing is loaded from elsewhere.
POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; frame-ancestors 'self'"


def add_pages(
    web_ui: WebUI, board: Callable[[], Board | None], registry: CollectorRegistry, environment: Environment
) -> None:
    """Add the page, its data and /metrics to Locust's web app, and the tab that shows the page."""
    assert web_ui.app is not None
    options: Any = environment.parsed_options
    base_path = (options.web_base_path or "").rstrip("/")
    views = _Views(board, registry, environment, f"{base_path}/llm")
    pages = Blueprint("tokenswarm", __name__, url_prefix=base_path or None)
    for path, view, methods in (
        ("/llm", views.page, ["GET"]),
        ("/llm/assets/<name>", views.asset, ["GET"]),
        ("/llm/data", views.data, ["GET"]),
        ("/llm/report", views.report, ["GET"]),
        ("/llm/files/<name>", views.run_file, ["GET"]),
        ("/llm/stop", views.stop, ["POST"]),
        ("/metrics", views.metrics, ["GET"]),
    ):
        pages.add_url_rule(path, view.__name__, web_ui.auth_required_if_enabled(view), methods=methods)
    web_ui.app.register_blueprint(pages)
    locust_seams.add_tab(web_ui, f"{base_path}/llm")


class _Views:
    """What is answered to each path; `base` is the page's own."""

    def __init__(
        self, board: Callable[[], Board | None], registry: CollectorRegistry, environment: Environment, base: str
    ) -> None:
        self._board = board
        self._registry = registry
        self._environment = environment
        self._base = base
        self._live_report = LiveReport()

    def page(self) -> Response:
        """The page itself."""
        text = render_template_string((PAGE_FOLDER / "llm.html").read_text(encoding="utf-8"), base=self._base)
        return Response(text, headers={"Content-Security-Policy": POLICY})

    def asset(self, name: str) -> Response:
        """Scripts and styles of the page."""
        return send_file(ASSETS[name], conditional=True) if name in ASSETS else _not_found("no such file")

    def data(self) -> Response:
        """All figures, and the points of the charts since the given instants."""
        board = self._board()
        if board is None:
            return jsonify({"run": None})
        snapshot = board.snapshot(request.args.get("since", 0.0, float), request.args.get("minutes_since", 0.0, float))
        return jsonify({**snapshot, "files": _files(board.watched.run_dir.path)})

    def report(self) -> Response:
        """The report: of the run so far, or of the run that has ended."""
        board = self._board()
        return self._live_report.page(board) if board else _not_found("No run yet: start one first")

    def run_file(self, name: str) -> Response:
        """A file of the run folder to download."""
        board = self._board()
        folder = board.watched.run_dir.path if board else None
        if folder is None or name not in {file["name"] for file in _files(folder)}:
            return _not_found("no such file in the run folder")
        return send_file((folder / name).resolve(), as_attachment=True, conditional=True)

    def stop(self) -> Response:
        """Begin to stop with drain."""
        board = self._board()
        if board is None or board.ended:
            return _not_found("no run goes on")
        stop_with_drain(self._environment, board)
        return Response(status=202)

    def metrics(self) -> Response:
        """The figures for Prometheus."""
        return Response(generate_latest(self._registry), content_type=CONTENT_TYPE_LATEST)


def _files(folder: Path) -> list[dict[str, Any]]:
    """Regular files of the run folder, by name; links could lead out of it."""
    found = [path for path in sorted(folder.iterdir()) if path.is_file() and not path.is_symlink()]
    return [{"name": path.name, "bytes": path.stat().st_size} for path in found if not path.name.endswith(".tmp")]


def _not_found(text: str) -> Response:
    return Response(text, status=404, mimetype="text/plain")
