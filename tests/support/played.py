"""Whole runs against scripted servers: real Locust processes, what the server saw, and the run folder they leave."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.locust_run import CHAT, Finished, run
from tests.support.scripted_server import Answer, ScriptedServer, Seen, json_answer

MODEL = "scripted"
AT_ONCE = 4  # runs of a table: they wait most of the time

# the runs' own mix, which a dataset needs
DATASET = {"workload.inputs": "128:0.5,512:0.3,2048:0.2"}

Chat = Answer | Sequence[Answer] | Callable[[int, Seen], Answer]  # one for all, in their order, or by number from 0


@dataclass(frozen=True)
class Script:
    """One run: what the engine answers and how it is asked. With `requests`, exactly so many are sent."""

    chat: Chat
    users: int = 1
    requests: int | None = None
    settings: Mapping[str, str | None] = field(default_factory=dict)
    arguments: Sequence[str] = ()
    server: Mapping[str, Any] = field(default_factory=dict)
    locustfile: Path = CHAT
    refuses_after_checks: bool = False  # nothing listens any more when the first request is sent


@dataclass(frozen=True)
class Played:
    """A run that has ended."""

    finished: Finished
    server: ScriptedServer
    chats: list[Seen]  # the requests of the load

    @property
    def rows(self) -> list[dict[str, str]]:
        """Rows of requests.csv in the order of sending."""
        return sorted(self.finished.rows("requests.csv"), key=lambda row: float(row["sent_unix_s"]))

    @property
    def report(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.finished.run_dir / "report.json").read_text())
        return loaded

    def seen(self, row: Mapping[str, str]) -> Seen:
        """The request of a row as the server saw it."""
        wanted = f"{self.finished.run_dir.name}-{row['request_id']}"
        (found,) = [seen for seen in self.chats if seen.headers["x-request-id"] == wanted]
        return found

    def late_ms(self, row: Mapping[str, str]) -> float:
        """How late the server was: with reading the request, and with a step of its answer. No fault of the client's."""
        seen = self.seen(row)
        seen_unix_s = seen.at_s + time.time() - time.perf_counter()
        return seen.late_ms + max(0.0, (seen_unix_s - float(row["sent_unix_s"])) * 1000)

    def off_ms(self, row: Mapping[str, str], column: str, right_ms: float) -> float:
        """How far a time of a row is from the right one, beyond what the server was late."""
        return max(0.0, abs(float(row[column]) - right_ms) - self.late_ms(row))


def play_all(folder: Path, scripts: Mapping[str, Script]) -> dict[str, Played]:
    """All runs of a table, some of them at once."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        jobs = {name: pool.submit(play, folder / name, script) for name, script in scripts.items()}
        return {name: job.result() for name, job in jobs.items()}


def play(folder: Path, script: Script) -> Played:
    """One run from its start to its end."""
    folder.mkdir(parents=True)
    chats: list[Seen] = []

    def answer(seen: Seen) -> Answer:
        if seen.target == "/v1/models":
            return json_answer(200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})
        if seen.target != "/v1/chat/completions":
            if script.refuses_after_checks:
                server.refuse()
            return json_answer(404, {"detail": "Not Found"})
        chats.append(seen)
        return chosen(script.chat, len(chats) - 1, seen)

    settings: dict[str, str | None] = {
        "load.levels": str(script.users),
        "load.warmup_s": "0",
        "load.warmup_requests": "0",
        "load.measure_s": "60",
        **script.settings,
    }
    if script.requests:
        prompts = folder / "prompts.jsonl"
        prompts.write_text("".join(f'{{"prompt": "question {n}", "max_tokens": 10}}\n' for n in range(script.requests)))
        settings = {**DATASET, "workload.dataset.file": str(prompts), **settings}
    with ScriptedServer(answer, **script.server) as server:
        line = ["-H", server.url, *script.arguments]
        finished = run(folder, *line, settings=settings, locustfile=script.locustfile, limit_s=90)
    return Played(finished, server, chats)


def chosen(chat: Chat, number: int, seen: Seen) -> Answer:
    """The answer of request `number`; the last one of a list goes on for ever."""
    if isinstance(chat, Answer):
        return chat
    return chat(number, seen) if callable(chat) else chat[min(number, len(chat) - 1)]


def small_event(content: str) -> bytes:
    """A chat chunk with as little around its content as there can be."""
    return b'data: {"choices":[{"delta":{"content":"%s"}}]}\n\n' % content.encode()


END = b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


def s100(tokens: int = 10, body_bytes: int | None = None) -> Answer:
    """TTFT 100 ms, then tokens every 50 ms, then the end mark (E2E 550 ms); a comment fills the body up to its size."""
    events = [small_event(f"t{i % 10}") for i in range(tokens)]
    comment = b""
    if body_bytes:
        room = body_bytes - len(END) - sum(map(len, events))
        comment = b": " + b"." * (room - 4) + b"\n\n"
    return Answer([(100 if i == 0 else 50, data) for i, data in enumerate(events)] + [(0, comment + END)])
