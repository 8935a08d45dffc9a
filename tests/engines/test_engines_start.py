"""The engines themselves, seen with the standard library alone: what the other tests here rest on."""

from pathlib import Path


def listening_addresses(pid):
    """Addresses on which a process listens, as /proc writes them."""
    sockets = [str(fd.readlink()) for fd in Path(f"/proc/{pid}/fd").iterdir() if fd.is_symlink()]
    addresses = set()
    for table in ("tcp", "tcp6"):
        rows = [line.split() for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]]
        addresses |= {row[1].split(":")[0] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in sockets}
    return addresses


def test_llamacpp_says_what_the_known_model_must_say(llamacpp, known_answer):
    text, usage = llamacpp.chat(max_tokens=64)
    assert text == known_answer.text
    assert usage["completion_tokens"] == known_answer.completion_tokens == 20


def test_dynamo_generates_as_many_tokens_as_asked(dynamo):
    _, usage = dynamo(50, 10).chat(max_tokens=12, ignore_eos=True)
    assert usage["completion_tokens"] == 12


def test_engines_listen_on_loopback_only(llamacpp, dynamo):
    for engine in (llamacpp, dynamo(50, 10)):
        assert listening_addresses(engine.pid) == {"0100007F"}  # 127.0.0.1
