"""A sales desk: the tools of the example agents, and the calls that their faked model makes.

A tool only notes that it ran, in `ran`. Whether it may run is approver's to say.
"""

import asyncio
import inspect
import os
import sys
import uuid

#: What the faked model calls, one call a turn.
CALLS = [
    ("orders_list", {"customer": "C-1042"}),
    ("price_set", {"product": "flour", "euros": 1}),
    ("note_add", {"customer": "C-1042", "text": "prefers delivery on Tuesdays"}),
    ("customer_delete", {"customer": "C-1042"}),
]

PROMPT = "Please look after customer C-1042."
DONE = "That is all."

#: The calls that ran, in order: the tool and its arguments.
ran: list[tuple[str, dict]] = []


def orders_list(customer: str) -> str:
    """Lists the orders of one customer."""
    ran.append(("orders_list", {"customer": customer}))
    return f"{customer} has one open order: 40 sacks of flour."


def note_add(customer: str, text: str) -> str:
    """Adds a note to a customer's record."""
    ran.append(("note_add", {"customer": customer, "text": text}))
    return "The note is there."


def credit_add(customer: str, euros: int) -> str:
    """Adds a credit in euros to a customer's account."""
    ran.append(("credit_add", {"customer": customer, "euros": euros}))
    return f"{customer} has a credit of {euros} euros."


def price_set(product: str, euros: int) -> str:
    """Sets the price of a product."""
    ran.append(("price_set", {"product": product, "euros": euros}))
    return f"{product} costs {euros} euros."


def customer_delete(customer: str) -> str:
    """Deletes a customer's record for good."""
    ran.append(("customer_delete", {"customer": customer}))
    return f"{customer} is gone."


TOOLS = [orders_list, note_add, credit_add, price_set, customer_delete]


def call_id() -> str:
    """Models name their calls, and never two alike: approver tells calls apart by it."""
    return f"call_{uuid.uuid4().hex[:16]}"


def provider() -> tuple[str, str]:
    """The address and the instance's token, as `setup` prints them."""
    try:
        return os.environ["APPROVER_URL"], os.environ["APPROVER_TOKEN"]
    except KeyError as missing:
        sys.exit(f"{missing.args[0]} is not set: export what examples/frameworks/setup prints")


def main(run) -> None:
    """Runs an agent over `CALLS` and prints what its model was told of each call."""
    told = run(CALLS, *provider())
    if inspect.isawaitable(told):
        told = asyncio.run(told)
    for (tool, arguments), answer in zip(CALLS, told, strict=True):
        verb = "ran" if (tool, arguments) in ran else "did not run"
        print(f"{tool} {arguments} {verb}\n  the model was told: {answer}")
