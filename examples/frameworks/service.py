"""Starts `approver serve`, and speaks to it: for `setup` and for the tests.

Only Python's own library is used.
"""

import json
import os
import re
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import uuid
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

#: What `approver serve` prints: a throw-away token a line, and at last where it listens.
TOKEN = re.compile(r"([a-z_]+)=(\S+)$")
LISTENING = re.compile(r"listening on (http://\S+)$")

AGENT = "desk"
VERSION = "1"


def binary() -> str:
    """The program: what APPROVER_BIN names, else what a build makes."""
    named = os.environ.get("APPROVER_BIN")
    if named:
        return named
    subprocess.run(["cargo", "build", "--locked"], cwd=ROOT, check=True)
    target = os.environ.get("CARGO_TARGET_DIR", "target")
    return str(ROOT / target / "debug" / "approver")


def agent_version() -> dict:
    """The agent version of `agent.json`, and its tools once more behind an MCP server `desk`, as
    the Claude Agent SDK calls them."""
    version = json.loads((HERE / "agent.json").read_text())
    connector = {"origin": "connector", "server_label": "desk"}
    version["tools"] += [{**tool, **connector} for tool in version["tools"]]
    return version


class Refused(Exception):
    """The service answered with an error."""

    def __init__(self, status: int, body: str):
        super().__init__(f"HTTP {status}: {body}")
        self.status = status


class Service:
    """A running service, and the tokens for it."""

    def __init__(self, process: subprocess.Popen, url: str, tokens: dict[str, str]):
        self.process = process
        self.url = url
        self.tokens = tokens

    @classmethod
    def start(cls, *arguments: str, tokens: dict[str, str] | None = None, **options) -> "Service":
        """Runs `approver serve`, and returns when it listens. With `--dev` it prints its tokens."""
        log = tempfile.TemporaryFile("w+")
        process = subprocess.Popen(
            [binary(), "serve", *arguments],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            **options,
        )
        found = dict(tokens or {})
        for line in process.stdout:
            if token := TOKEN.match(line):
                found[token[1]] = token[2]
            elif address := LISTENING.search(line):
                return cls(process, address[1], found)
        log.seek(0)
        raise SystemExit(f"approver serve ended ({process.wait()}):\n{log.read()}")

    def stop(self) -> None:
        """Ends the service and waits until it is gone."""
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()

    @property
    def aap(self) -> str:
        """The address that AAP clients take."""
        return f"{self.url}/aap"

    def call(self, token: str, method: str, path: str, body: object = None, **query: str) -> dict:
        """One request with the token of that kind; the answer's JSON."""
        address = self.url + path + (f"?{urllib.parse.urlencode(query)}" if query else "")
        request = urllib.request.Request(address, method=method)
        request.add_header("Authorization", f"Bearer {self.tokens.get(token, token)}")
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        if method != "GET":
            request.add_header("Idempotency-Key", str(uuid.uuid4()))
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read() or b"{}")
        except urllib.error.HTTPError as error:
            raise Refused(error.code, error.read().decode()) from None

    def put_agent(self) -> None:
        """Stores the demo agent's version."""
        path = f"/v1/agents/{AGENT}/versions/{VERSION}"
        self.call("policy_owner", "PUT", path, agent_version())

    def instance(self) -> str:
        """Provisions an instance of the agent; its token."""
        answer = self.call("provisioner", "POST", "/aap/v1/instances", {})
        return answer["credential"]["token"]

    def approvals(self, status: str) -> list[dict]:
        """The agent's approvals in that state, the newest of them."""
        path = f"/v1/agents/{AGENT}/approvals"
        return self.call("operator", "GET", path, status=status)["approvals"]

    def decide(self, approval: str, decision: str, **more: str) -> None:
        """What a person decides: `approve` or `reject`."""
        hmac = self.call("operator", "GET", f"/v1/approvals/{approval}")["hmac"]
        body = {"decision": decision, "hmac": hmac, **more}
        self.call("operator", "POST", f"/v1/approvals/{approval}/decision", body)
