"""A thousand calls: the package denies whatever answer it does not understand, so no denial may be
anything but a decision."""

import asyncio
import random
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from agentapprovalprotocol import AsyncClient, AsyncGate, Call, Client, Gate

WORKERS = 4

#: Pieces of arguments that are easily changed on the way.
PIECES = [
    None,
    True,
    False,
    0,
    -1,
    1.5,
    1e-7,
    1.7976931348623157e308,
    9007199254740993,
    -123456789012345678901234567890,
    "",
    " ",
    "ä€𝄞",
    "\u0000\u001f\u007f\u2028\ufeff",
    '"\\/\b\f\n\r\t',
    "e\u0301 é",
    "<script>&amp;",
    "1.50",
    [],
    {},
]


def odd(chance: random.Random, depth: int = 0):
    """A value of odd pieces, some of them nested."""
    kind = chance.randrange(8)
    if depth < 4 and kind == 0:
        return [odd(chance, depth + 1) for _ in range(chance.randrange(5))]
    if depth < 4 and kind == 1:
        names = ["", "a", "A", "ä", "a b", "a.b", "a/b", "~", "__proto__", "null"]
        chosen = chance.sample(names, chance.randrange(5))
        return {name: odd(chance, depth + 1) for name in chosen}
    return chance.choice(PIECES)


def calls(kind: str, count: int):
    """Calls that policy allows, that policy blocks, or that the judge approves."""
    chance = random.Random(f"{kind} of 2026")
    for number in range(count):
        customer = f"C-{kind}-{number}"
        if kind == "allowed":
            tool, arguments = "orders_list", {"customer": customer, "odd": odd(chance)}
        elif kind == "blocked":
            tool, arguments = "price_set", {"product": customer, "euros": number}
        else:
            tool, arguments = "note_add", {"customer": customer, "text": f"to gate {number}"}
        reasoning = chance.choice([None, "Because.", "ä\n\t\u2028"])
        yield Call(key=customer, tool=tool, arguments=arguments, reasoning=reasoning)


def test_no_denial_is_anything_but_a_decision(service):
    wanted = [*calls("allowed", 560), *calls("blocked", 80), *calls("judged", 160)]
    random.Random(2026).shuffle(wanted)

    def work(part):
        client = Client(service.aap, service.instance())
        found = Counter()
        for call in part:
            with Gate(client, timeout="1m", wait_limit=5).guard(call) as verdict:
                found[call.tool, "allow" if verdict else verdict.status] += 1
        client.close()
        return found

    parts = [wanted[start::WORKERS] for start in range(WORKERS)]
    with ThreadPoolExecutor(WORKERS) as pool:
        found = sum(pool.map(work, parts), Counter())
    assert found == {
        ("orders_list", "allow"): 560,
        ("price_set", "denied"): 80,
        ("note_add", "allow"): 160,
    }


def test_the_asynchronous_gate_says_the_same(service):
    wanted = iter([*calls("allowed", 140), *calls("blocked", 20), *calls("judged", 40)])

    async def work(client):
        found = Counter()
        for call in wanted:
            verdict = await AsyncGate(client, mode="async").check(call)
            found[call.tool, "allow" if verdict else getattr(verdict, "status", "pending")] += 1
        return found

    async def all_of_them():
        client = AsyncClient(service.aap, service.instance())
        found = await asyncio.gather(*(work(client) for _ in range(WORKERS)))
        await client.aclose()
        return sum(found, Counter())

    assert asyncio.run(all_of_them()) == {
        ("orders_list", "allow"): 140,
        ("price_set", "denied"): 20,
        ("note_add", "allow"): 40,
    }
