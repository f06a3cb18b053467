"""A Pydantic AI agent whose tool calls approver decides."""

from agentapprovalprotocol.pydantic_ai import ApprovalCapability
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import FunctionModel

import desk


def script(calls):
    """The framework's test model, which a function answers for."""
    answers = iter(
        [ToolCallPart(tool, arguments, tool_call_id=desk.call_id()) for tool, arguments in calls]
        + [TextPart(desk.DONE)]
    )
    return FunctionModel(lambda messages, info: ModelResponse([next(answers)]))


async def run(calls, url, token, **gate):
    """Runs the agent, and returns what its model was told of each call."""
    approvals = ApprovalCapability(url, token, **gate)
    # A real model: Agent("openai:gpt-5", …).
    agent = Agent(script(calls), tools=desk.TOOLS, capabilities=[approvals])
    result = await agent.run(desk.PROMPT)
    parts = [part for message in result.all_messages() for part in message.parts]
    return [part.model_response_str() for part in parts if isinstance(part, ToolReturnPart)]


if __name__ == "__main__":
    desk.main(run)
