"""The files that a scenario names: where they are looked for, and what is read from them at once."""

from scenarios.spec import Scenario, load_scenario
from tests.support.scenario_files import faults_of, write


def test_a_data_file_is_found_beside_the_scenario_and_named_in_full(tmp_path):
    (tmp_path / "rows.jsonl").write_text('{"prompt": "hi"}\n')
    source = write(tmp_path, 'name = "x"\n[workload.dataset]\nfile = "rows.jsonl"')
    scenario = load_scenario(source)
    assert scenario.workload.dataset is not None
    assert scenario.workload.dataset.file == str(tmp_path / "rows.jsonl")
    # a worker takes the scenario as it is, wherever it runs
    assert Scenario.model_validate(scenario.model_dump(mode="json")) == scenario


def test_a_data_file_that_is_not_there_is_a_fault_of_the_scenario(tmp_path):
    source = write(tmp_path, 'name = "x"\n[workload.trace]\nfile = "no.jsonl"')
    (fault,) = faults_of(source)
    assert fault.startswith(f"{source}: workload.trace.file: no such file: no.jsonl (looked in ")


def test_requests_have_one_source(tmp_path):
    (tmp_path / "a.jsonl").write_text("")
    expected = "expected one of inputs (with its options), dataset, trace"
    dataset = '[workload.dataset]\nfile = "a.jsonl"\n'
    source = write(tmp_path, f'name = "x"\n{dataset}[workload.trace]\nfile = "a.jsonl"')
    assert faults_of(source) == [f"{source}: workload.trace: found beside dataset, {expected}"]
    source = write(tmp_path, f'name = "x"\n{dataset}[workload.prefix]\npool = 1\ntokens = 5')
    assert faults_of(source) == [f"{source}: workload.dataset: found beside prefix, {expected}"]
    source = write(tmp_path, f'name = "x"\n[workload]\ninputs = [5]\n{dataset}')
    assert faults_of(source) == [f"{source}: workload.dataset: found beside inputs, {expected}"]


def test_a_trace_is_repeated_only_with_a_known_length(tmp_path):
    (tmp_path / "a.jsonl").write_text("")
    source = write(tmp_path, 'name = "x"\n[workload.trace]\nfile = "a.jsonl"\nrepeat = true')
    assert "workload.trace.repeat: found true without length_s" in faults_of(source)[0]
    assert load_scenario(source, ["workload.trace.length_s=60"]).workload.trace is not None


def test_empirical_lengths_are_read_once_and_travel_with_the_scenario(tmp_path):
    (tmp_path / "lengths.txt").write_text("300\n100\n\n200\n")
    source = write(
        tmp_path, 'name = "x"\n[workload]\noutput = {distribution = "empirical", file = "lengths.txt", max = 250}'
    )
    scenario = load_scenario(source)
    assert scenario.workload.output.values == (100, 200, 300)
    (tmp_path / "lengths.txt").unlink()
    assert Scenario.model_validate(scenario.model_dump(mode="json")) == scenario


def test_many_empirical_lengths_are_thinned_to_evenly_spaced_quantiles(tmp_path):
    (tmp_path / "lengths.txt").write_text("".join(f"{n}\n" for n in range(1, 100_001)))
    source = write(tmp_path, 'name = "x"\n[workload]\noutput = {distribution = "empirical", file = "lengths.txt"}')
    values = load_scenario(source).workload.output.values
    assert values is not None
    # the middle of each of 1000 groups of 100
    assert values[:3] == (51, 151, 251)
    assert (len(values), values[-1]) == (1000, 99_951)


def test_a_faulty_length_is_told_with_its_line(tmp_path):
    (tmp_path / "lengths.txt").write_text("300\nabc\n")
    source = write(tmp_path, 'name = "x"\n[workload]\noutput = {distribution = "empirical", file = "lengths.txt"}')
    (fault,) = faults_of(source)
    assert fault.endswith("lengths.txt line 2: found 'abc', expected a length of at least 1")
