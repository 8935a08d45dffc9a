"""Writes runs in the files of other tools, so that existing plot scripts go on working.

vLLM's `bench serve --save-result --save-detailed` JSON and AIPerf's profile export, one per level, with the figures
by that tool's definitions (`analysis.dialects`).
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis import dialects, gaps, metrics, parquet, schema, windows
from analysis.runs import Run
from analysis.windows import Level

FORMATS = ("vllm", "aiperf", "parquet")


def to_vllm(run: Run, level: Level) -> dict[str, Any]:
    """A level as the JSON that `vllm bench serve --save-result --save-detailed` writes."""
    rows = _rows(run, level)
    requests = run.requests.iloc[rows]
    good = (requests["outcome"] == schema.SUCCESS).to_numpy()
    spoken = dialects.speak(run, level, dialects.find("vllm")).figures
    arrivals = _arrivals(run, rows)
    lengths = requests["output_tokens"].where(good).fillna(0).astype(int).tolist()
    inputs = requests["input_tokens"].fillna(requests["input_tokens_requested"]).fillna(0).astype(int)
    sent = windows.sent_unix_s(requests)
    duration = _seconds(sent[good] + requests["last_token_ms"].to_numpy()[good] / 1000, sent[good])
    total_in, total_out = int(inputs[good].sum()), sum(lengths)
    result: dict[str, Any] = {
        "date": "", "backend": run.info.get("api") or "", "endpoint_type": run.info.get("api") or "",
        "model_id": run.info.get("model") or "", "tokenizer_id": run.info.get("model") or "",
        "num_prompts": len(requests), "request_rate": "inf", "burstiness": 1.0,
        "max_concurrency": int(level.requested) if level.requested else None,
        "duration": duration, "completed": int(good.sum()), "failed": int((~good).sum()),
        "total_input_tokens": total_in, "total_output_tokens": total_out,
        "request_throughput": spoken["requests_s"], "output_throughput": spoken["output_tok_s"],
        "total_token_throughput": (total_in + total_out) / duration if duration else None,
        "input_lens": inputs.tolist(), "output_lens": lengths,
        "ttfts": [instants[0] / 1000 if len(instants) else 0.0 for instants in arrivals],
        "itls": [(np.diff(instants) / 1000).tolist() for instants in arrivals],
        "start_times": sent.tolist(), "generated_texts": [""] * len(requests),
        "errors": [str(row) if isinstance(row, str) else "" for row in requests["error_class"]],
    }  # fmt: skip
    values = {
        "ttft": metrics.ttft_ms(requests[good]),
        "tpot": (requests["last_token_ms"] - requests["first_token_ms"])[good] / (requests["output_tokens"][good] - 1),
        "itl": gaps.itl_ms(
            run.token_rows, windows.measured(run, level) & (run.requests["outcome"] == schema.SUCCESS).to_numpy()
        ),
        "e2el": requests["last_token_ms"][good],
    }
    for name, column in values.items():
        known = np.asarray(column, dtype=np.float64)
        result |= _vllm_statistics(name, known[np.isfinite(known)])
    return result


def to_aiperf(run: Run, level: Level) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """A level as AIPerf's `profile_export.jsonl` records and its `profile_export_aiperf.json`."""
    rows = _rows(run, level)
    arrivals = _arrivals(run, rows)
    records = [_aiperf_record(run, int(row), number, arrivals[number]) for number, row in enumerate(rows)]
    columns: dict[str, list[float]] = {}
    for record in records:
        for name, metric in (record["metrics"] if not record["error"] else {}).items():
            values = metric["value"] if isinstance(metric["value"], list) else [metric["value"]]
            columns.setdefault(name, []).extend(values)
    spoken = dialects.speak(run, level, dialects.find("aiperf")).figures
    requests = run.requests.iloc[rows]
    good = requests[requests["outcome"] == schema.SUCCESS]
    sent = windows.sent_unix_s(good)
    summary: dict[str, Any] = {name: _aiperf_statistics(name, np.array(values)) for name, values in columns.items()}
    summary |= {
        "request_throughput": {"unit": "requests/sec", "avg": spoken["requests_s"]},
        "output_token_throughput": {"unit": "tokens/sec", "avg": spoken["output_tok_s"]},
        "request_count": {"unit": "requests", "avg": float(len(good))},
        "error_request_count": {"unit": "requests", "avg": float(len(requests) - len(good))},
        "benchmark_duration": {"unit": "sec", "avg": _seconds(sent + good["last_token_ms"].to_numpy() / 1000, sent)},
        "was_cancelled": not level.complete,
        "error_summary": [
            {"error_details": {"code": None, "type": str(name), "message": str(name)}, "count": int(count)}
            for name, count in requests["error_class"].value_counts().items()
        ],
        "input_config": {
            "endpoint": {
                "model_names": [run.info.get("model")],
                "type": run.info.get("api"),
                "url": run.info.get("host"),
            },
            "loadgen": {"concurrency": int(level.requested) if level.requested else None},
        },
    }
    return records, summary


def export_run(run: Run, form: str, folder: Path) -> list[Path]:
    """Write every level of a run in another tool's form, or its rows as Parquet; returns the files."""
    folder.mkdir(parents=True, exist_ok=True)
    if form == "parquet":
        return parquet.write(run, folder)
    written = []
    for level in windows.levels(run):
        name = f"{level.requested:g}" if level.requested is not None else f"level{level.number}"
        if form == "vllm":
            written.append(_write_json(folder / f"vllm-concurrency{name}.json", to_vllm(run, level)))
            continue
        records, summary = to_aiperf(run, level)
        place = folder / f"concurrency{name}"
        place.mkdir(exist_ok=True)
        lines = place / "profile_export.jsonl"
        lines.write_text("".join(json.dumps(record, allow_nan=False) + "\n" for record in records), encoding="utf-8")
        written += [lines, _write_json(place / "profile_export_aiperf.json", summary)]
    return written


def _rows(run: Run, level: Level) -> NDArray[np.intp]:
    """The measured requests whose time of sending is known."""
    return np.flatnonzero(windows.measured(run, level) & run.requests["sent_unix_s"].notna().to_numpy())


def _arrivals(run: Run, rows: NDArray[np.intp]) -> list[metrics.Floats]:
    """The arrivals of each chosen request."""
    return [run.token_rows.of(int(row)).arrival_ms for row in rows]


def _seconds(ends: metrics.Floats, starts: metrics.Floats) -> float:
    return float(np.nanmax(ends) - np.nanmin(starts)) if len(ends) and np.isfinite(ends).any() else 0.0


def _vllm_statistics(name: str, values: metrics.Floats) -> dict[str, float]:
    if not len(values):
        values = np.zeros(1)  # as vLLM does
    found = {"mean": values.mean(), "median": np.median(values), "std": values.std()}
    found |= {f"p{p}": np.percentile(values, p) for p in metrics.PERCENTILES}
    return {f"{part}_{name}_ms": float(value) for part, value in found.items()}


def _aiperf_record(run: Run, row: int, number: int, arrivals: metrics.Floats) -> dict[str, Any]:
    request = run.requests.iloc[row]
    start_ns = round(request["sent_unix_s"] * 1e9)
    good = request["outcome"] == schema.SUCCESS
    tokens, last = request["output_tokens"], request["last_token_ms"]
    values: dict[str, tuple[Any, str]] = {"input_sequence_length": (request["input_tokens"], "tokens")}
    if good:
        values |= {
            "time_to_first_token": (request["first_token_ms"], "ms"),
            "request_latency": (last, "ms"),
            "output_sequence_length": (tokens, "tokens"),
            "inter_chunk_latency": (np.round(np.diff(arrivals), 6).tolist(), "ms"),
        }
        if tokens > 1 and last > request["first_token_ms"]:
            latency = (last - request["first_token_ms"]) / (tokens - 1)
            values["inter_token_latency"] = (latency, "ms")
            values["output_token_throughput_per_user"] = (1000 / latency, "tokens/sec/user")
    end_ms = request["e2e_ms"] if request["e2e_ms"] == request["e2e_ms"] else 0.0
    return {
        "metadata": {
            "session_num": number, "x_request_id": str(request["request_id"]), "turn_index": 0,
            "request_start_ns": start_ns, "request_end_ns": start_ns + round(end_ms * 1e6),
            "worker_id": f"worker_{request['worker']:g}", "benchmark_phase": "profiling",
            "was_cancelled": request["outcome"] == schema.CUT_OFF,
        },
        "metrics": {name: {"value": value, "unit": unit} for name, (value, unit) in values.items() if _known(value)},
        "error": None if good else {"code": None, "type": _text(request["error_class"]) or str(request["outcome"]), "message": _text(request["error_text"])},
    }  # fmt: skip


def _aiperf_statistics(name: str, values: metrics.Floats) -> dict[str, Any]:
    units = {
        "input_sequence_length": "tokens",
        "output_sequence_length": "tokens",
        "output_token_throughput_per_user": "tokens/sec/user",
    }
    ranks = {f"p{p}": float(np.percentile(values, p)) for p in (1, 5, 10, 25, 50, 75, 90, 95, 99)}
    extremes = {"min": float(values.min()), "max": float(values.max()), "std": float(values.std())}
    return {"unit": units.get(name, "ms"), "avg": float(values.mean()), **ranks, **extremes}


def _known(value: Any) -> bool:
    return bool(len(value)) if isinstance(value, list) else not math.isnan(value)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _write_json(path: Path, data: Mapping[str, Any]) -> Path:
    path.write_text(json.dumps(data, allow_nan=False) + "\n", encoding="utf-8")
    return path
