"""Runs in the files of other tools: what we write they can read, and what they wrote becomes a run."""

import json

import pytest
from click.testing import CliRunner

import analysis
from analysis import exporting, importing, windows
from analysis.cli import main_group
from analysis.tables import RunError


@pytest.fixture
def run(build):
    made = build()
    made.level(1, 2, 0, 10)
    made.request(0, [100, 110, 130], e2e_ms=150, input_tokens=12)
    made.request(1, [50, 70], e2e_ms=75, input_tokens=8)
    made.request(2, error_class="http_503", error_text="busy")
    return made


def one_level(run):
    loaded = analysis.load(run.write())
    return loaded, windows.levels(loaded)[0]


def test_vllm_result_has_its_keys_and_its_figures(run):
    result = exporting.to_vllm(*one_level(run))
    assert (result["completed"], result["failed"], result["num_prompts"], result["max_concurrency"]) == (2, 1, 3, 2)
    assert result["duration"] == pytest.approx(1.07)  # first send to last token
    assert result["output_throughput"] == pytest.approx(5 / 1.07)
    assert result["total_token_throughput"] == pytest.approx(25 / 1.07)
    assert result["mean_ttft_ms"] == 75
    assert result["median_tpot_ms"] == pytest.approx((15 + 20) / 2)
    assert result["p99_e2el_ms"] == pytest.approx(129.4)  # interpolated between 70 and 130
    assert result["mean_itl_ms"] == pytest.approx(50 / 3)
    assert result["ttfts"] == [0.1, 0.05, 0.0]
    assert result["itls"] == [pytest.approx([0.01, 0.02]), pytest.approx([0.02]), []]
    assert result["output_lens"] == [3, 2, 0]
    assert result["errors"] == ["", "", "http_503"]


def test_aiperf_records_and_summary_have_their_shape(run):
    records, summary = exporting.to_aiperf(*one_level(run))
    first = records[0]
    assert first["metrics"]["inter_token_latency"] == {"value": 15.0, "unit": "ms"}
    assert first["metrics"]["inter_chunk_latency"]["value"] == [10, 20]
    assert first["metadata"]["request_end_ns"] - first["metadata"]["request_start_ns"] == 150_000_000
    assert (records[2]["error"]["type"], records[2]["error"]["message"]) == ("http_503", "busy")
    assert summary["time_to_first_token"]["avg"] == 75
    assert summary["time_to_first_token"]["unit"] == "ms"
    assert summary["request_count"]["avg"] == 2
    assert summary["request_throughput"]["avg"] == pytest.approx(2 / 1.07)
    assert summary["error_summary"][0]["count"] == 1


@pytest.mark.parametrize(
    ("form", "file"), [("vllm", "vllm-concurrency2.json"), ("aiperf", "concurrency2/profile_export.jsonl")]
)
def test_an_export_read_back_is_the_same_run(run, form, file, tmp_path):
    invoke = CliRunner().invoke
    folder, out, back = run.write(), tmp_path / "out", tmp_path / "back"
    assert invoke(main_group, ["export", str(folder), "--format", form, "--out", str(out)]).exit_code == 0
    ran = invoke(main_group, ["import", str(out / file), "--format", form, "--out", str(back)])
    assert ran.exit_code == 0, ran.output
    ours, theirs = (analysis.summarise(analysis.load(place)).levels[0] for place in (folder, back))
    assert theirs.latencies.ttft_ms.mean == pytest.approx(ours.latencies.ttft_ms.mean, abs=1e-3)
    assert theirs.latencies.itl_ms.max == pytest.approx(ours.latencies.itl_ms.max, abs=1e-3)
    assert theirs.latencies.tpot_ms.mean == pytest.approx(ours.latencies.tpot_ms.mean, abs=1e-3)
    assert (theirs.counts.success, theirs.counts.failure) == (2, 1)
    assert theirs.tokens.output_tokens == ours.tokens.output_tokens
    assert any(f"imported from {form}" in r.text for r in analysis.summarise(analysis.load(back)).verdict.reasons)


def test_an_older_vllm_result_without_start_times_gives_latencies(tmp_path):
    file = tmp_path / "old.json"
    file.write_text(json.dumps({"ttfts": [0.1], "itls": [[0.01]], "output_lens": [2], "model_id": "m"}))
    loaded = analysis.load(importing.import_run(file, "vllm", tmp_path / "run"))
    assert analysis.summarise(loaded).levels[0].latencies.ttft_ms.mean == 100
    assert loaded.info["model"] == "m"


def genai_event(delta):
    return {"response": "data: " + json.dumps({"choices": [{"delta": delta}]})}


def test_genai_perf_times_only_events_with_text(tmp_path):
    file = tmp_path / "profile_export.json"
    events = [
        (5, genai_event({"role": "assistant", "content": ""})),
        (100, genai_event({"content": "a"})),
        (120, genai_event({"reasoning_content": "b"})),
        (121, {"response": 'data: {"choices":[],"usage":{"completion_tokens":2}}'}),
        (130, {"response": "data: [DONE]"}),
    ]
    start = 1_750_000_000_000_000_000
    request = {
        "timestamp": start,
        "response_timestamps": [start + at * 1_000_000 for at, _ in events],
        "response_outputs": [event for _, event in events],
    }
    file.write_text(
        json.dumps({"experiments": [{"experiment": {"mode": "concurrency", "value": 4}, "requests": [request]}]})
    )
    loaded = analysis.load(importing.import_run(file, "genai-perf", tmp_path / "run"))
    level = analysis.summarise(loaded).levels[0]
    assert (level.requested, level.latencies.ttft_ms.mean, level.latencies.e2e_ms.mean) == (4, 100, 130)
    assert level.latencies.itl_ms.mean == 20


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"ttfts": [1]}', "not json"])
def test_a_file_that_is_something_else_is_one_clear_line(tmp_path, text):
    file = tmp_path / "x.json"
    file.write_text(text)
    with pytest.raises(RunError, match="does not look like a vllm result"):
        importing.import_run(file, "vllm", tmp_path / "run")


def test_an_import_overwrites_nothing(run, tmp_path):
    folder = run.write()
    (tmp_path / "x.json").write_text("{}")
    with pytest.raises(RunError, match="is not empty"):
        importing.import_run(tmp_path / "x.json", "vllm", folder)
