"""BFCL's multi-turn runs: eight hundred conversations over services that it simulates.

Its services, right answers and judgement are its own: after every turn the state of each service is
held against one in which its own program has run the right calls, and so are the answers that the
calls gave.
"""

from __future__ import annotations

import copy
import importlib
import inspect
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent.errors import UsageError
from agent.evals.calls.bfcl import json_schema, official_scorer, package, read_lines
from agent.evals.calls.parsing import FormatError, calls_in
from agent.evals.replays.foreign import Function, Refused, World, as_tool
from agent.evals.replays.replaying import Gold, Replay, Turn
from tools.contract import Contract

CATEGORIES = ("base", "miss_func", "miss_param", "long_context")

EFFECTS: Mapping[str, str] = {
    # files
    **dict.fromkeys(("cp", "echo", "mkdir", "mv", "rm", "rmdir", "touch"), "write:files"),
    # messages, posts and tickets: others see them
    **dict.fromkeys(("add_contact", "delete_message"), "write:messages"),
    "send_message": "disclose:messages",
    **dict.fromkeys(("comment", "mention", "post_tweet", "retweet"), "disclose:posts"),
    **dict.fromkeys(("follow_user", "unfollow_user"), "write:posts"),
    **dict.fromkeys(("create_ticket", "edit_ticket", "close_ticket"), "write:tickets"),
    "resolve_ticket": "write:tickets",
    "contact_customer_support": "disclose:support",
    # signing in and out
    **dict.fromkeys(("authenticate_twitter", "authenticate_travel"), "write:sign-in"),
    **dict.fromkeys(("message_login", "ticket_login", "trading_login"), "write:sign-in"),
    **dict.fromkeys(("logout", "ticket_logout", "trading_logout"), "write:sign-in"),
    "register_credit_card": "write:sign-in",
    # money
    **dict.fromkeys(("book_flight", "purchase_insurance", "place_order"), "spend:usd"),
    **dict.fromkeys(("fund_account", "withdraw_funds", "make_transaction"), "spend:usd"),
    **dict.fromkeys(("cancel_booking", "cancel_order", "set_budget_limit"), "write:bookings"),
    **dict.fromkeys(("add_to_watchlist", "remove_stock_from_watchlist"), "write:watchlist"),
    **dict.fromkeys(("update_market_status", "update_stock_price"), "write:market"),
    # the car
    **dict.fromkeys(("activateParkingBrake", "pressBrakePedal", "releaseBrakePedal"), "write:car"),
    **dict.fromkeys(("adjustClimateControl", "fillFuelTank", "lockDoors"), "write:car"),
    **dict.fromkeys(("setCruiseControl", "setHeadlights", "set_navigation"), "write:car"),
    "startEngine": "write:car",
}
"""What each function does that changes something; all others only read.

``cd`` reads: it changes where one stands, not what is there.
"""


def replays(category: str) -> Iterator[Replay]:
    """The runs of a category, each with services of its own.

    Raises:
        UsageError: It is not installed, or its data is not what it was.
    """
    if category not in CATEGORIES:
        raise UsageError(f"{category!r} is no category; there are {', '.join(CATEGORIES)}.")
    official_scorer()  # makes its modules importable
    data = package() / "data"
    name = f"BFCL_v4_multi_turn_{category}.json"
    answers = {
        one["id"]: one["ground_truth"] for one in read_lines(data / "possible_answer" / name)
    }
    for one in read_lines(data / name):
        yield _Run(one, answers[one["id"]], data).replay()


class _Run:
    """One conversation: its services, and the same ones as its own program leaves them."""

    def __init__(self, entry: Mapping[str, Any], gold: Sequence[Sequence[str]], data: Path) -> None:
        self._entry, self._gold, self._data = entry, gold, data
        self._long = "long_context" in entry["id"]
        self._services = {name: self._service(name) for name in entry["involved_classes"]}
        self._world = World(lambda: _state(self._services), look_at_reads=True)
        self._results: list[str] = []

    def replay(self) -> Replay:
        """The run as ours."""
        questions = self._entry["question"]
        return Replay(
            id=self._entry["id"],
            tools=[tool for name in self._services for tool in self._tools(name)],
            turns=[self._turn(at, questions[at], lines) for at, lines in enumerate(self._gold)],
            judge=lambda: [f"{name} was to read only" for name in sorted(self._world.no_reads)],
            state=lambda: _state(self._services),
        )

    def _service(self, name: str) -> Any:
        config = importlib.import_module("bfcl_eval.constants.executable_backend_config")
        module = importlib.import_module(config.CLASS_FILE_PATH_MAPPING[name])
        service = getattr(module, name)()
        if name not in config.STATELESS_CLASSES:
            start = copy.deepcopy(self._entry["initial_config"].get(name, {}))
            service._load_scenario(start, long_context=self._long)
        return service

    def _tools(self, name: str) -> Iterator[Any]:
        config = importlib.import_module("bfcl_eval.constants.executable_backend_config")
        file = config.MULTI_TURN_FUNC_DOC_FILE_MAPPING[name]
        for doc in read_lines(self._data / "multi_turn_func_doc" / file):
            method = getattr(self._services[name], doc["name"])
            effect = EFFECTS.get(doc["name"], f"read:{name.lower()}")
            contract = Contract(effects=frozenset({effect}), open_world=False, private=True)
            function = Function(doc["name"], doc["description"], _schema(doc), self._run(method))
            yield as_tool(function, contract, self._world)

    def _run(self, method: Any) -> Any:
        def run(**args: Any) -> str:
            result = method(**args)
            text = _as_text(result)
            self._results.append(text)
            if isinstance(result, dict) and set(result) == {"error"}:
                raise Refused(text)
            return text

        return run

    def _turn(self, at: int, question: Sequence[Mapping[str, Any]], lines: Sequence[str]) -> Turn:
        says = " ".join(str(message["content"]) for message in question) or "Go on."
        calls = tuple(self._call(line) for line in lines)
        return Turn(says, calls, after=lambda: self._judge(at, lines))

    def _call(self, line: str) -> Gold:
        try:
            [call] = calls_in(line)
        except (FormatError, ValueError) as error:
            raise UsageError(f"{self._entry['id']}: {line!r} is no call: {error}") from None
        methods = [getattr(s, call.name) for s in self._services.values() if hasattr(s, call.name)]
        names = [*inspect.signature(methods[0]).parameters]
        return Gold(call.name, dict(zip(names, call.positional, strict=False)) | dict(call.args))

    def _judge(self, at: int, lines: Sequence[str]) -> str | None:
        """Its own checks of a turn: of the state, and of what the calls answered."""
        checker = importlib.import_module(
            "bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker"
        )
        results, theirs = checker.execute_multi_turn_func_call(
            func_call_list=list(lines),
            initial_config=self._entry["initial_config"],
            involved_classes=self._entry["involved_classes"],
            model_name=f"gold_{id(self)}",
            test_entry_id=self._entry["id"],
            long_context=self._long,
            is_evaL_run=True,
        )
        if not lines:
            return None
        for found in (
            checker.state_checker(self._services, theirs),
            checker.response_checker(self._results, results, at),
        ):
            if not found["valid"]:
                return f"turn {at + 1}: {found['error_message']}"
        return None


def _as_text(result: Any) -> str:
    """As its own program writes down what a call answered."""
    if isinstance(result, str):
        return result
    if isinstance(result, dict):
        try:
            return json.dumps(result)
        except TypeError:
            return str(result)
    return str(result)


def _state(services: Mapping[str, Any]) -> str:
    public = {
        name: {key: value for key, value in vars(service).items() if not key.startswith("_")}
        for name, service in services.items()
    }
    return json.dumps(public, default=_shown)


def _shown(value: Any) -> Any:
    """A directory or a file of its file system, without the way back up, which has no end."""
    inner = getattr(value, "__dict__", None)
    if inner is None:
        return repr(value)
    return {key: item for key, item in inner.items() if key not in ("parent", "_parent")}


def _schema(doc: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of its arguments as JSON Schema writes it."""
    parameters = doc["parameters"]
    return {
        "type": "object",
        "properties": {name: json_schema(one) for name, one in parameters["properties"].items()},
        "required": parameters.get("required", []),
        "additionalProperties": False,
    }
