"""The [load] table: what each mode needs and does not use, told all at once."""

import json

import pytest

from scenarios.spec import Scenario, ScenarioError, load_scenario

HEAD = 'name = "x"\n'


def write(folder, text):
    path = folder / "my.toml"
    path.write_text(HEAD + text)
    return str(path)


def faults_of(folder, text, overrides=()):
    source = write(folder, text)
    with pytest.raises(ScenarioError) as caught:
        load_scenario(source, list(overrides))
    return [fault.removeprefix(f"{source}: ") for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ('[load]\nmode = "rate"', ["load.rates: missing; mode 'rate' needs at least one, for example [2, 4, 8]"]),
        ("[load]\nrates = [1]", ["load.rates: not used with mode 'concurrency', only with 'rate'"]),
        ('[load]\nmode = "batch"', ["load.requests: missing; mode 'batch' needs the number of requests"]),
        (
            '[load]\nmode = "batch"\nrequests = 5\nlevels = [3]\nmeasure_s = 7\nwhen_full = "drop"',
            [
                "load.max_in_flight: missing; when_full 'drop' needs it",
                "load.levels: not used with mode 'batch', only with 'concurrency'",
                "load.measure_s: not used with mode 'batch'",
                "load.when_full: not used with mode 'batch'",
            ],
        ),
        (
            '[load]\nmode = "rate"\nrates = [1, -2]\narrivals = "gamma"\nwhen_full = "drop"\nthink_time_s = 1',
            [
                "load.rates[1]: found -2, expected a number above 0",
                "load.burstiness: missing; arrivals 'gamma' needs it",
                "load.max_in_flight: missing; when_full 'drop' needs it",
                "load.think_time_s: not used with mode 'rate'",
            ],
        ),
        (
            '[load]\nmode = "rate"\nrates = [1]\nburstiness = 2',
            ["load.burstiness: not used with arrivals 'poisson', only with 'gamma'"],
        ),
        (
            '[load]\nmode = "trace"',
            ['load.mode: found "trace" without [workload.trace], expected the file to send'],
        ),
        (
            '[load]\nmode = "search"',
            [
                "load.search: missing; mode 'search' needs the table [load.search]",
            ],
        ),
        (
            '[load]\nmode = "search"\n[load.search]\nstart = 0.5',
            [
                "load.search.start: found 0.5, expected a whole number of requests in flight",
                "load.search.start: found 0.5, expected between lowest (1) and highest (1024)",
            ],
        ),
        (
            '[load]\nmode = "search"\n[load.search]\nover = "rate"\nmin_runs = 3\nmax_runs = 2',
            ["load.search.max_runs: found 2, expected at least min_runs (3)"],
        ),
        ('[load]\nmode = "search"\n[load.search]', ["slo: missing; load.mode 'search' needs the limits to search for"]),
        (
            '[load]\nmode = "rate"\nrates = 5\n[workload.conversation]\nturns = 2',
            [
                'workload.conversation: needs the users of load.mode = "concurrency": who asks on has to wait for the answer'
            ],
        ),
        (
            '[load]\nmode = "rate"\nrates = 5\n[engine]\nspread = "per-user"',
            ['engine.spread: found "per-user", but only load.mode = "concurrency" has users'],
        ),
        (
            "[workload.cancel]\nshare = 0.5",
            ["workload.cancel.after_ms: found neither of after_tokens and after_ms, expected one of them"],
        ),
        (
            "[workload.cancel]\nshare = 0\nafter_tokens = 5\nafter_ms = 5",
            [
                "workload.cancel.share: found 0, expected a number above 0",
                "workload.cancel.after_ms: found both of after_tokens and after_ms, expected one of them",
            ],
        ),
    ],
)
def test_each_mode_says_what_it_needs_and_what_it_does_not_use(tmp_path, text, faults):
    assert sorted(faults_of(tmp_path, text)) == sorted(faults)


def test_another_mode_on_the_command_line_drops_what_the_file_says_for_its_own(tmp_path):
    source = write(tmp_path, "[load]\nlevels = [5]\nthink_time_s = 2.0\nmeasure_s = 9.0\n")
    load = load_scenario(source, ["load.mode=rate", "load.rates=3"]).load
    assert (load.mode, load.rates, load.measure_s, load.think_time_s) == ("rate", (3.0,), 9.0, 0.0)
    # but what the command line itself says is held against its mode
    overrides = ["load.mode=rate", "load.rates=3", "load.levels=4"]
    assert faults_of(tmp_path, "", overrides) == [
        "--set: load.levels: not used with mode 'rate', only with 'concurrency'"
    ]


@pytest.mark.parametrize(
    ("overrides", "open_loop", "over"),
    [
        ([], False, "concurrency"),
        (["load.mode=rate", "load.rates=1"], True, "rate"),
        (["load.mode=batch", "load.requests=1"], True, "batch"),
        (["load.mode=search", "load.search={}", "slo.ttft_ms=1"], False, "concurrency"),
        (["load.mode=search", 'load.search={over = "rate"}', "slo.ttft_ms=1"], True, "rate"),
    ],
)
def test_what_the_levels_are_follows_from_the_mode(tmp_path, overrides, open_loop, over):
    scenario = load_scenario(write(tmp_path, ""), overrides)
    assert (scenario.load.open_loop, scenario.load.over) == (open_loop, over)
    on_the_wire = json.dumps(scenario.model_dump(mode="json"))
    assert Scenario.model_validate(json.loads(on_the_wire)) == scenario


def test_images_need_a_folder_with_images_and_the_chat_api(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    (fault,) = faults_of(tmp_path, '[workload.images]\nfolder = "empty"')
    assert fault.startswith(f"workload.images.folder: no images in {empty}")
    (fault,) = faults_of(tmp_path, '[workload.images]\nfolder = "nowhere"')
    assert fault.startswith("workload.images.folder: no such folder: nowhere")
    (empty / "a.png").write_bytes(b"png")
    text = '[engine]\napi = "completions"\n[workload.images]\nfolder = "empty"'
    assert faults_of(tmp_path, text) == ["workload.images: not used with engine.api 'completions', only with 'chat'"]
