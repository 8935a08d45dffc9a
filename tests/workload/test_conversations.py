"""Conversations: the history grows by what was really said."""

from collections import Counter

import pytest

from scenarios.spec import ConversationSpec, InputSpec, LengthSpec, PrefixSpec, WorkloadSpec
from scenarios.workload.planner import Workload


def user(turns=3, **spec):
    spec.setdefault("inputs", (InputSpec(tokens=20),))
    conversation = ConversationSpec(turns=LengthSpec(tokens=turns), later_input=spec.pop("later_input", None))
    return Workload(WorkloadSpec(conversation=conversation, **spec), seed=1, worker=0).for_user()


def roles(request):
    return [each["role"] for each in request.messages]


def test_each_turn_carries_all_questions_and_answers_before_it():
    plan = user(turns=3, output=LengthSpec(tokens=9))
    first = plan.next_request()
    assert roles(first) == ["user"]
    assert (first.length_class, first.input_tokens_requested, first.max_tokens) == ("turn 1", 20, 9)
    plan.answered(first, "Hello.", None)
    second = plan.next_request()
    assert roles(second) == ["user", "assistant", "user"]
    assert second.messages[:2] == [*first.messages, {"role": "assistant", "content": "Hello."}]
    assert second.length_class == "turn 2+"
    assert second.input_tokens_requested is None  # it depends on the answers
    plan.answered(second, "Well.", None)
    third = plan.next_request()
    assert roles(third) == ["user", "assistant"] * 2 + ["user"]
    assert third.messages[3]["content"] == "Well."


def test_a_request_that_was_sent_does_not_change_by_what_follows():
    plan = user()
    first = plan.next_request()
    plan.answered(first, "Hello.", None)
    plan.next_request()
    assert len(first.messages) == 1


def test_after_the_last_turn_another_conversation_begins():
    plan = user(turns=2)
    seen = []
    for _ in range(6):
        request = plan.next_request()
        seen.append(request)
        plan.answered(request, "Yes.", None)
    assert [each.length_class for each in seen] == ["turn 1", "turn 2+"] * 3
    assert len({each.messages[0]["content"] for each in seen}) == 3


@pytest.mark.parametrize("answer", [None, ""])
def test_a_failed_turn_ends_the_conversation(answer):
    plan = user(turns=5)
    first = plan.next_request()
    plan.answered(first, answer, None)
    second = plan.next_request()
    assert second.length_class == "turn 1"
    assert second.messages[0] != first.messages[0]


def test_two_users_have_conversations_of_their_own():
    workload = Workload(WorkloadSpec(conversation=ConversationSpec(turns=LengthSpec(tokens=3))), seed=1, worker=0)
    one, two = workload.for_user(), workload.for_user()
    first, other = one.next_request(), two.next_request()
    assert first.messages != other.messages
    one.answered(first, "to one", None)
    two.answered(other, "to two", None)
    assert [(each.messages or [])[1]["content"] for each in (one.next_request(), two.next_request())] == [
        "to one",
        "to two",
    ]


def test_later_questions_may_have_a_length_of_their_own():
    plan = user(turns=2, inputs=(InputSpec(tokens=300),), later_input=LengthSpec(tokens=7))
    first = plan.next_request()
    plan.answered(first, "Yes.", None)
    second = plan.next_request()
    assert len(first.prompt.replace(".", " .").split()) == 300
    assert len(second.messages[-1]["content"].split()) == 7


def test_turns_follow_their_distribution():
    conversation = ConversationSpec(turns=LengthSpec(distribution="uniform", min=1, max=3))
    plan = Workload(WorkloadSpec(conversation=conversation), seed=1, worker=0).for_user()
    lengths: Counter[int] = Counter()
    turns = 0
    for _ in range(3000):
        request = plan.next_request()
        if request.length_class == "turn 1" and turns:
            lengths[turns] += 1
            turns = 0
        turns += 1
        plan.answered(request, "Yes.", None)
    assert set(lengths) == {1, 2, 3}
    assert min(lengths.values()) == pytest.approx(500, rel=0.2)


def test_a_conversation_ends_before_it_outgrows_the_context():
    plan = user(turns=100, output=LengthSpec(tokens=10), context_tokens=100)
    longest = 0
    for _ in range(20):
        request = plan.next_request()
        longest = max(longest, len(request.messages))
        assert sum(len(each["content"].replace(".", " .").split()) for each in request.messages) + 10 <= 100
        plan.answered(request, "word " * 10, None)
    # 20 + 10 + 20 + 10 + 20 and 10 for the answer fit, 30 more do not
    assert longest == 5


def test_system_prompt_and_shared_beginning_stand_once_at_the_start():
    plan = user(turns=2, system_prompt="Be brief.", prefix=PrefixSpec(pool=1, tokens=30))
    first = plan.next_request()
    plan.answered(first, "Yes.", None)
    second = plan.next_request()
    assert roles(second) == ["system", "user", "assistant", "user"]
    assert len(first.messages[1]["content"].replace(".", " .").split()) == 50
    assert len(second.messages[3]["content"].replace(".", " .").split()) == 20


def test_without_conversations_users_share_the_workers_requests():
    spec = WorkloadSpec()
    workload, same = Workload(spec, 1, 0), Workload(spec, 1, 0)
    one, two = workload.for_user(), workload.for_user()
    assert [one.next_request(), two.next_request()] == [same.next_request(), same.next_request()]
