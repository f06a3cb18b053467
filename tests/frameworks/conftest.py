"""The service that the tests run against, its judge, and a person who decides."""

import base64
import itertools
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "examples" / "frameworks")]

from judge import Judge
from service import AGENT, VERSION, Service, binary


#: Longer than anything here takes on a busy machine, in seconds.
PATIENCE = 300


def environment(judge: Judge) -> dict[str, str]:
    """What the service sees: no setting of whoever runs the tests."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("APPROVER_")}
    for name in ("OPENAI_BASE_URL", "OPENAI_API_KEY", "OPENAI_MODEL"):
        kept.pop(name, None)
    return {**kept, **judge.environment}


@pytest.fixture(scope="session")
def judge():
    return Judge()


@pytest.fixture(scope="session")
def service(judge):
    """`approver serve --dev` with the demo agent."""
    running = Service.start("--dev", "--listen", "127.0.0.1:0", env=environment(judge))
    running.put_agent()
    yield running
    running.stop()


@pytest.fixture
def token(service):
    """A new instance: what it did before has no part in the test."""
    return service.instance()


@pytest.fixture
def lasting(judge, tmp_path):
    """A service that keeps its database and keys, and can be started again at the same address."""
    services = Lasting(judge, tmp_path)
    yield services
    services.stop()


class Lasting:
    """Starts the same service as often as wanted."""

    def __init__(self, judge, folder):
        self.environment = environment(judge)
        self.config = folder / "approver.toml"
        self.running = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{free.getsockname()[1]}"
        keys = folder / "keys"
        keys.touch(mode=0o600)
        keys.write_text(f"k1:{base64.b64encode(os.urandom(32)).decode()}\n")
        self.config.write_text(
            f"""
            [server]
            listen = "{address}"
            [store]
            url = "sqlite:{folder}/approver.db"
            [keys]
            file = "{keys}"
            """
        )
        self.tokens = {kind: self.token(kind) for kind in ("operator", "policy_owner")}
        self.tokens["provisioner"] = self.token("provisioner", "--versions", f"{AGENT}:{VERSION}")

    def token(self, kind, *more) -> str:
        command = [binary(), "token", "--config", self.config, "create"]
        made = subprocess.run(
            [*command, "--kind", kind, "--name", kind, *more],
            env=self.environment,
            capture_output=True,
            text=True,
        )
        assert made.returncode == 0, made.stderr
        return made.stdout.strip()

    def start(self) -> Service:
        self.running = Service.start(
            "--config", self.config, tokens=self.tokens, env=self.environment
        )
        return self.running

    def stop(self) -> None:
        if self.running is not None:
            self.running.stop()
            self.running = None


class Person:
    """Whoever decides what waits. Each test has a customer of its own, to tell its call by."""

    def __init__(self, service: Service):
        self.service = service

    def approvals(self, status: str, customer: str) -> list[dict]:
        """The calls about the customer in that state."""
        return [
            approval
            for approval in self.service.approvals(status)
            if customer in json.dumps(approval["arguments"])
        ]

    def waiting(self, customer: str) -> dict:
        """The call about the customer, once it waits."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if found := self.approvals("pending", customer):
                return found[0]
            time.sleep(0.1)
        raise AssertionError(f"no call about {customer} waits for a person")

    def approve(self, customer: str) -> None:
        self.service.decide(self.waiting(customer)["id"], "approve")

    def reject(self, customer: str, reason: str) -> None:
        self.service.decide(self.waiting(customer)["id"], "reject", reason=reason)


@pytest.fixture
def customer():
    """A customer that no other test has."""
    return f"C-{next(customers)}"


customers = itertools.count(2000)


@pytest.fixture
def person(service):
    return Person(service)


class Running:
    """Work in a thread of its own, while the test plays the person."""

    def __init__(self, work):
        self.value = self.error = None

        def body():
            try:
                self.value = work()
            except BaseException as error:
                self.error = error

        self.thread = threading.Thread(target=body, daemon=True)
        self.thread.start()

    def result(self):
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive(), "it did not end"
        if self.error is not None:
            raise self.error
        return self.value
