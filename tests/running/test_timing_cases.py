"""What a run measures of streams whose times are known: over all framings, encodings and connections."""

import csv
import json
import ssl
import zlib
from itertools import pairwise
from statistics import mean

import pytest
import trustme

from tests.support.played import END, Played, Script, play_all, s100, small_event
from tests.support.scripted_server import ABORT, EVENT_STREAM, Answer

USAGE = b'data: {"choices":[],"usage":{"prompt_tokens":1180,"completion_tokens":1,"total_tokens":1181}}\n\n'
LONGER_THAN_PLANNED = END.replace(b"data: [DONE]", USAGE + b"data: [DONE]")

# other things that a locustfile may count: none of them may become a request of Locust's
EXTRA_METRICS = """
from locust import events
from scenarios.users import LLMUser

class ChatUser(LLMUser):
    api = "chat"

@events.llm_request_finished.add_listener
def more_metrics(result, **_):
    for metric in ("ttft", "tpot", "tokens"):
        print("metric", metric, result.first_token_ms, result.output_tokens)
"""


def fifty_seven_bytes(framing: str) -> Answer:
    """One event of 57 bytes at 100 ms, nine more every 50 ms, and the end 50 ms later."""
    token = small_event("x" * 11)
    assert len(token) == 57
    return Answer([(100, token), *[(50, token)] * 9, (50, END)], framing=framing)


def compressed(cut: bool) -> Answer:
    """S100 as gzip, flushed after each event; or cut in the middle."""
    gzip = zlib.compressobj(wbits=16 + zlib.MAX_WBITS)
    script = []
    for delay_ms, data in s100().script:
        assert isinstance(data, bytes)
        script.append((delay_ms, gzip.compress(data) + gzip.flush(zlib.Z_SYNC_FLUSH)))
    script.append((0, gzip.flush()))
    return Answer([*script[:5], (0, ABORT)] if cut else script, headers={**EVENT_STREAM, "Content-Encoding": "gzip"})


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    folder = tmp_path_factory.mktemp("timing")
    locustfile = folder / "extra_metrics.py"
    locustfile.write_text(EXTRA_METRICS)
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    return play_all(
        folder,
        {
            "idle connections closed": Script(
                s100(),
                users=5,
                requests=50,
                settings={"load.think_time_s": "1.05"},
                server={"idle_close_s": 1.0},
            ),
            "slow": Script(
                Answer([(1000, small_event("t"))] * 12 + [(0, END)]),
                requests=1,
                settings={
                    "engine.timeouts.connect_s": "3",
                    "engine.timeouts.first_token_s": "5",
                    "engine.timeouts.gap_s": "5",
                },
            ),
            "S100": Script(
                s100(body_bytes=640),
                users=2,
                requests=20,
                arguments=["--csv", str(folder / "locust")],
                locustfile=locustfile,
            ),
            "tls": Script(
                s100(),
                users=4,
                requests=20,
                settings={"engine.ca_file": str(folder / "ca.pem")},
                server={"tls": server_tls(authority), "accept_delay_s": 0.08},
            ),
            "first slow": Script(
                lambda number, _: Answer([(900 if number < 4 else 100, small_event("t")), (0, LONGER_THAN_PLANNED)]),
                settings={
                    "workload.inputs": "1000",
                    "load.warmup_requests": "4",
                    "load.measure_s": "0",
                    "load.measure_requests": "16",
                },
            ),
            "framings": Script(
                [fifty_seven_bytes("chunked"), fifty_seven_bytes("close"), compressed(cut=False), compressed(cut=True)],
                requests=4,
            ),
        },
    )


def server_tls(authority: trustme.CA) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    return context


def gaps_ms(run: Played, row: dict[str, str]) -> list[float]:
    arrivals = [float(t["arrival_ms"]) for t in run.finished.rows("tokens.csv") if t["request_id"] == row["request_id"]]
    return [later - earlier for earlier, later in pairwise(arrivals)]


def successes(run: Played, count: int) -> list[dict[str, str]]:
    assert [row["outcome"] for row in run.rows] == ["success"] * count, run.finished.output
    return run.rows


def test_small_events_are_timed_when_they_arrive_in_either_framing(played):
    run = played["framings"]
    for row in run.rows[:2]:
        assert row["outcome"] == "success"
        assert run.off_ms(row, "first_token_ms", 100) < 15
        assert run.off_ms(row, "e2e_ms", 600) < 25
        assert [gap for gap in gaps_ms(run, row) if abs(gap - 50) > 15 + run.late_ms(row)] == []
        assert len(gaps_ms(run, row)) == 9


def test_locusts_response_time_is_that_of_the_whole_stream_and_its_length_that_of_the_body(played):
    run = played["S100"]
    for row in successes(run, 20):
        assert run.off_ms(row, "first_token_ms", 100) < 15
        assert run.off_ms(row, "e2e_ms", 550) < 25
        assert row["response_bytes"] == "640"
    aggregated = locust_stats(run)["Aggregated"]
    assert float(aggregated["Average Response Time"]) == pytest.approx(
        mean(float(r["e2e_ms"]) for r in run.rows), abs=1
    )
    assert float(aggregated["Average Content Size"]) == 640


def test_extra_metrics_of_a_locustfile_add_no_requests_to_locusts_table(played):
    run = played["S100"]
    assert run.finished.output.count("metric ttft") == 20
    stats = locust_stats(run)
    assert stats.keys() == {"prompt up to 128", "Aggregated"}
    assert {row["Request Count"] for row in stats.values()} == {"20"}
    assert {row["Failure Count"] for row in stats.values()} == {"0"}


def locust_stats(run: Played) -> dict[str, dict[str, str]]:
    with (run.finished.folder.parent / "locust_stats.csv").open(newline="") as lines:
        return {row["Name"]: row for row in csv.DictReader(lines)}


def test_compressed_streams_are_decoded_as_they_come_though_identity_was_asked_for(played):
    run = played["framings"]
    whole, cut = run.rows[2:]
    assert {seen.headers["accept-encoding"] for seen in run.chats} == {"identity"}
    assert whole["outcome"] == "success"
    assert run.off_ms(whole, "first_token_ms", 100) < 20
    assert (cut["outcome"], cut["error_class"]) == ("failure", "truncated_stream")


def test_connecting_is_a_column_of_its_own_and_each_user_pays_it_once(played):
    run = played["tls"]
    rows = successes(run, 20)
    opened = [row for row in rows if float(row["connect_ms"]) > 0]
    assert opened == rows[:4]
    assert min(float(row["connect_ms"]) for row in opened) >= 80
    assert max(run.off_ms(row, "first_token_ms", 100) for row in rows) < 15


def test_idle_connections_that_the_server_closes_are_no_failures(played):
    run = played["idle connections closed"]
    rows = successes(run, 50)
    assert sorted(run.off_ms(row, "first_token_ms", 100) for row in rows)[47] < 30  # p95: 48th of 50
    assert sum(int(row["stale_retries"]) for row in rows) > 0
    assert len(run.chats) == 50
    (level,) = run.report["levels"]
    assert level["client"]["stale_retries"] > 0


def test_a_stream_may_take_its_time_within_the_limits_between_its_tokens(played):
    (row,) = successes(played["slow"], 1)
    assert row["token_events"] == "12"
    assert float(row["e2e_ms"]) > 12_000
    assert played["slow"].finished.run["scenario"]["engine"]["timeouts"]["total_s"] is None


def test_first_requests_are_the_warm_up_which_is_shown_apart(played):
    run = played["first slow"]
    before = [row for row in run.rows if row["phase"] in ("ramp", "warmup")]
    measured = [row for row in run.rows if row["phase"] == "measure"]
    assert len(measured) >= 16
    assert [run.off_ms(row, "first_token_ms", 900) < 15 for row in before[:4]] == [True] * 4
    (level,) = run.report["levels"]
    assert level["latencies"]["ttft_ms"]["n"] == len(measured)
    assert level["latencies"]["ttft_ms"]["mean"] == pytest.approx(100, abs=10 + mean(map(run.late_ms, measured)))
    assert level["warmup_ttft_ms"]["n"] == len(before)
    assert level["warmup_ttft_ms"]["max"] == pytest.approx(900, abs=15 + max(map(run.late_ms, before)))
    assert "warm-up TTFT" in run.finished.output


def test_prompts_that_are_longer_by_the_servers_count_are_told(played):
    run = played["first slow"]
    measured = [row for row in run.rows if row["phase"] == "measure"]
    assert {row["input_tokens"] for row in measured} == {"1180"}
    (level,) = run.report["levels"]
    reasons = json.dumps(level["verdict"]["reasons"])
    assert "prompts are 18% longer by the server's count than planned" in reasons
