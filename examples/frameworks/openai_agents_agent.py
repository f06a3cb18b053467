"""An agent of the OpenAI Agents SDK whose tool calls approver decides."""

from agentapprovalprotocol.openai_agents import Approvals
from agents import Agent, RunConfig, Runner, function_tool
from agents.testing import ScriptedModel, assistant_message, function_call

import desk


def script(calls):
    """The framework's scripted model."""
    turns = [[function_call(tool, arguments, call_id=desk.call_id())] for tool, arguments in calls]
    return ScriptedModel([*turns, [assistant_message(desk.DONE)]])


async def run(calls, url, token, **gate):
    """Runs the agent, and returns what its model was told of each call."""
    approvals = Approvals(url, token, **gate)
    tools = [function_tool(tool) for tool in desk.TOOLS]
    # A real model: Agent(…, model="gpt-5").
    agent = approvals.protect(Agent(name="desk", tools=tools, model=script(calls)))
    result = await Runner.run(agent, desk.PROMPT, run_config=RunConfig(tracing_disabled=True))
    return [item.output for item in result.new_items if item.type == "tool_call_output_item"]


if __name__ == "__main__":
    desk.main(run)
