"""The package's own client and gate, without a framework."""

import asyncio
import time
import uuid

import pytest
from agentapprovalprotocol import (
    Allow,
    AsyncClient,
    AsyncGate,
    Call,
    Client,
    ConflictError,
    Deny,
    Gate,
    NotFound,
    Pending,
)
from conftest import Running

#: What `orders_list` is called with, where it does not matter.
READ = {"customer": "C-1042"}
#: Numbers and text that must come back as they were sent.
ODD = {"id": 9007199254740993, "x": 1.50, "u": "ä€\u2028𝄞", "deep": [{"no": None}]}


@pytest.fixture
def client(service, token):
    client = Client(service.aap, token, retry_budget=10)
    yield client
    client.close()


def call(tool="orders_list", arguments=READ, **more):
    return Call(key=f"run-{uuid.uuid4()}", tool=tool, arguments=arguments, **more)


def submission(tool="credit_add", timeout="30m", **arguments):
    arguments = arguments or {"customer": "C-1", "euros": 5}
    return {"tool": tool, "arguments": arguments, "timeout": timeout}


def test_a_call_that_policy_allows_runs_and_its_outcome_is_kept(client):
    with Gate(client).guard(call(arguments=ODD)) as verdict:
        assert isinstance(verdict, Allow)
    request = client.get(verdict.request_id)
    assert request.status == "approved"
    assert request.consumption.outcome.status == "succeeded"


def test_a_call_that_failed_says_so(client):
    with pytest.raises(ZeroDivisionError), Gate(client).guard(call()) as verdict:
        raise ZeroDivisionError
    assert client.get(verdict.request_id).consumption.outcome.status == "failed"


def test_an_approval_is_used_once(client):
    once = call()
    assert isinstance(Gate(client).check(once), Allow)
    again = Gate(client).check(once)
    assert isinstance(again, Deny)
    assert again.status == "consumed"


def test_a_repeated_consumption_with_its_key_is_the_same(client):
    request = client.create(submission("orders_list", customer="C-1"), str(uuid.uuid4()))
    key = str(uuid.uuid4())
    first = client.consume(request.id, key)
    assert client.consume(request.id, key).consumption == first.consumption
    with pytest.raises(ConflictError) as refused:
        client.consume(request.id, str(uuid.uuid4()))
    assert refused.value.code == "already_consumed"


def test_what_is_not_approved_is_not_consumed(client):
    request = client.create(submission(), str(uuid.uuid4()))
    with pytest.raises(ConflictError) as refused:
        client.consume(request.id, str(uuid.uuid4()))
    assert refused.value.code == "not_approved"


def test_a_repeated_request_is_the_same(client):
    key, body = str(uuid.uuid4()), submission()
    assert client.create(body, key) == client.create(body, key)


def test_another_request_under_a_used_key_is_a_conflict(client):
    key = str(uuid.uuid4())
    first = client.create(submission(euros=4900), key)
    with pytest.raises(ConflictError) as refused:
        client.create(submission(euros=1), key)
    assert refused.value.code == "idempotency_conflict"
    assert client.get(first.id) == first


def test_a_wait_ends_when_its_time_is_over(client):
    request = client.create(submission(), str(uuid.uuid4()))
    started = time.monotonic()
    assert client.get(request.id, wait=2).status == "pending"
    assert time.monotonic() - started > 1.5


def test_a_wait_ends_when_a_person_decides(client, person, customer):
    request = client.create(submission(customer=customer, euros=5), str(uuid.uuid4()))
    waiting = Running(lambda: client.get(request.id, wait=25))
    time.sleep(0.5)
    started = time.monotonic()
    person.approve(customer)
    assert waiting.result().status == "approved"
    assert time.monotonic() - started < 20


def test_a_cancelled_request_stays_cancelled(client):
    request = client.create(submission(), str(uuid.uuid4()))
    assert client.cancel(request.id).status == "cancelled"
    assert client.cancel(request.id) == client.get(request.id)


def test_a_wait_ends_when_the_request_is_cancelled(client):
    request = client.create(submission(), str(uuid.uuid4()))
    waiting = Running(lambda: client.get(request.id, wait=25))
    time.sleep(0.5)
    client.cancel(request.id)
    assert waiting.result().status == "cancelled"


def test_what_is_decided_cannot_be_cancelled(client):
    request = client.create(submission("orders_list", customer="C-1"), str(uuid.uuid4()))
    with pytest.raises(ConflictError) as refused:
        client.cancel(request.id)
    assert refused.value.code == "already_terminal"


def test_a_request_expires_at_its_deadline(client):
    request = client.create(submission(timeout="1s"), str(uuid.uuid4()))
    assert client.get(request.id, wait=10).status == "expired"


def test_an_unknown_request_is_not_found(client):
    with pytest.raises(NotFound):
        client.get(str(uuid.uuid4()))


def test_another_instances_request_is_not_found(service, client):
    request = client.create(submission(), str(uuid.uuid4()))
    other = Client(service.aap, service.instance())
    with pytest.raises(NotFound):
        other.get(request.id)
    other.close()


def test_a_denial_tells_the_model_why(client):
    verdict = Gate(client).check(call("price_set", {"product": "flour", "euros": 1}))
    assert isinstance(verdict, Deny)
    assert verdict.status == "denied"
    assert "policy" in verdict.reason.lower()


def test_an_asynchronous_call_pauses_until_a_person_approves(service, token, person, customer):
    async def check(paused):
        client = AsyncClient(service.aap, token)
        verdict = await AsyncGate(client, mode="async", timeout="24h").check(paused)
        await client.aclose()
        return verdict

    paused = call("credit_add", {"customer": customer, "euros": 7}, resume={"framework": "test"})
    first = asyncio.run(check(paused))
    assert isinstance(first, Pending)
    person.approve(customer)
    second = asyncio.run(check(paused))
    assert isinstance(second, Allow)
    assert second.request_id == first.request_id
