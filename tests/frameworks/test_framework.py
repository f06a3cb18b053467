"""One framework's agent, the example as it stands, in every way that a call can end.

The framework is what APPROVER_FRAMEWORK names.
"""

import asyncio
import importlib
import inspect
import os

import desk
import pytest
from conftest import Person, Running

framework = os.environ.get("APPROVER_FRAMEWORK")
if framework is None:
    pytest.skip("APPROVER_FRAMEWORK names no framework", allow_module_level=True)
agent = importlib.import_module(f"{framework}_agent")


@pytest.fixture(autouse=True)
def nothing_ran():
    desk.ran.clear()


def start(service, token, *calls, **gate):
    """Runs the agent, whose model makes these calls, in a thread of its own."""

    def work():
        told = agent.run(calls, service.aap, token, **gate)
        return asyncio.run(told) if inspect.isawaitable(told) else told

    return Running(work)


def credit(customer):
    """A call that the judge hands to a person."""
    return "credit_add", {"customer": customer, "euros": 50}


def decider(person, status, customer):
    """Who decided the only call about the customer."""
    (approval,) = person.approvals(status, customer)
    return approval["decision"]["decided_by"]


def test_approved_by_policy(service, token, judge, person, customer):
    call = ("orders_list", {"customer": customer})
    before = len(judge.asked)
    (told,) = start(service, token, call).result()
    assert desk.ran == [call]
    assert f"{customer} has one open order" in told
    assert len(judge.asked) == before
    assert decider(person, "approved", customer) == "policy:allow"


def test_approved_by_the_judge(service, token, judge, person, customer):
    call = ("note_add", {"customer": customer, "text": "delivery on Tuesdays"})
    (told,) = start(service, token, call).result()
    assert desk.ran == [call]
    assert "The note is there." in told
    assert judge.asked[-1] == "note_add"
    assert decider(person, "approved", customer) == "auto:approver"


def test_blocked_by_policy(service, token, person, customer):
    (told,) = start(service, token, ("price_set", {"product": customer, "euros": 1})).result()
    assert desk.ran == []
    assert "policy" in told.lower()
    assert decider(person, "rejected", customer) == "policy:block"


def test_escalated_then_approved_by_a_person(service, token, judge, person, customer):
    running = start(service, token, credit(customer))
    person.approve(customer)
    (told,) = running.result()
    assert judge.asked[-1] == "credit_add"
    assert desk.ran == [credit(customer)]
    assert "has a credit of 50 euros" in told


def test_escalated_then_rejected(service, token, person, customer):
    running = start(service, token, credit(customer), ("orders_list", {"customer": customer}))
    person.reject(customer, "Not this month.")
    told, _ = running.result()
    # The agent goes on, and nothing but the rejected call is missing.
    assert desk.ran == [("orders_list", {"customer": customer})]
    assert "denied this call" in told
    assert "Not this month." in told


def test_what_may_destroy_waits_for_a_person_unseen_by_the_judge(
    service, token, judge, person, customer
):
    call = ("customer_delete", {"customer": customer})
    before = len(judge.asked)
    running = start(service, token, call)
    person.approve(customer)
    running.result()
    assert desk.ran == [call]
    assert len(judge.asked) == before


def test_expired(service, token, person, customer):
    (told,) = start(service, token, credit(customer), timeout="2s").result()
    assert desk.ran == []
    assert "expired" in told
    assert len(person.approvals("expired", customer)) == 1


def test_cancelled(service, token, person, customer):
    # The agent stops waiting long before the deadline, and says so.
    (told,) = start(service, token, credit(customer), timeout="10m", wait_limit=2).result()
    assert desk.ran == []
    assert "not obtained in time" in told
    assert len(person.approvals("cancelled", customer)) == 1


def test_the_service_restarts_in_the_middle(lasting, customer):
    service = lasting.start()
    service.put_agent()
    calls = [("orders_list", {"customer": customer}), credit(customer)]
    running = start(service, service.instance(), *calls)
    Person(service).waiting(customer)
    lasting.stop()
    service = lasting.start()
    Person(service).approve(customer)
    told = running.result()
    assert desk.ran == calls
    assert "has a credit of 50 euros" in told[1]
