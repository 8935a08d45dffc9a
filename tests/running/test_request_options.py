"""What requests may get beside a prompt: planned cancellations, images, priorities, tools, several hosts."""

import base64
import json
from collections import Counter

import pytest

from tests.support.locust_run import outcomes, run
from tests.support.scripted_server import chat_stream
from tests.support.swarm import PLAIN, calls, engine

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="
)


def bodies(server):
    return [seen.json for seen in calls(server)]


def test_a_planned_share_is_given_up_after_its_tokens_and_counted_apart(tmp_path):
    settings = {
        **PLAIN,
        "load.levels": "4",
        "load.measure_s": "4",
        "workload.cancel": "{share = 0.5, after_tokens = 3}",
        "slo.attainment": "0.99",
    }
    with engine(chat_stream(ttft_ms=20, gap_ms=30, tokens=10)) as server:
        finished = run(tmp_path, "-H", server.url, settings=settings)
    assert finished.code == 0, finished.output  # who gives up on purpose misses no SLO
    rows = [row for row in finished.rows("requests.csv") if row["phase"] == "measure"]
    given_up = [row for row in rows if row["error_class"] == "cancelled"]
    assert len(given_up) / len(rows) == pytest.approx(0.5, abs=0.06)
    assert {(row["outcome"], row["token_events"]) for row in given_up} == {("cut_off", "3")}
    assert min(float(row["e2e_ms"]) for row in given_up) == pytest.approx(80, abs=40)  # 20 + 2 · 30, not 290
    assert {row["outcome"] for row in rows if row not in given_up} == {"success"}
    report = json.loads((finished.run_dir / "report.json").read_text())
    counts = report["levels"][0]["counts"]
    assert (counts["cancelled"], counts["failure"]) == (len(given_up), 0)
    assert report["levels"][0]["slo_attainment"] == 1.0
    assert "as planned" in finished.output


def test_requests_are_given_up_after_a_time_also_before_their_first_token(tmp_path):
    settings = {**PLAIN, "load.levels": "2", "workload.cancel": "{share = 1.0, after_ms = 150}"}
    with engine(chat_stream(ttft_ms=5000, tokens=2)) as server:
        finished = run(tmp_path, "-H", server.url, settings=settings)
    rows = [row for row in finished.rows("requests.csv") if row["phase"] == "measure"]
    assert {(row["outcome"], row["error_class"], row["token_events"]) for row in rows} == {
        ("cut_off", "cancelled", "0")
    }
    e2e = sorted(float(row["e2e_ms"]) for row in rows)
    assert 145 <= e2e[len(e2e) // 2] < 190  # a busy machine is late with its timers


def test_images_of_a_folder_go_before_the_text_of_a_chat_request(tmp_path):
    folder = tmp_path / "pictures"
    folder.mkdir()
    (folder / "one.png").write_bytes(PIXEL)
    (folder / "two.jpg").write_bytes(PIXEL + b"2")
    (folder / "notes.txt").write_text("not an image")
    settings = {**PLAIN, "load.measure_s": "1", "workload.images": f'{{folder = "{folder}", per_request = 2}}'}
    with engine(chat_stream(ttft_ms=20, gap_ms=1, tokens=3)) as server:
        finished = run(tmp_path, "-H", server.url, settings=settings)
    assert finished.code == 0, finished.output
    sent: Counter[str] = Counter()
    for body in bodies(server):
        *images, text = body["messages"][-1]["content"]
        assert text["type"] == "text"
        assert len(images) == 2
        sent.update(image["image_url"]["url"] for image in images)
    assert set(sent) == {
        f"data:image/png;base64,{base64.b64encode(PIXEL).decode()}",
        f"data:image/jpeg;base64,{base64.b64encode(PIXEL + b'2').decode()}",
    }


def test_a_class_of_the_mix_may_have_its_priority_and_all_requests_their_tools(tmp_path):
    tool = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object"}}}
    settings = {
        **PLAIN,
        "load.measure_s": "1",
        "workload.inputs": "[{tokens = 20, extra_body = {priority = 0}}, {tokens = 30, extra_body = {priority = 10}}]",
        "workload.extra_body": json.dumps({"tools": [tool], "temperature": 0.5, "stop": ["END"]}),
    }
    with engine(chat_stream(ttft_ms=20, gap_ms=1, tokens=3)) as server:
        finished = run(tmp_path, "-H", server.url, settings=settings)
    assert finished.code == 0, finished.output
    sent = bodies(server)
    assert Counter(body["priority"] for body in sent)[10] == pytest.approx(len(sent) / 2, abs=2)
    assert {json.dumps([body["tools"], body["temperature"], body["stop"]]) for body in sent} == {
        json.dumps([[tool], 0.5, ["END"]])
    }


@pytest.mark.parametrize("spread", ["round-robin", "per-user"])
def test_several_hosts_share_the_requests(tmp_path, spread):
    settings = {**PLAIN, "load.levels": "4", "load.measure_s": "2", "engine.spread": spread}
    with engine(chat_stream(ttft_ms=40, tokens=1)) as one, engine(chat_stream(ttft_ms=40, tokens=1)) as two:
        finished = run(tmp_path, "-H", f"{one.url},{two.url}", settings=settings)
    assert finished.code == 0, finished.output
    rows = finished.rows("requests.csv")
    assert outcomes(rows).keys() == {"success"}
    assert Counter(row["host"] for row in rows) == {one.url: len(calls(one)), two.url: len(calls(two))}
    assert len(calls(one)) == pytest.approx(len(calls(two)), rel=0.1, abs=4)
    hosts_of_a_user = {row["user"]: {other["host"] for other in rows if other["user"] == row["user"]} for row in rows}
    assert all(len(hosts) == (1 if spread == "per-user" else 2) for hosts in hosts_of_a_user.values())


def test_a_replica_that_does_not_answer_is_told_before_the_start(tmp_path):
    with engine() as one:
        finished = run(tmp_path, "-H", f"{one.url},http://127.0.0.1:9", settings=PLAIN)
    assert finished.code == 3
    assert "http://127.0.0.1:9 does not answer" in finished.output
