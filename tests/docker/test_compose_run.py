"""The compose file's commands as plain processes on loopback: engine, master and two workers make one run."""

import re
import socket
import sys
import urllib.request
from pathlib import Path

from tests.support.compose import compose
from tests.support.locust_run import QUICK, finish, started, wait_for

BIN = Path(sys.executable).parent


def free_ports(count):
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def scraped(url):
    """What a server answers; nothing while it is not up."""
    try:
        with urllib.request.urlopen(url, timeout=1) as response:
            return response.read().decode()
    except OSError:
        return ""


def test_the_composed_services_make_a_complete_run(image_root):
    engine_port, master_port = free_ports(2)
    target = f"http://127.0.0.1:{engine_port}"
    services = compose(TARGET=target, SCENARIO="mixed-chat", HEADLESS="true")["services"]
    app = {"PYTHONPATH": str(image_root)}

    def command(name):
        """As composed, but on loopback and on ports that are free here."""
        here = {
            "0.0.0.0": "127.0.0.1",
            "8000": str(engine_port),
            "--web-host=0.0.0.0": "--web-host=127.0.0.1",
            "--master-host=master": "--master-host=127.0.0.1",
        }
        program, *arguments = [here.get(word, word) for word in services[name]["command"]]
        return [str(BIN / program), *arguments]

    def master():
        """Headless, with phases of seconds."""
        environment = {"LOCUST_HEADLESS": services["master"]["environment"]["LOCUST_HEADLESS"], **app}
        quick = [f"--set={key}={value}" for key, value in QUICK.items()]
        return started(
            image_root, [*command("master"), *quick], LOCUST_MASTER_BIND_PORT=str(master_port), **environment
        )

    def worker():
        return started(image_root, command("worker"), LOCUST_MASTER_NODE_PORT=str(master_port), **app)

    with started(image_root, command("engine"), **app):
        wait_for(lambda: scraped(f"{target}/v1/models"))
        with master() as leading, worker(), worker():
            run = finish(leading, image_root)
        metrics = scraped(f"{target}/metrics")

    assert run.code == 0, run.output
    rows = run.rows("requests.csv")
    assert {row["worker"] for row in rows} == {"0", "1"}
    served = sum(
        float(count) for count in re.findall(r"^vllm:request_success_total\{.*\} (\S+)$", metrics, re.MULTILINE)
    )
    assert len([row for row in rows if row["outcome"] == "success"]) == served > 0
