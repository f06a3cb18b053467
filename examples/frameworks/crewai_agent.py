"""A CrewAI crew whose tool calls approver decides."""

import os

os.environ.setdefault("CREWAI_DISABLE_TELEMETRY", "true")
os.environ.setdefault("CREWAI_TRACING_ENABLED", "false")

from agentapprovalprotocol.crewai import ApprovalHooks
from crewai import Agent, BaseLLM, Crew, Task
from crewai.tools import tool

import desk


class Script(BaseLLM):
    """Answers in order. The framework has no fake model of its own."""

    answers: list
    told: list[str] = []

    def supports_function_calling(self):
        return True

    def call(self, messages, *_, **__):
        self.told = [said["content"] for said in messages if said["role"] == "tool"]
        return self.answers.pop(0)


def script(calls):
    turns = [
        [{"id": desk.call_id(), "name": name, "arguments": arguments}] for name, arguments in calls
    ]
    return Script(model="script", answers=[*turns, desk.DONE])


def run(calls, url, token, **gate):
    """Runs the crew, and returns what its model was told of each call."""
    tools = [tool(function.__name__)(function) for function in desk.TOOLS]
    model = script(calls)
    # A real model: Agent(…, llm="openai/gpt-5").
    clerk = Agent(role="clerk", goal=desk.PROMPT, backstory="A sales desk.", tools=tools, llm=model)
    task = Task(description=desk.PROMPT, expected_output="a word when it is done", agent=clerk)
    with ApprovalHooks(url, token, **gate):
        Crew(agents=[clerk], tasks=[task]).kickoff()
    return model.told


if __name__ == "__main__":
    desk.main(run)
