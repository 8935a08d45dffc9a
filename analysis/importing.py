"""Makes a run folder of another tool's result, to report on it and to compare it.

vLLM's detailed JSON, AIPerf's `profile_export.jsonl` and genai-perf's `profile_export.json`. Such a folder says in
run.json where it came from; its instants are the other tool's, with its accuracy, and what it did not record is absent.
"""

import csv
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from analysis import schema
from analysis.tables import RunError

FORMATS = ("vllm", "aiperf", "genai-perf")
UNKNOWN_START_UNIX_S = 1_000_000_000.0  # older vLLM results hold no wall clock


@dataclass(frozen=True, slots=True)
class Imported:
    """One request as another tool recorded it; instants in ms since it was sent."""

    sent_unix_s: float
    arrivals_ms: Sequence[float]
    e2e_ms: float
    output_tokens: int | None
    input_tokens: int | None
    error: str


def import_run(file: Path, form: str, folder: Path) -> Path:
    """Make a run folder of another tool's result file."""
    if folder.exists() and any(folder.iterdir()):
        raise RunError(f"{folder}: is not empty; name a new folder")
    readers = {"vllm": _from_vllm, "aiperf": _from_aiperf, "genai-perf": _from_genai_perf}
    try:
        requests, info = readers[form](file)
    except (AttributeError, KeyError, TypeError, IndexError, ValueError) as error:
        raise RunError(f"{file}: does not look like a {form} result with single requests ({error!r})") from None
    folder.mkdir(parents=True, exist_ok=True)
    _write_run(
        folder, requests, info | {"name": file.stem, "imported_from": form, "schema_version": schema.SCHEMA_VERSION}
    )
    return folder


def _from_vllm(file: Path) -> tuple[list[Imported], dict[str, Any]]:
    data = json.loads(file.read_text(encoding="utf-8"))
    starts = data.get("start_times") or [0.0] * len(data["ttfts"])
    # its start times are a monotonic clock's: only their differences mean something
    origin = 0.0 if min(starts, default=0.0) > UNKNOWN_START_UNIX_S else UNKNOWN_START_UNIX_S - min(starts, default=0.0)
    found = []
    for number, (first, gaps) in enumerate(zip(data["ttfts"], data["itls"], strict=True)):
        error = str((data.get("errors") or [""] * (number + 1))[number] or "")
        arrivals = [] if error else (1000 * (first + np.concatenate([[0.0], np.cumsum(gaps)]))).tolist()
        length = int(data["output_lens"][number]) if data.get("output_lens") else None
        inputs = int(data["input_lens"][number]) if data.get("input_lens") else None
        sent = starts[number] + origin
        found.append(Imported(sent, arrivals, arrivals[-1] if arrivals else 0.0, length, inputs, error))
    info = {"model": data.get("model_id"), "api": data.get("endpoint_type") or data.get("backend")}
    return found, info | {"concurrency": data.get("max_concurrency")}


def _from_aiperf(file: Path) -> tuple[list[Imported], dict[str, Any]]:
    found = []
    with file.open(encoding="utf-8") as lines:
        for line in filter(str.strip, lines):
            record = json.loads(line)
            values = {name: metric["value"] for name, metric in (record.get("metrics") or {}).items()}
            metadata, error = record["metadata"], record.get("error")
            sent = metadata["request_start_ns"] / 1e9
            end_ms = (metadata["request_end_ns"] - metadata["request_start_ns"]) / 1e6
            arrivals = _aiperf_arrivals(values)
            tokens = values.get("output_sequence_length")
            inputs = values.get("input_sequence_length")
            told = f"{error.get('type')}: {error.get('message')}" if error else ""
            found.append(
                Imported(
                    sent,
                    [] if error else arrivals,
                    end_ms,
                    int(tokens) if tokens else None,
                    int(inputs) if inputs else None,
                    told,
                )
            )
    return found, {}


def _aiperf_arrivals(values: Mapping[str, Any]) -> list[float]:
    """Arrivals from TTFT and the gaps; without gaps only the first and the last are known."""
    if "time_to_first_token" not in values:
        return []
    first, gaps = values["time_to_first_token"], values.get("inter_chunk_latency")
    if gaps:
        return [float(arrival) for arrival in first + np.concatenate([[0.0], np.cumsum(gaps)])]
    return [first, values["request_latency"]] if values.get("request_latency", 0) > first else [first]


def _from_genai_perf(file: Path) -> tuple[list[Imported], dict[str, Any]]:
    experiments = json.loads(file.read_text(encoding="utf-8"))["experiments"]
    found = []
    for request in experiments[0]["requests"]:
        start = request["timestamp"]
        outputs = request.get("response_outputs") or [{}] * len(request["response_timestamps"])
        arrivals = [
            (stamp - start) / 1e6
            for stamp, output in zip(request["response_timestamps"], outputs, strict=True)
            if _has_payload(str(output.get("response", "x")))
        ]
        end_ms = (request["response_timestamps"][-1] - start) / 1e6 if request["response_timestamps"] else 0.0
        found.append(Imported(start / 1e9, arrivals, end_ms, None, None, "" if arrivals else "no_events"))
    value = experiments[0].get("experiment", {})
    return found, {"concurrency": value.get("value") if value.get("mode") == "concurrency" else None}


def _has_payload(response: str) -> bool:
    """Whether a recorded event carries generated text; a role, a usage or an end mark does not."""
    body = response.strip().removeprefix("data:").strip()
    if not body or body == "[DONE]":
        return False
    try:
        event = json.loads(body)
    except ValueError:
        return True  # not JSON: the endpoint streams plain text
    if not isinstance(event, dict) or "choices" not in event:
        return bool(event)
    deltas = [choice.get("delta") or {} for choice in event["choices"]]
    texts = [choice.get("text") for choice in event["choices"]]
    keys = ("content", "reasoning", "reasoning_content", "tool_calls")
    return any(texts) or any(delta.get(key) for delta in deltas for key in keys)


def _write_run(folder: Path, requests: Sequence[Imported], info: dict[str, Any]) -> None:
    start = min((request.sent_unix_s for request in requests), default=UNKNOWN_START_UNIX_S)
    end = max((request.sent_unix_s + request.e2e_ms / 1000 for request in requests), default=start)
    concurrency = info.pop("concurrency", None)
    info |= {"started_unix_s": start, "ended_unix_s": end, "scenario": {}}
    (folder / schema.RUN_FILE).write_text(json.dumps(info, allow_nan=False) + "\n", encoding="utf-8")
    _write_rows(
        folder, schema.REQUESTS_FILE, (_request_row(number, request) for number, request in enumerate(requests))
    )
    _write_rows(
        folder,
        schema.TOKENS_FILE,
        (
            {"request_id": f"0-{number}", "index": index, "arrival_ms": round(arrival, 6), "channel": schema.ANSWER}
            for number, request in enumerate(requests)
            for index, arrival in enumerate(request.arrivals_ms)
        ),
    )
    level = {
        "level": 1, "mode": "concurrency" if concurrency else "imported", "requested": concurrency or "",
        "measure_start_unix_s": start, "measure_end_unix_s": end, "tail_end_unix_s": end, "complete": "true",
    }  # fmt: skip
    _write_rows(folder, schema.LEVELS_FILE, [level])


def _request_row(number: int, request: Imported) -> dict[str, Any]:
    arrivals, failed = request.arrivals_ms, bool(request.error)
    row: dict[str, Any] = {
        "request_id": f"0-{number}", "worker": 0, "level": 1, "phase": schema.MEASURE,
        "sent_unix_s": f"{request.sent_unix_s:.9f}", "e2e_ms": round(request.e2e_ms, 6), "input_tokens": request.input_tokens,
        "token_events": len(arrivals), "outcome": schema.FAILURE if failed else schema.SUCCESS if arrivals else schema.EMPTY,
        "error_class": "imported" if failed else "", "error_text": request.error[:500], "stale_retries": 0,
    }  # fmt: skip
    if arrivals and not failed:
        row |= {"first_token_ms": round(arrivals[0], 6), "last_token_ms": round(arrivals[-1], 6)}
        counted = request.output_tokens is not None
        row["output_tokens"] = request.output_tokens if counted else len(arrivals)
        row["output_tokens_source"] = schema.TOKENIZER if counted else schema.ESTIMATED
    return {
        name: "" if value is None or (isinstance(value, float) and math.isnan(value)) else value
        for name, value in row.items()
    }


def _write_rows(folder: Path, file: str, rows: Iterable[Mapping[str, Any]]) -> None:
    with (folder / file).open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, schema.names(file), restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
