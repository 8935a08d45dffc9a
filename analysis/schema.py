"""The columns of every file of a run folder: the one place where their names, types and units stand.

The load side writes by this schema and the analysis reads by it; nothing else may spell a column name
of its own. Files are UTF-8 CSV with a header; columns are found by name. An absent value is an empty
cell, never 0 or NaN. Instants of a request are milliseconds since `sent_unix_s` (the moment its bytes
were handed to a connected socket), so an instant before it is negative.
"""

from dataclasses import dataclass
from typing import Literal

SCHEMA_VERSION = 1

RUN_FILE = "run.json"
REQUESTS_FILE = "requests.csv"
TOKENS_FILE = "tokens.csv"
LEVELS_FILE = "levels.csv"
HEALTH_FILE = "health.csv"

Type = Literal["int", "float", "str", "bool"]

# Values of `outcome`; they are exclusive and their counts sum up to the requests started.
SUCCESS = "success"  # a proper end and at least one token event
FAILURE = "failure"  # see `error_class`
EMPTY = "empty"  # a proper end, but nothing was generated
CUT_OFF = "cut_off"  # ended by us: stop, Ctrl-C, end of the run
CANCELLED = "cancelled"  # `error_class` of a cut_off that the scenario asked for: neither success nor failure
OUTCOMES = (SUCCESS, FAILURE, EMPTY, CUT_OFF)

# Values of `phase`: where in its level a request was due (open loop) or sent. Only `measure` counts in a report.
RAMP = "ramp"
WARMUP = "warmup"
MEASURE = "measure"
TAIL = "tail"
PHASES = (RAMP, WARMUP, MEASURE, TAIL)

# Values of `output_tokens_source`, the most trusted first.
USAGE = "usage"  # the server's final count
RUNNING_USAGE = "running_usage"  # the last count the server sent while streaming
TOKENIZER = "tokenizer"  # counted by a configured local tokenizer
ESTIMATED = "estimated"  # number of token events

# Values of `stamp`: what the arrival times are.
STAMP_KERNEL = "kernel"  # the kernel's receive time of the segment
STAMP_READ = "read"  # our clock right after the read
STAMP_CALLBACK = "callback"  # our clock first thing in a library's callback (gRPC)

# Values of `channel` in tokens.csv.
ANSWER = "answer"
REASONING = "reasoning"
TOOL_CALL = "tool_call"
REFUSAL = "refusal"
CHANNELS = (ANSWER, REASONING, TOOL_CALL, REFUSAL)


@dataclass(frozen=True, slots=True)
class Column:
    """One column: its name (with the unit in it), its type and what it means."""

    name: str
    type: Type
    meaning: str


REQUEST_COLUMNS: tuple[Column, ...] = (
    # which request
    Column("request_id", "str", "unique in the run: worker-number"),
    Column("worker", "int", "index of the worker that sent it"),
    Column("user", "int", "number of the Locust user on that worker"),
    Column("level", "int", "number of the level in which it was due, or else sent, from 1; empty outside of any"),
    Column("phase", "str", "phase of that level in which it was due, or else sent"),
    # what was asked
    Column("api", "str", "chat, completions, responses, triton-grpc or triton-generate"),
    Column("model", "str", "model name in the request"),
    Column("host", "str", "which of several hosts it was sent to; empty where there is one"),
    Column("length_class", "str", "class of the workload mix, for example its prompt length"),
    Column("input_tokens_requested", "int", "prompt length that the workload asked for"),
    Column("output_tokens_requested", "int", "max_tokens of the request"),
    # when (instants in ms since sent)
    Column("sent_unix_s", "float", "request bytes handed to a connected socket, on the master's clock"),
    Column("planned_ms", "float", "instant set by the schedule; empty in a closed loop"),
    Column("started_ms", "float", "user code called the client"),
    Column("connect_ms", "float", "DNS + TCP + TLS, before sent; 0 on a reused connection"),
    Column("headers_ms", "float", "end of the response headers"),
    Column("first_token_ms", "float", "first token event on any channel"),
    Column("first_answer_ms", "float", "first token event with answer text"),
    Column("last_token_ms", "float", "last token event"),
    Column("e2e_ms", "float", "end mark, or end of the body, or the failure"),
    # how much
    Column("token_events", "int", "number of token events"),
    Column("first_event_tokens", "int", "tokens in the first token event, where known"),
    Column("output_tokens", "int", "generated tokens, by the source in the next column"),
    Column("output_tokens_source", "str", "usage, running_usage, tokenizer or estimated"),
    Column("input_tokens", "int", "prompt tokens by the server's usage"),
    Column("cached_tokens", "int", "prompt tokens answered from the server's prefix cache"),
    Column("reasoning_tokens", "int", "output tokens spent on reasoning, by usage"),
    # what became of it
    Column("outcome", "str", "success, failure, empty or cut_off"),
    Column("error_class", "str", "class of a failure, for example http_503; `cancelled` of a planned cut_off"),
    Column("error_text", "str", "the server's or library's own words, shortened"),
    Column("http_status", "int", "status of the HTTP response"),
    Column("finish_reason", "str", "finish reason of the first choice"),
    Column("retry_after_s", "float", "Retry-After of a refusal"),
    # how well the client measured it
    Column("stamp", "str", "kernel, read or callback"),
    Column("reads", "int", "socket reads of the response"),
    Column("coalesced_reads", "int", "reads in which several segments shared the last one's stamp"),
    Column("read_lag_max_ms", "float", "longest time from kernel arrival to our read"),
    Column("response_bytes", "int", "bytes of the response body"),
    Column("connection_reused", "bool", "sent on a kept-alive connection"),
    Column("stale_retries", "int", "closed idle connections replaced before anything was sent"),
)

TOKEN_COLUMNS: tuple[Column, ...] = (
    Column("request_id", "str", "the request in requests.csv"),
    Column("index", "int", "number of the token event in its request, from 0"),
    Column("arrival_ms", "float", "arrival since sent"),
    Column("tokens", "int", "tokens in the event; empty where only the request's sum is known"),
    Column("channel", "str", "answer, reasoning, tool_call or refusal"),
)

LEVEL_COLUMNS: tuple[Column, ...] = (
    Column("level", "int", "number of the level, from 1"),
    Column("mode", "str", "concurrency (closed loop), rate, trace, batch, or manual (users set by hand)"),
    Column("requested", "float", "concurrency; requests per second; speed of a trace; requests of a batch"),
    Column("users", "int", "users that ran when the measure phase began"),
    Column("workers", "int", "workers that ran when the measure phase began"),
    Column("ramp_start_unix_s", "float", "first user of the level asked for"),
    Column("warmup_start_unix_s", "float", "all users running"),
    Column("measure_start_unix_s", "float", "measured requests are sent from here"),
    Column("measure_end_unix_s", "float", "to here"),
    Column("tail_end_unix_s", "float", "the last measured request has ended; the load was held until here"),
    Column("complete", "bool", "false when the run was stopped before the tail had ended"),
    Column("planned", "int", "open loop: arrivals that were due in the measure phase"),
    Column("dropped", "int", "of these: found no place among the requests in flight, and were not sent"),
    Column("missed", "int", "of these: still waited for a place at the level's end, and were not sent"),
)

HEALTH_COLUMNS: tuple[Column, ...] = (
    Column("unix_s", "float", "end of the second, on the master's clock"),
    Column("worker", "int", "index of the worker"),
    Column("cpu_percent", "float", "CPU of the process, 100 = one core"),
    Column("hub_lag_ms", "float", "longest delay of a timer in the process' event loop in that second"),
    Column("reads", "int", "socket reads"),
    Column("coalesced_reads", "int", "reads in which several segments shared one stamp"),
    Column("in_flight", "int", "requests in flight"),
    Column("memory_mb", "float", "resident memory"),
)

COLUMNS: dict[str, tuple[Column, ...]] = {
    REQUESTS_FILE: REQUEST_COLUMNS,
    TOKENS_FILE: TOKEN_COLUMNS,
    LEVELS_FILE: LEVEL_COLUMNS,
    HEALTH_FILE: HEALTH_COLUMNS,
}


def names(file: str) -> list[str]:
    """Header of a run file, in its written order."""
    return [column.name for column in COLUMNS[file]]
