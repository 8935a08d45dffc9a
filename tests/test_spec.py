"""Scenario files: what they may say, and what is told about faulty ones."""

import json

import pytest

from scenarios.spec import LengthSpec, Scenario, load_scenario, shipped_scenarios
from tests.support.scenario_files import faults_of, write

NAME_RULE = "letters, digits, '.', '_' and '-' only, a letter or digit first"


@pytest.fixture
def plain(tmp_path):
    return write(tmp_path, 'name = "plain"\n')


@pytest.mark.parametrize("name", shipped_scenarios())
def test_every_shipped_scenario_loads_by_its_name_and_is_named_like_its_file(name):
    scenario = load_scenario(name)
    assert scenario.name == name
    assert scenario.description


def test_the_shipped_scenarios_are_found_by_file_name_too():
    assert load_scenario("demo.toml").name == "demo"
    assert {"demo", "mixed-chat", "fixed-512-256", "soak"} <= set(shipped_scenarios())


def test_a_name_alone_is_a_whole_scenario_with_the_default_mix(plain):
    workload = load_scenario(plain).workload
    assert [(each.tokens, each.weight) for each in workload.inputs] == [(128, 0.5), (512, 0.3), (2048, 0.2)]
    assert workload.output.tokens == 256


def test_the_classic_table_is_what_its_name_says():
    scenario = load_scenario("fixed-512-256")
    assert scenario.load.levels == (1, 2, 4, 8, 16, 32)
    assert [each.tokens for each in scenario.workload.inputs] == [512]
    assert scenario.workload.output.tokens == 256


def test_a_scenario_survives_the_way_to_run_json_and_to_the_workers():
    for name in shipped_scenarios():
        scenario = load_scenario(name, ["workload.extra_body.temperature=0.5", "engine.headers.X-Team=blue"])
        on_the_wire = json.dumps(scenario.model_dump(mode="json"))
        assert Scenario.model_validate(json.loads(on_the_wire)) == scenario


def test_two_runs_draw_different_seeds_unless_one_is_set(plain):
    assert load_scenario(plain).seed != load_scenario(plain).seed
    assert load_scenario(plain, ["seed=7"]).seed == 7


def test_all_faults_are_told_at_once_with_file_key_value_and_expectation(tmp_path):
    source = write(
        tmp_path,
        """
        name = "three faults"
        [load]
        levels = [1, 0, "4"]
        warmpu_s = 5
        [workload]
        ignore_eos = "yes"
        inputs = [{ tokens = 128, weight = -1 }]
        """,
    )
    assert sorted(faults_of(source)) == sorted(
        [
            f'{source}: name: found "three faults", expected {NAME_RULE}',
            f"{source}: load.levels[1]: found 0, expected a number above 0",
            f'{source}: load.levels[2]: found "4", expected a whole number',
            f"{source}: load.warmpu_s: unknown key; did you mean load.warmup_s?",
            f'{source}: workload.ignore_eos: found "yes", expected true or false',
            f"{source}: workload.inputs[0].weight: found -1, expected a number of at least 0",
        ]
    )


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "name: missing; it has to be set"),
        ('name = "x"\nlevels = [1]', "levels: unknown key; did you mean load.levels?"),
        (
            'name = "x"\n[slo]\nfoo_bar = 1\nttft_ms = 1',
            "slo.foo_bar: unknown key; known here: ttft_ms, tpot_ms, e2e_ms, attainment",
        ),
        ('name = "x"\nload = 3', "load: found 3, expected a table"),
        (
            'name = "x"\n[load]\nmode = "rates"',
            "load.mode: found \"rates\", expected 'concurrency', 'rate', 'trace', 'batch' or 'search'",
        ),
        (
            'name = "x"\n[load]\nlevels = []',
            "load.levels: found an empty list, expected at least one concurrency, for example [1, 2, 4]",
        ),
        ('name = "x"\n[load]\nlevels = [true]', "load.levels[0]: found true, expected a whole number"),
        ('name = "x"\n[load]\nlevels = [1.5]', "load.levels[0]: found 1.5, expected a whole number"),
        ('name = "x"\n[load]\nramp_s = nan', "load.ramp_s: found NaN, expected a finite number"),
        (
            'name = "x"\n[load]\nmeasure_s = 0',
            "load.measure_requests: found 0 with measure_s = 0, expected one of them above 0",
        ),
        (
            'name = "x"\n[load]\nmeasure_max_s = 3',
            "load.measure_max_s: found 3, expected at least measure_s (30)",
        ),
        (
            'name = "x"\n[slo]\nattainment = 0.9',
            "slo.attainment: no limit to attain, expected at least one of ttft_ms, tpot_ms, e2e_ms",
        ),
        ('name = "x"\n[slo]\nttft_ms = 1\nattainment = 95', "slo.attainment: found 95, expected a number of at most 1"),
        (
            'name = "x"\n[workload]\ninputs = []',
            "workload.inputs: found an empty list, expected at least one prompt length",
        ),
        (
            'name = "x"\n[workload]\ninputs = [{tokens = 5, weight = 0}]',
            "workload.inputs: found weights that sum up to 0, expected at least one above 0",
        ),
        (
            'name = "x"\n[workload]\noutput = {distribution = "uniform", min = 9, max = 3}',
            "workload.output.min: found 9, expected at most max (3)",
        ),
        (
            'name = "x"\n[workload]\noutput = {distribution = "normal", mean = 9}',
            "workload.output.stddev: missing; distribution 'normal' needs it",
        ),
        (
            'name = "x"\n[workload]\noutput = {tokens = 9, mean = 3}',
            "workload.output.mean: not used with distribution 'fixed'",
        ),
        (
            'name = "x"\n[workload]\noutput = {distribution = "lognormal", sigma = 1}',
            "workload.output.median: distribution 'lognormal' needs either median or mean",
        ),
        ('name = "x"\n[workload]\noutput = 0', "workload.output.tokens: found 0, expected a number above 0"),
    ],
)
def test_a_fault_names_its_key_and_what_is_expected(tmp_path, text, fault):
    source = write(tmp_path, text)
    assert faults_of(source) == [f"{source}: {fault}"]


def test_faults_of_values_do_not_hide_those_of_their_combination(tmp_path):
    source = write(
        tmp_path,
        """
        name = "x"
        [workload]
        output = { distribution = "normal", mean = "long", tokens = 5, colour = 1 }
        [load]
        measure_s = 0
        tail_s = -1
        """,
    )
    assert sorted(faults_of(source)) == sorted(
        [
            f'{source}: workload.output.mean: found "long", expected a number',
            f"{source}: workload.output.stddev: missing; distribution 'normal' needs it",
            f"{source}: workload.output.tokens: not used with distribution 'normal'",
            f"{source}: workload.output.colour: unknown key; known here: {', '.join(LengthSpec.model_fields)}",
            f"{source}: load.tail_s: found -1, expected a number of at least 0",
            f"{source}: load.measure_requests: found 0 with measure_s = 0, expected one of them above 0",
        ]
    )


def test_invalid_toml_is_told_with_its_line(tmp_path):
    (fault,) = faults_of(write(tmp_path, 'name = "x"\n[load\n'))
    assert "my.toml: not valid TOML" in fault
    assert "line 2" in fault


def test_a_file_that_is_not_there_is_told_with_the_name_that_was_meant():
    assert faults_of("mixed-chta") == ["mixed-chta: no such scenario file; did you mean mixed-chat?"]
    assert faults_of("no/where.toml")[0].startswith("no/where.toml: no such scenario file; shipped ones: ")


def test_a_file_that_is_not_text_is_one_clear_fault(tmp_path):
    path = tmp_path / "my.toml"
    path.write_bytes(b"name = '\xff'")
    assert faults_of(str(path)) == [f"{path}: not UTF-8 text at byte 8"]


def test_a_byte_order_mark_does_no_harm(tmp_path):
    path = tmp_path / "my.toml"
    path.write_bytes(b'\xef\xbb\xbfname = "x"')
    assert load_scenario(str(path)).name == "x"


@pytest.mark.parametrize("header", ["Authorization", "X-Api-Key", "api-key", "X-Auth-Token", "Cookie", "client-secret"])
def test_a_secret_is_named_by_its_variable_and_never_written_out(plain, header):
    override = f"engine.headers.{header}=Bearer sk-12345"
    (fault,) = faults_of(plain, [override])
    expected = 'found a secret written out, expected the name of a variable, such as "$MY_KEY"'
    assert fault == f"--set: engine.headers.{header}: {expected}"
    named = load_scenario(plain, [f"engine.headers.{header}=Bearer $MY_KEY"])
    assert named.engine.headers == {header: "Bearer $MY_KEY"}


def test_a_prompt_that_leaves_no_room_for_its_answer_is_refused_with_what_fits(plain):
    # 32768 - 400 = 32368
    overrides = ["workload.context_tokens=32768", "workload.inputs=32758", "workload.output=400"]
    (fault,) = faults_of(plain, overrides)
    assert fault.startswith(
        "--set: workload.context_tokens: found 32768, but inputs[0] may be 32758 prompt + 400 output"
    )
    assert fault.endswith("at most 32368 prompt tokens fit")
    overrides[1] = "workload.inputs=32368"
    assert load_scenario(plain, overrides).workload.context_tokens == 32768


def test_a_class_is_judged_by_its_own_answer_length(plain):
    overrides = ["workload.context_tokens=1000", "workload.inputs=[{tokens=900, output={tokens=100}}]"]
    assert load_scenario(plain, overrides).workload.inputs[0].output is not None
    overrides[1] = "workload.inputs=[{tokens=900, output={tokens=101}}]"
    assert "at most 899 prompt tokens fit" in faults_of(plain, overrides)[0]


def test_a_shared_beginning_counts_for_the_context(plain):
    overrides = ["workload.context_tokens=1000", "workload.inputs=100", "workload.output=100"]
    prefix = ["workload.prefix.pool=1", "workload.prefix.tokens=801"]
    assert "at most 900 prompt tokens fit" in faults_of(plain, overrides + prefix)[0]
