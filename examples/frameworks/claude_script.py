"""A model endpoint on loopback that answers in order, as Anthropic's Messages API does.

The Claude Agent SDK has no fake model: its program talks to whatever ANTHROPIC_BASE_URL names.
"""

import contextlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import desk

#: The tools' names begin so: they stand behind an MCP server `desk`.
PREFIX = "mcp__desk__"


@contextlib.contextmanager
def endpoint(calls):
    """Serves the calls, one a turn, and yields the address."""
    turns = [
        {"type": "tool_use", "id": desk.call_id(), "name": PREFIX + tool, "input": arguments}
        for tool, arguments in calls
    ]
    answers = [*turns, {"type": "text", "text": desk.DONE}]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path.split("?")[0] != "/v1/messages":
                return self.answer({"input_tokens": 1})
            asked = [tool["name"] for tool in request.get("tools", [])]
            if not any(name.startswith(PREFIX) for name in asked):
                # The program also asks models for titles and the like.
                return self.answer(message(request, {"type": "text", "text": desk.DONE}))
            blocks = [
                block
                for said in request["messages"]
                if isinstance(said["content"], list)
                for block in said["content"]
            ]
            done = sum(block["type"] == "tool_result" for block in blocks)
            self.answer(message(request, answers[done]))

        def answer(self, body):
            events = isinstance(body, list)
            text = "".join(body) if events else json.dumps(body)
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream" if events else "application/json")
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_):
            """Nothing is logged."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def message(request, block):
    """One answer of one block: whole, or as the events of a stream."""
    stop = "tool_use" if block["type"] == "tool_use" else "end_turn"
    usage = {"input_tokens": 1, "output_tokens": 1}
    whole = {
        "id": "msg_script",
        "type": "message",
        "role": "assistant",
        "model": request["model"],
        "content": [block],
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": usage,
    }
    if not request.get("stream"):
        return whole
    if block["type"] == "tool_use":
        empty = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    else:
        empty = {**block, "text": ""}
        delta = {"type": "text_delta", "text": block["text"]}
    events = [
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
        {"type": "content_block_start", "index": 0, "content_block": empty},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": stop, "stop_sequence": None},
            "usage": usage,
        },
        {"type": "message_stop"},
    ]
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events]
