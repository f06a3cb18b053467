"""An agent of Google's Agent Development Kit whose tool calls approver decides."""

from agentapprovalprotocol.adk import ApprovalPlugin, check_coverage
from google.adk.agents import LlmAgent
from google.adk.apps import App
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import InMemoryRunner
from google.genai import types

import desk


class Script(BaseLlm):
    """Answers in order. The framework has no fake model of its own."""

    model: str = "script"
    answers: list[types.Part]

    async def generate_content_async(self, llm_request, stream=False):
        yield LlmResponse(content=types.Content(role="model", parts=[self.answers.pop(0)]))


def script(calls):
    parts = [
        types.Part(function_call=types.FunctionCall(id=desk.call_id(), name=tool, args=arguments))
        for tool, arguments in calls
    ]
    return Script(answers=[*parts, types.Part(text=desk.DONE)])


async def run(calls, url, token, **gate):
    """Runs the agent, and returns what its model was told of each call."""
    approvals = ApprovalPlugin(url, token, **gate)
    # A real model: LlmAgent(model="gemini-3-flash", …).
    agent = LlmAgent(name="desk", model=script(calls), tools=desk.TOOLS)
    app = App(name="desk", root_agent=agent, plugins=[approvals])
    check_coverage(app, approvals)
    async with InMemoryRunner(app=app) as runner:
        session = await runner.session_service.create_session(app_name="desk", user_id="user")
        prompt = types.Content(role="user", parts=[types.Part(text=desk.PROMPT)])
        told = []
        events = runner.run_async(user_id="user", session_id=session.id, new_message=prompt)
        async for event in events:
            answers = event.get_function_responses()
            told += [next(iter(answer.response.values())) for answer in answers]
    return told


if __name__ == "__main__":
    desk.main(run)
