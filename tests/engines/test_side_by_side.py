"""What `make test-engines` judges by: the wire as a witness, and its words on a difference. It needs no vLLM itself."""

import json
import subprocess
import sys
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from scenarios.engine.embedded import start_embedded_engine
from tests.engines.vllm import wire
from tests.engines.vllm.side_by_side import judge, share_cores, watching, wire_means

TOKENSWARM = Path(sys.executable).parent / "tokenswarm"


@pytest.mark.skipif(bool(wire.can_see()), reason=wire.can_see() or "the wire can be seen")
def test_the_wire_has_seen_what_the_client_says(tmp_path):
    engine = start_embedded_engine(["--speed", "2"])
    try:
        port = urlsplit(engine.url).port
        with watching(f"http://127.0.0.1:{port}", tmp_path, seen=True) as file:
            asked = [TOKENSWARM, "probe", "--api", "completions", "--host", engine.url, "--max-tokens", "40", "--json"]
            probed = json.loads(subprocess.run(list(map(str, asked)), capture_output=True, check=True).stdout)
    finally:
        engine.stop()
    ((asked_s, *tokens_s),) = json.loads(file.read_text())
    assert len(tokens_s) == probed["output_tokens"] == 40
    assert (tokens_s[0] - asked_s) * 1000 == pytest.approx(probed["ttft_ms"], abs=1)
    assert list(wire_means(file)) == [
        pytest.approx(probed["ttft_ms"], abs=1),
        pytest.approx(probed["tpot_ms"], abs=0.05),
    ]


def means(client: float, seen: float, server: float) -> dict[str, float]:
    return {"client": client, "wire": seen, "server itself": server}


@pytest.mark.parametrize(
    ("ours", "theirs", "alike", "text"),
    [
        # 10.2 / 10.0; both read what went over the wire
        (means(10.2, 10.2, 9.0), means(10.0, 10.0, 9.0), True, "+2.0% beside theirs: over the wire +2.0%"),
        # theirs reads the first token 10 % late
        (means(10.0, 10.0, 9.0), means(11.0, 10.0, 9.0), True, "ours reads +0.0% of it, theirs +10.0%"),
        # the server was slower under theirs
        (means(10.0, 10.0, 9.0), means(12.5, 12.5, 11.25), True, "(the server says -20.0%)"),
        # ours reads the first token late: no excuse
        (means(11.0, 10.0, 9.0), means(10.0, 10.0, 9.0), False, "ours reads +10.0% of it, theirs +0.0%"),
        # the answers to ours went out sooner, and the server knows of no reason
        (means(10.0, 10.0, 9.0), means(12.5, 12.5, 9.0), False, "over the wire -20.0% (the server says +0.0%)"),
    ],
)
def test_a_difference_counts_unless_wire_and_server_explain_it(ours, theirs, alike, text):
    judged, said = judge(ours, theirs)
    assert judged is alike
    assert text in said


def test_without_the_wire_means_have_to_be_within_3_percent():
    assert judge({"client": 10.29}, {"client": 10.0})[0]
    assert not judge({"client": 10.31}, {"client": 10.0})[0]


def test_server_and_clients_share_no_core_where_there_are_two():
    server, clients = share_cores()
    assert len(clients) == 1 or server == clients
    assert not server & clients or len(server) == 1
