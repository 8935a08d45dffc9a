"""TLS, proxies and IPv6: set up apart from latency, checked, and never used where they should not be."""

import json
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trustme

from scenarios.clients.call import LLMRequest
from scenarios.clients.tokenize import prompt_counter
from tests.support.measuring import QUICK, lateness_ms, many, measure
from tests.support.scripted_server import (
    ScriptedServer,
    chat_stream,
    json_answer,
)


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


def tls_of(ca: trustme.CA, name: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(name).configure_cert(context)
    return context


def test_tls_is_set_up_once_and_apart_from_latency(ca: trustme.CA) -> None:
    slow = ScriptedServer(chat_stream(100, 10, 5), tls=tls_of(ca, "127.0.0.1"), accept_delay_s=0.08)
    with ca.cert_pem.tempfile() as ca_file, slow as server:
        results = many(server.url, 4, each=5, ca_file=ca_file)
    assert {r.outcome for r in results} == {"success"}
    late_ms = lateness_ms(server, results)
    connected = [r.connect_ms for r in results if r.connect_ms > 0]
    # an answer whose last chunk comes late keeps its connection busy: the next request takes a new one
    assert len(connected) == server.connections
    assert len(connected) == 4 or late_ms > 30
    assert min(connected) >= 80
    assert all(r.first_token_ms == pytest.approx(100, abs=20 + late_ms) for r in results)
    assert {r.stamp for r in results} == {"kernel"}  # of the segment that completed the TLS record


def test_certificates_are_checked_unless_told_not_to(ca: trustme.CA) -> None:
    with ScriptedServer(QUICK, tls=tls_of(ca, "127.0.0.1")) as server:
        refused = measure(server.url)[0]
        taken = measure(server.url, verify=False)[0]
        with ca.cert_pem.tempfile() as ca_file:
            other_name = measure(server.url.replace("127.0.0.1", "localhost"), ca_file=ca_file)[0]
    assert (refused.error_class, other_name.error_class) == ("tls", "tls")
    assert refused.error_text is not None
    assert "unable to get local issuer certificate" in refused.error_text
    assert taken.outcome == "success"


def test_https_to_a_plain_server_is_a_tls_failure() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.recv(65536)
                sock.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        thread = threading.Thread(target=answer)
        thread.start()
        result = measure(f"https://127.0.0.1:{listener.getsockname()[1]}", verify=False)[0]
        thread.join()
    assert result.error_class == "tls"
    assert result.error_text is not None
    assert "WRONG_VERSION_NUMBER" in result.error_text


def test_events_over_ipv6() -> None:
    with ScriptedServer(QUICK, host="::1") as server:
        assert measure(server.url)[0].outcome == "success"
    assert server.requests[0].headers["host"] == f"[::1]:{server.port}"


@contextmanager
def http_proxy(*arguments: str) -> Iterator[str]:
    import proxy

    with proxy.Proxy(
        ["--hostname", "127.0.0.1", "--port", "0", "--num-workers", "1", "--log-level", "ERROR", *arguments]
    ) as p:
        yield f"127.0.0.1:{p.flags.port}"


def test_proxies_come_from_the_environment(ca: trustme.CA, monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        http_proxy("--basic-auth", "user:pass") as proxy,
        ScriptedServer(QUICK) as plain,
        ScriptedServer(QUICK, tls=tls_of(ca, "0.0.0.0")) as tls,
        ca.cert_pem.tempfile() as ca_file,
    ):
        # leads here too, and is no loopback address, for which there are no proxies
        plain_url, tls_url = (each.url.replace("127.0.0.1", "0.0.0.0") for each in (plain, tls))
        for variable in ("http_proxy", "https_proxy"):
            monkeypatch.setenv(variable, f"http://user:pass@{proxy}")
        for variable in ("no_proxy", "NO_PROXY"):
            monkeypatch.setenv(variable, "")
        through = measure(plain_url, proxies=None, times=2)
        tunnelled = measure(tls_url, proxies=None, ca_file=ca_file)[0]
        monkeypatch.setenv("https_proxy", f"http://{proxy}")
        unknown = measure(tls_url, proxies=None, ca_file=ca_file)[0]
        monkeypatch.setenv("no_proxy", "0.0.0.0")
        direct = measure(plain_url, proxies=None)[0]
        named = measure(plain.url, proxies={"http": f"http://user:pass@{proxy}"})[0]
    assert [r.outcome for r in (*through, tunnelled, direct, named)] == ["success"] * 5
    first, _, without, by_hand = plain.requests
    assert ["via" in seen.headers for seen in (first, without, by_hand)] == [True, False, True]
    assert "proxy-authorization" not in plain.requests[0].headers
    assert unknown.error_class == "connect"
    assert unknown.error_text is not None
    assert "refused the tunnel: HTTP/1.1 407" in unknown.error_text


@pytest.mark.usefixtures("proxy_that_nobody_asks")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
def test_this_machine_is_asked_directly_whatever_proxy_the_environment_names(host: str) -> None:
    with ScriptedServer(QUICK, host="::1" if host == "[::1]" else "127.0.0.1") as server:
        assert measure(f"http://{host}:{server.port}", proxies=None)[0].outcome == "success"


@pytest.mark.usefixtures("proxy_that_nobody_asks")
def test_the_practice_engine_of_a_probe_is_asked_directly() -> None:
    probe = [sys.executable, "-m", "scenarios.cli", "probe", "--max-tokens", "4", "--timeout", "20", "--json"]
    done = subprocess.run(probe, capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout)["outcome"] == "success", done.stderr


@pytest.mark.usefixtures("proxy_that_nobody_asks")
def test_a_prompt_is_counted_directly() -> None:
    with (
        ScriptedServer(json_answer(200, {"count": 7})) as server,
        prompt_counter(server.url, api="chat", model="m") as count,
    ):
        assert count(LLMRequest(prompt="x")) == 7


@pytest.mark.parametrize(
    ("proxy", "text"),
    [
        ("socks5://127.0.0.1:9", "proxy socks5://127.0.0.1: only http:// proxies are supported"),
        ("http://user:pass", "the proxy for http is no address: expected http://HOST:PORT"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_told_without_its_password(proxy: str, text: str) -> None:
    result = measure("http://engine.invalid", proxies={"http": proxy})[0]
    assert (result.error_class, result.error_text) == ("connect", text)
