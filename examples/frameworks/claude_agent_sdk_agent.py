"""An agent of the Claude Agent SDK whose tool calls approver decides."""

import inspect
import tempfile

from agentapprovalprotocol.claude_agent_sdk import ApprovalHooks
from claude_agent_sdk import (
    ClaudeAgentOptions,
    ToolResultBlock,
    UserMessage,
    create_sdk_mcp_server,
    query,
    tool,
)

import claude_script
import desk


def as_mcp_tool(function):
    """A tool of the desk, as the SDK wants them."""
    parameters = inspect.signature(function).parameters.values()
    schema = {parameter.name: parameter.annotation for parameter in parameters}

    @tool(function.__name__, function.__doc__, schema)
    async def wrapped(arguments):
        return {"content": [{"type": "text", "text": function(**arguments)}]}

    return wrapped


def options(model, scratch):
    """The agent, with a model at that address and a folder for what its program writes."""
    tools = [as_mcp_tool(function) for function in desk.TOOLS]
    # A real model: without this environment, and with ANTHROPIC_API_KEY in your own.
    environment = {
        "ANTHROPIC_BASE_URL": model,
        "ANTHROPIC_API_KEY": "unused",
        "CLAUDE_CONFIG_DIR": scratch,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "ENABLE_TOOL_SEARCH": "false",
    }
    return ClaudeAgentOptions(
        mcp_servers={"desk": create_sdk_mcp_server("desk", tools=tools)},
        cwd=scratch,
        env=environment,
        setting_sources=[],
    )


async def run(calls, url, token, **gate):
    """Runs the agent, and returns what its model was told of each call."""
    approvals = ApprovalHooks(url, token, **gate)
    told = []
    with claude_script.endpoint(calls) as model, tempfile.TemporaryDirectory() as scratch:
        protected = approvals.options(options(model, scratch))
        async for message in query(prompt=desk.PROMPT, options=protected):
            if isinstance(message, UserMessage) and isinstance(message.content, list):
                results = [block for block in message.content if isinstance(block, ToolResultBlock)]
                told += [text(block.content) for block in results]
    return told


def text(content):
    """A result's text."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content)


if __name__ == "__main__":
    desk.main(run)
