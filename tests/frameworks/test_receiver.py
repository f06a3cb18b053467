"""The package's own webhook receiver, and what we send it."""

import asyncio
import json
import queue
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from agentapprovalprotocol import AsyncClient, Receiver, WebhookVerificationFailed
from agentapprovalprotocol.receiver import new_secret
from conftest import PATIENCE, Person, environment
from service import Refused, Service


@pytest.fixture(scope="module")
def service(judge):
    """A service that may notify receivers on this machine."""
    env = {**environment(judge), "APPROVER_AAP_ALLOW_LOOPBACK_WEBHOOKS": "true"}
    running = Service.start("--dev", "--listen", "127.0.0.1:0", env=env)
    running.put_agent()
    yield running
    running.stop()


class Listening:
    """The package's receiver on loopback: every delivery goes through it, and none past it."""

    def __init__(self):
        self.woken: queue.Queue = queue.Queue()
        #: What each delivery was, and the status that the receiver answered.
        self.delivered: queue.Queue = queue.Queue()
        self.receiver = Receiver(resumers={"test": self.resume})
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        listening = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                handled = listening.receiver.handle(dict(self.headers.items()), body)
                status, answer = listening.run(handled)
                listening.delivered.put((json.loads(body), status))
                self.send_response(status)
                if answer:
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_):
                """Nothing is logged."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_port}/events"

    def run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE)

    def resume(self, handle, request):
        self.woken.put((handle["run"], request))

    def provision(self, service: Service, **more):
        return self.run(
            self.receiver.provision(
                provider_url=service.aap,
                provisioner_token=service.tokens["provisioner"],
                url=self.url,
                **more,
            )
        )

    def submit(self, run: str, timeout: str = "30m", tool: str = "credit_add", **arguments):
        """A call that waits for a person, of the run that is to be woken."""
        body = {
            "tool": tool,
            "arguments": arguments or {"customer": run, "euros": 5},
            "timeout": timeout,
            "context": {"resume": {"framework": "test", "run": run}},
        }
        return self.run(self.client.create(body, str(uuid.uuid4())))

    @property
    def client(self) -> AsyncClient:
        return self.receiver.client

    def next(self) -> tuple[dict, int]:
        """The next delivery, which may still be on its way."""
        return self.delivered.get(timeout=PATIENCE)

    def stop(self):
        self.server.shutdown()
        self.server.server_close()
        if self.client is not None:
            self.run(self.client.aclose())
        self.loop.call_soon_threadsafe(self.loop.stop)


@pytest.fixture
def listening():
    listening = Listening()
    yield listening
    listening.stop()


@pytest.fixture
def told(service, listening):
    """A receiver with an instance whose requests it hears of."""
    listening.provision(service)
    assert listening.next()[0]["type"] == "webhook.verification"
    return listening


@pytest.fixture
def person(service):
    return Person(service)


def test_the_receiver_accepts_our_challenge(service, listening):
    made = listening.provision(service, instance_name="laptop")
    assert made.instance_name == "laptop"
    challenge, status = listening.next()
    assert (challenge["type"], status) == ("webhook.verification", 200)
    assert challenge["instance_id"] == made.instance_id
    # The same submission again makes nothing new and asks nobody.
    assert listening.provision(service, instance_name="laptop").token == made.token
    assert listening.delivered.empty()


def test_a_receiver_with_another_secret_is_not_verified(service, listening):
    listening.receiver.secret = new_secret()
    listening.receiver.registration_id = str(uuid.uuid4())
    elsewhere = Receiver(
        resumers={}, secret=new_secret(), registration_id=listening.receiver.registration_id
    )
    provisioned = elsewhere.provision(
        provider_url=service.aap,
        provisioner_token=service.tokens["provisioner"],
        url=listening.url,
    )
    with pytest.raises(WebhookVerificationFailed):
        listening.run(provisioned)
    assert listening.next()[1] == 401


def test_a_receiver_of_another_registration_is_not_verified(service, listening):
    listening.receiver.secret = new_secret()
    listening.receiver.registration_id = str(uuid.uuid4())
    delivery = {
        "type": "webhook",
        "url": listening.url,
        "registration_id": str(uuid.uuid4()),
        "signing_secret": listening.receiver.secret,
    }
    with pytest.raises(Refused) as refused:
        service.call("provisioner", "POST", "/aap/v1/instances", {"delivery": delivery})
    assert refused.value.status == 422
    assert listening.next()[1] == 403


def approve(told, person, run):
    person.approve(run)


def reject(told, person, run):
    person.reject(run, "not this one")


def cancel(told, person, run):
    request = person.waiting(run)["id"]
    told.run(told.client.cancel(request))


def nobody(told, person, run):
    """The deadline passes."""


@pytest.mark.parametrize(
    "end, expected, timeout",
    [
        (approve, "approved", "30m"),
        (reject, "denied", "30m"),
        (cancel, "cancelled", "30m"),
        (nobody, "expired", "1s"),
    ],
    ids=["approved", "rejected", "cancelled", "expired"],
)
def test_the_receiver_wakes_the_run_however_it_ends(told, person, customer, end, expected, timeout):
    request = told.submit(customer, timeout)
    end(told, person, customer)
    run, woken = told.woken.get(timeout=PATIENCE)
    assert (run, woken.id, woken.status) == (customer, request.id, expected)
    message, status = told.next()
    assert (message["type"], status) == ("request.resolved", 204)
    assert message["request_id"] == request.id
    assert message["instance_id"] == told.receiver.instance_id
    assert "decision" not in message and expected not in json.dumps(message)
    assert told.woken.empty() and told.delivered.empty()


def test_what_policy_decides_at_once_is_told_too(told, customer):
    request = told.submit(customer, tool="orders_list", customer=customer)
    assert request.status == "approved"
    run, woken = told.woken.get(timeout=PATIENCE)
    assert (run, woken.id, woken.status) == (customer, request.id, "approved")
