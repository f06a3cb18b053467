"""A LangChain agent (on LangGraph) whose tool calls approver decides."""

from agentapprovalprotocol.langgraph import ApprovalMiddleware
from langchain.agents import create_agent
from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, ToolMessage

import desk


class Script(FakeMessagesListChatModel):
    """The framework's fake model, which answers in order whatever tools it is given."""

    def bind_tools(self, tools, **_):
        return self


def script(calls):
    turns = [[{"name": tool, "args": arguments, "id": desk.call_id()}] for tool, arguments in calls]
    answers = [AIMessage("", tool_calls=turn) for turn in turns]
    return Script(responses=[*answers, AIMessage(desk.DONE)])


def run(calls, url, token, **gate):
    """Runs the agent, and returns what its model was told of each call."""
    approvals = ApprovalMiddleware(url, token, **gate)
    # A real model: create_agent("openai:gpt-5", …).
    agent = create_agent(script(calls), tools=desk.TOOLS, middleware=[approvals])
    state = agent.invoke({"messages": [("user", desk.PROMPT)]})
    return [message.text for message in state["messages"] if isinstance(message, ToolMessage)]


if __name__ == "__main__":
    desk.main(run)
