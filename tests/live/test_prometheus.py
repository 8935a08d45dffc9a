"""A real Prometheus scrapes a real run, and every query of the Grafana dashboards has an answer."""

import json
import shutil
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
import yaml

from tests.support.locust_run import ROOT, command, finish, free_port, started, wait_for

GRAFANA = ROOT / "docker" / "grafana"
DASHBOARDS = sorted((GRAFANA / "dashboards").glob("*.json"))
SETTINGS = {
    "load.levels": "2,4",
    "load.measure_s": "6",
    "slo.ttft_ms": "100",
    "engine.practice": json.dumps(["--speed", "10", "--error-rate", "0.1"]),
}


def queries(dashboard):
    return [(panel["title"], target["expr"]) for panel in dashboard["panels"] for target in panel["targets"]]


def get(url):
    with urllib.request.urlopen(url, timeout=5) as answer:
        return answer.read().decode()


def answers(url):
    try:
        return get(url)
    except OSError:
        return ""


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    """Prometheus on loopback that scrapes `port` once a second; (its URL, the port to serve on)."""
    if shutil.which("prometheus") is None:
        pytest.skip("Prometheus is not installed; apt-get install prometheus")
    folder, port, metrics_port = tmp_path_factory.mktemp("prometheus"), free_port(), free_port()
    shipped = yaml.safe_load((ROOT / "docker" / "prometheus" / "prometheus.yml").read_text())
    (job,) = [job for job in shipped["scrape_configs"] if job["job_name"] == "tokenswarm"]
    job["static_configs"][0]["targets"] = [f"127.0.0.1:{metrics_port}"]
    config = {"global": {"scrape_interval": "1s"}, "scrape_configs": [job]}
    (folder / "prometheus.yml").write_text(yaml.safe_dump(config))
    line = [
        "prometheus",
        "--config.file=prometheus.yml",
        "--storage.tsdb.path=data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with started(folder, line):
        url = f"http://127.0.0.1:{port}"
        wait_for(lambda: answers(f"{url}/-/ready"), limit_s=30)
        yield url, metrics_port


@pytest.fixture(scope="module")
def scraped(prometheus, tmp_path_factory):
    """(Prometheus' URL, /metrics near the end of a run over two workers)."""
    url, metrics_port = prometheus
    folder = tmp_path_factory.mktemp("run")
    master_port = str(free_port())
    line = command("--headless", "--processes", "2", "--metrics-port", str(metrics_port), settings=SETTINGS)
    line += ["--master-bind-port", master_port, "--master-port", master_port]
    page = ""
    with started(folder, line) as process:
        end = time.monotonic() + 60
        while process.poll() is None and time.monotonic() < end:
            page = answers(f"http://127.0.0.1:{metrics_port}/metrics") or page
            time.sleep(0.2)
        run = finish(process, folder)
    return url, page, run


def asked(url, expression, **window):
    kind = "query_range" if window else "query"
    answer = json.loads(get(f"{url}/api/v1/{kind}?{urllib.parse.urlencode({'query': expression, **window})}"))
    assert answer["status"] == "success"
    return answer["data"]["result"]


@pytest.mark.slow
def test_the_metrics_are_valid_and_promtool_finds_no_fault(scraped):
    _, page, _ = scraped
    checked = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True, timeout=30)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


@pytest.mark.slow
def test_prometheus_counts_what_the_run_recorded(scraped):
    url, _, run = scraped
    rows = run.rows("requests.csv")
    result = asked(url, "sum by (level, outcome) (last_over_time(tokenswarm_requests_total[10m]))")
    counted = {(r["metric"]["level"], r["metric"]["outcome"]): int(r["value"][1]) for r in result}
    recorded = len([row for row in rows if (row["level"], row["outcome"]) == ("1", "success")])
    assert counted["1", "success"] == recorded
    assert sum(counted.values()) == pytest.approx(len(rows), rel=0.1)  # the last scrape may miss the last second


@pytest.mark.slow
@pytest.mark.parametrize(
    ("title", "expression"),
    [(f"{path.stem}: {title}", expr) for path in DASHBOARDS for title, expr in queries(json.loads(path.read_text()))],
)
def test_a_dashboard_query_returns_data(scraped, title, expression):
    url, _, run = scraped
    expression = expression.replace("$__rate_interval", "4s").replace("$run", run.run["run_id"])
    started_s, ended_s = run.run["started_unix_s"], run.run["ended_unix_s"]
    result = asked(url, expression, start=started_s, end=ended_s, step=1)
    values = [float(value) for series in result for _, value in series["values"]]
    assert any(value == value for value in values), (title, expression)  # something, and not only NaN


def test_the_number_of_series_is_bounded(scraped):
    _, page, _ = scraped
    assert len([line for line in page.splitlines() if not line.startswith("#")]) < 500


def test_dashboards_are_provisioned_where_compose_mounts_them():
    extra = yaml.safe_load((ROOT / "docker" / "compose.metrics.yaml").read_text())
    mounts = extra["services"]["grafana"]["volumes"] + extra["services"]["prometheus"]["volumes"][:1]
    for mount in mounts:
        assert (ROOT / "docker" / mount.split(":")[0]).exists(), mount
    provider = yaml.safe_load((GRAFANA / "provisioning" / "dashboards" / "tokenswarm.yaml").read_text())
    source = yaml.safe_load((GRAFANA / "provisioning" / "datasources" / "prometheus.yaml").read_text())
    (path,) = {each["options"]["path"] for each in provider["providers"]}
    assert any(mount.endswith(f":{path}:ro") for mount in mounts)
    uids = {panel["datasource"]["uid"] for file in DASHBOARDS for panel in json.loads(file.read_text())["panels"]}
    assert uids == {source["datasources"][0]["uid"]}
    published = [port for service in extra["services"].values() for port in service.get("ports", [])]
    assert all(port.startswith("127.0.0.1:") for port in published)
    assert (
        Path(extra["services"]["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]).name
        == "run.json"
    )
