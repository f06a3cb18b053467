"""A run that pauses at a call instead of waiting, is woken after a person decided, and asks again.

A receiver of notifications would wake it; here the test does, with what such a receiver hands over.
The service restarts in between. CrewAI cannot pause.
"""

import asyncio
import importlib
import os
import tempfile

import desk
import pytest
from agentapprovalprotocol import Client
from conftest import Person

framework = os.environ.get("APPROVER_FRAMEWORK")


async def langgraph(agent, calls, url, token, decided):
    from agentapprovalprotocol.langgraph import ApprovalMiddleware, resumer
    from langchain.agents import create_agent
    from langgraph.checkpoint.memory import InMemorySaver

    approvals = ApprovalMiddleware(url, token, mode="async")
    graph = create_agent(
        agent.script(calls),
        tools=desk.TOOLS,
        middleware=[approvals],
        checkpointer=InMemorySaver(),
    )
    settings = {"configurable": {"thread_id": "thread"}}
    state = await graph.ainvoke({"messages": [("user", desk.PROMPT)]}, settings)
    assert state["__interrupt__"]
    await resumer(graph)({"framework": "langgraph", "thread_id": "thread"}, decided())
    state = await graph.aget_state(settings)
    assert not state.interrupts


async def pydantic_ai(agent, calls, url, token, decided):
    from agentapprovalprotocol.pydantic_ai import ApprovalCapability, resumer
    from pydantic_ai import Agent, DeferredToolRequests

    approvals = ApprovalCapability(url, token, mode="async")
    clerk = Agent(
        agent.script(calls),
        tools=desk.TOOLS,
        capabilities=[approvals],
        output_type=[str, DeferredToolRequests],
    )
    result = await clerk.run(desk.PROMPT)
    assert isinstance(result.output, DeferredToolRequests)
    kept = [result.conversation]
    wake = resumer(clerk, load=lambda _: kept[-1], save=kept.append)
    await wake({"conversation_id": result.conversation.conversation_id}, decided())
    assert kept[-1].deferred_tool_requests is None


async def openai_agents(agent, calls, url, token, decided):
    from agentapprovalprotocol.openai_agents import Approvals
    from agents import Agent, RunConfig, function_tool

    kept = {}
    approvals = Approvals(url, token, mode="async", save=kept.__setitem__, load=kept.get)
    tools = [function_tool(tool) for tool in desk.TOOLS]
    clerk = approvals.protect(Agent(name="desk", tools=tools, model=agent.script(calls)))
    quiet = RunConfig(tracing_disabled=True)
    result = await approvals.run(clerk, desk.PROMPT, run_id="run", run_config=quiet)
    assert result.interruptions
    await approvals.resumer(clerk, run_config=quiet)({"run_id": "run"}, decided())


async def adk(agent, calls, url, token, decided):
    from agentapprovalprotocol.adk import ApprovalPlugin, resumer
    from google.adk.agents import LlmAgent
    from google.adk.apps import App, ResumabilityConfig
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    app = App(
        name="desk",
        root_agent=LlmAgent(name="desk", model=agent.script(calls), tools=desk.TOOLS),
        plugins=[ApprovalPlugin(url, token, mode="async")],
        resumability_config=ResumabilityConfig(is_resumable=True),
    )
    async with InMemoryRunner(app=app) as runner:
        who = {"app_name": "desk", "user_id": "user"}
        session = await runner.session_service.create_session(**who)
        prompt = types.Content(role="user", parts=[types.Part(text=desk.PROMPT)])
        run = runner.run_async(user_id="user", session_id=session.id, new_message=prompt)
        async for _ in run:
            pass
        await resumer(runner)({**who, "session_id": session.id}, decided())


async def claude_agent_sdk(agent, calls, url, token, decided):
    import claude_script
    from agentapprovalprotocol.claude_agent_sdk import ApprovalHooks, resumer
    from claude_agent_sdk import ResultMessage, query

    approvals = ApprovalHooks(url, token, mode="async")
    with claude_script.endpoint(calls) as model, tempfile.TemporaryDirectory() as scratch:
        # The program writes its sessions there, and the resumer looks for them there.
        os.environ["CLAUDE_CONFIG_DIR"] = scratch
        options = approvals.options(agent.options(model, scratch))
        async for message in query(prompt=desk.PROMPT, options=options):
            result = message
        assert isinstance(result, ResultMessage)
        assert result.stop_reason == "tool_deferred"
        deferred = result.deferred_tool_use
        handle = {"session_id": result.session_id, "tool_use_id": deferred.id, "cwd": scratch}
        await resumer(options)(handle, decided())


ALL = (langgraph, pydantic_ai, openai_agents, adk, claude_agent_sdk)
PAUSES = {pause.__name__: pause for pause in ALL}


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_paused_run_goes_on_after_a_person_decided(lasting, customer, decision):
    service = lasting.start()
    service.put_agent()
    token = service.instance()
    agent = importlib.import_module(f"{framework}_agent")
    calls = [
        ("orders_list", {"customer": customer}),
        ("credit_add", {"customer": customer, "euros": 50}),
    ]
    desk.ran.clear()

    def decided():
        """Restarts the service, lets a person decide, and returns the protocol's request."""
        assert desk.ran == calls[:1]
        lasting.stop()
        person = Person(lasting.start())
        approval = person.waiting(customer)
        person.service.decide(approval["id"], decision)
        client = Client(service.aap, token)
        try:
            return client.get(approval["id"])
        finally:
            client.close()

    asyncio.run(PAUSES[framework](agent, calls, service.aap, token, decided))
    assert desk.ran == (calls if decision == "approve" else calls[:1])
