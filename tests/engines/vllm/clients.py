"""The two clients: our load test and `vllm bench serve`, with the same prompts in a closed loop."""

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import analysis
from analysis import dialects, windows
from tests.engines.vllm.server import OFFLINE

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
OUTPUT_TOKENS = 64


class Told(NamedTuple):
    """What a client says of one pass; means in ms, under vLLM's definitions."""

    requests: int
    input_tokens: int
    output_tokens: int
    ttft_ms: float
    tpot_ms: float


def ours(url: str, folder: Path, prompts: Path, concurrency: int) -> Told:
    settings = {"load.levels": concurrency, "workload.dataset.file": prompts}
    command = [sys.executable, "-m", "locust", "-f", ROOT / "locustfiles" / "openai_completions.py", "--headless"]
    command += ["--only-summary", "--scenario", HERE / "side_by_side.toml", "-H", url]
    call([*command, *(f"--set={key}={value}" for key, value in settings.items())], folder, allowed=(0, 3))
    (run_dir,) = (folder / "runs").iterdir()
    with (run_dir / "requests.csv").open(newline="", encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    assert {row["outcome"] for row in rows} == {"success"}
    run = analysis.load(str(run_dir))
    figures = dialects.speak(run, windows.levels(run)[0], dialects.find("vllm")).figures
    tokens = [sum(int(row[column]) for row in rows) for column in ("input_tokens", "output_tokens")]
    ttft_ms, tpot_ms = figures["ttft_mean"], figures["tpot_mean"]
    assert ttft_ms is not None
    assert tpot_ms is not None
    return Told(len(rows), tokens[0], tokens[1], ttft_ms, tpot_ms)


def theirs(vllm: Path, model: Path, url: str, folder: Path, prompts: Path, concurrency: int) -> Told:
    count = len(prompts.read_text().splitlines())
    command = [vllm / "venv" / "bin" / "vllm", "bench", "serve", "--backend", "openai", "--base-url", url]
    command += ["--endpoint", "/v1/completions", "--model", "known", "--tokenizer", model, "--temperature", 0]
    command += ["--dataset-name", "custom", "--dataset-path", prompts, "--disable-shuffle", "--skip-chat-template"]
    command += ["--custom-output-len", OUTPUT_TOKENS, "--num-prompts", count, "--max-concurrency", concurrency]
    command += ["--ignore-eos", "--save-result", "--result-dir", folder, "--result-filename", "result.json"]
    call(command, folder)
    result = json.loads((folder / "result.json").read_text())
    names = ("completed", "total_input_tokens", "total_output_tokens", "mean_ttft_ms", "mean_tpot_ms")
    return Told(*(result[name] for name in names))


def call(command: list[object], folder: Path, allowed: tuple[int, ...] = (0,)) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **OFFLINE}
    ended = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if ended.returncode not in allowed:
        sys.exit(f"{' '.join(map(str, command))}\n{ended.stdout[-2000:]}{ended.stderr[-3000:]}")
