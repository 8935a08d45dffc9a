"""What --set lays over a scenario file."""

import pytest

from scenarios.spec import load_scenario
from tests.support.scenario_files import faults_of, write


@pytest.fixture
def plain(tmp_path):
    return write(tmp_path, 'name = "plain"\n')


def test_overrides_reach_every_kind_of_key(plain):
    scenario = load_scenario(
        plain,
        [
            "load.levels=1,2,4",
            "load.measure_s=2",
            "workload.output.tokens=64",
            "workload.inputs=128:0.5,512:0.25",
            'engine.model="x"',
            "engine.api=completions",
            "engine.practice=--speed,10",
            "engine.timeouts.total_s=9.5",
            "slo.ttft_ms=500",
        ],
    )
    assert scenario.load.levels == (1, 2, 4)
    assert scenario.load.measure_s == 2.0
    assert scenario.workload.output.tokens == 64
    assert [(each.tokens, each.weight) for each in scenario.workload.inputs] == [(128, 0.5), (512, 0.25)]
    assert (scenario.engine.model, scenario.engine.api) == ("x", "completions")
    assert scenario.engine.practice == ("--speed", "10")
    assert scenario.engine.timeouts.total_s == 9.5
    assert scenario.slo is not None
    assert scenario.slo.ttft_ms == 500.0


def test_one_value_is_a_list_of_one(plain):
    scenario = load_scenario(plain, ["load.levels=8", "workload.inputs=300"])
    assert scenario.load.levels == (8,)
    assert [each.tokens for each in scenario.workload.inputs] == [300]


def test_an_override_reaches_into_a_list_by_index(tmp_path):
    source = write(tmp_path, 'name = "x"\n[workload]\ninputs = [{tokens = 1}, {tokens = 2}]')
    scenario = load_scenario(source, ["workload.inputs[1].tokens=20", "workload.inputs.0.weight=3"])
    assert [(each.tokens, each.weight) for each in scenario.workload.inputs] == [(1, 3.0), (20, 1.0)]


def test_values_keep_their_json_types_and_quoted_ones_stay_text(plain):
    body = [
        "workload.extra_body.ignore_eos=true",
        "workload.extra_body.min_tokens=64",
        "workload.extra_body.temperature=0.5",
        "workload.extra_body.stop=null",
        'workload.extra_body.tag="7"',
        'workload.extra_body.guided={"regex": "a+"}',
        "workload.extra_body.due=2026-01-01",
        "workload.extra_body.words=alpha,beta",
    ]
    assert load_scenario(plain, body).workload.extra_body == {
        "ignore_eos": True,
        "min_tokens": 64,
        "temperature": 0.5,
        "stop": None,
        "tag": "7",
        "guided": {"regex": "a+"},
        "due": "2026-01-01",
        "words": ["alpha", "beta"],
    }


def test_a_later_override_wins(plain):
    assert load_scenario(plain, ["load.levels=1", "load.levels=2"]).load.levels == (2,)


def test_faults_of_overrides_are_told_together_with_those_of_the_file(tmp_path):
    source = write(tmp_path, 'name = "x"\nfoo = 1\n[load]\nlevels = [1]')
    assert sorted(faults_of(source, ["load.level=1,2", "nokey", "load.levels[4]=3", "name.first=x"])) == sorted(
        [
            "--set nokey: expected key=value, for example load.levels=1,2,4",
            "--set load.levels[4]: load.levels has 1 items, counted from 0",
            "--set name.first: name is not a table",
            "--set: load.level: unknown key; did you mean load.levels?",
            f"{source}: foo: unknown key; known here: name, description, seed, engine, workload, load, slo, recording, report",
        ]
    )
