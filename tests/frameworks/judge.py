"""A judge for the tests: Chat Completions on loopback, answers by the tool that is asked about.

It approves notes with the organisation's own sentence as evidence and hands the rest to a person.
What it approves is decided here, so the tests are about the protocol and not about judgement.
"""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

#: Stands in `allow` of the demo agent's policy, word for word.
ALLOWED = "Notes about delivery on existing customers are routine"

#: The call at the question's end: `"note_add" {…}`, and before it the numbered leaves.
PENDING = re.compile(r"^# Pending call\n.*?\"(\w+)\"", re.MULTILINE | re.DOTALL)
LEAF = re.compile(r"^(\d+) \"/", re.MULTILINE)

#: What it escalates with; a person reads it.
REASON = "Nobody asked for this."


class Judge:
    """The endpoint, and which tools it was asked about."""

    def __init__(self):
        self.asked: list[str] = []
        judge = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                question = request["messages"][-1]["content"]
                if isinstance(question, list):
                    question = "".join(part["text"] for part in question)
                answer = json.dumps(judge.answer(question))
                body = json.dumps(completion(request["model"], answer)).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                """Nothing is logged."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def environment(self) -> dict[str, str]:
        """What names this judge to the service."""
        return {
            "APPROVER_JUDGE_BASE_URL": f"http://127.0.0.1:{self.server.server_port}/v1",
            "APPROVER_JUDGE_MODEL": "scripted",
            "APPROVER_JUDGE_API_KEY": "unused",
            "APPROVER_JUDGE_DEADLINE": "60s",
            "APPROVER_JUDGE_REQUEST_DEADLINE": "120s",
            # Instances without trust have so many an hour.
            "APPROVER_JUDGE_MAX_JUDGED_CALLS_PER_TURN": "1000",
        }

    def answer(self, question: str) -> dict:
        tool = PENDING.search(question)[1]
        self.asked.append(tool)
        leaves = [int(number) for number in LEAF.findall(question)]
        if tool == "note_add":
            covers = [0, *leaves]
            basis = [{"source": "allow", "index": 1, "quote": ALLOWED, "covers": covers}]
            reason, decision, unsupported = "Notes about delivery are routine.", "approve", []
        else:
            basis, reason, decision, unsupported = [], REASON, "escalate", [0, *leaves]
        return {
            "soft_deny": [],
            "basis": basis,
            "unsupported_arguments": unsupported,
            "reason": reason,
            "decision": decision,
        }


def completion(model: str, text: str) -> dict:
    """One whole answer of the API."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text, "refusal": None},
        "finish_reason": "stop",
        "logprobs": None,
    }
    return {
        "id": "chatcmpl-script",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [choice],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }
