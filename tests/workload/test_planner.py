"""A worker's requests are those that the scenario describes."""

from collections import Counter

import pytest

from scenarios.spec import ConversationSpec, InputSpec, LengthSpec, WorkloadSpec
from scenarios.workload.planner import Workload


def requests(spec: WorkloadSpec, n: int, seed: int = 1, worker: int = 0):
    workload = Workload(spec, seed, worker)
    return [workload.next_request() for _ in range(n)]


def test_the_default_mix_keeps_its_shares_within_two_percent():
    counts = Counter(each.length_class for each in requests(WorkloadSpec(), 5000))
    assert counts["128"] == pytest.approx(2500, rel=0.02)
    assert counts["512"] == pytest.approx(1500, rel=0.02)
    assert counts["2048"] == pytest.approx(1000, rel=0.02)


def test_every_prompt_has_the_length_of_its_class():
    for each in requests(WorkloadSpec(), 100):
        assert each.input_tokens_requested == int(each.length_class)
        assert len(each.prompt.replace(".", " .").split()) == each.input_tokens_requested


def test_a_hundred_requests_are_a_hundred_different_prompts():
    assert len({each.prompt for each in requests(WorkloadSpec(), 100)}) == 100


def test_two_workers_and_two_seeds_send_different_prompts():
    prompts = [
        {each.prompt for each in requests(WorkloadSpec(), 100, seed, worker)}
        for seed, worker in [(1, 0), (1, 1), (2, 0)]
    ]
    assert not (prompts[0] & prompts[1] or prompts[0] & prompts[2] or prompts[1] & prompts[2])


def test_the_same_seed_sends_the_same_requests():
    spec = WorkloadSpec(output=LengthSpec(distribution="normal", mean=100, stddev=30))
    assert requests(spec, 50, seed=7) == requests(spec, 50, seed=7)


def test_what_is_asked_of_the_engine_reaches_the_request():
    spec = WorkloadSpec(output=LengthSpec(tokens=33), ignore_eos=False, extra_body={"temperature": 0.0})
    (request,) = requests(spec, 1)
    assert (request.max_tokens, request.ignore_eos, request.extra_body) == (33, False, {"temperature": 0.0})
    assert request.messages is None


def test_a_system_prompt_is_its_own_message_and_leads_a_plain_prompt():
    (request,) = requests(WorkloadSpec(inputs=(InputSpec(tokens=5),), system_prompt="Be brief."), 1)
    assert request.messages is not None
    system, user = request.messages
    assert system == {"role": "system", "content": "Be brief."}
    assert user["role"] == "user"
    assert request.prompt == f"Be brief.\n\n{user['content']}"


def test_a_class_may_have_answers_of_its_own():
    spec = WorkloadSpec(
        inputs=(InputSpec(tokens=100, output=LengthSpec(tokens=9)), InputSpec(tokens=200)), output=LengthSpec(tokens=50)
    )
    lengths = {(each.length_class, each.max_tokens) for each in requests(spec, 100)}
    assert lengths == {("100", 9), ("200", 50)}


def test_prompt_and_answer_never_exceed_the_context():
    spec = WorkloadSpec(
        inputs=(InputSpec(distribution="lognormal", median=800, sigma=1.0),),
        output=LengthSpec(distribution="normal", mean=300, stddev=200),
        context_tokens=1024,
    )
    workload = Workload(spec, seed=1, worker=0)
    for _ in range(2000):
        request = workload.next_request()
        assert request.input_tokens_requested is not None
        assert request.max_tokens is not None
        assert request.input_tokens_requested >= 1
        assert request.max_tokens >= 1
        assert request.input_tokens_requested + request.max_tokens <= 1024
    counts = workload.counts()
    assert counts["lengths_drawn"] == 4000
    assert 0 < counts["lengths_cut"] < 4000


def test_the_planned_instant_is_passed_on():
    assert Workload(WorkloadSpec(), 1, 0).next_request(planned_s=12.5).planned_s == 12.5


def test_models_are_asked_by_their_weights_and_the_body_says_which():
    spec = WorkloadSpec(models={"base": 3, "lora-a": 1}, extra_body={"top_p": 0.9})
    bodies = [each.extra_body for each in requests(spec, 400)]
    assert Counter(body["model"] for body in bodies) == {"base": 300, "lora-a": 100}
    assert all(body["top_p"] == 0.9 for body in bodies)


def test_a_conversation_stays_with_its_model():
    conversation = ConversationSpec(turns=LengthSpec(tokens=4))
    user = Workload(WorkloadSpec(models={"a": 1, "b": 1}, conversation=conversation), 1, 0).for_user()
    models = []
    for _ in range(40):
        request = user.next_request()
        models.append(request.extra_body["model"])
        user.answered(request, "Yes.", None)
    assert all(len(set(models[turn : turn + 4])) == 1 for turn in range(0, 40, 4))
    assert set(models) == {"a", "b"}
