"""The grocery shop and the bank over HTTP: what may be said of a write, however its exchange ends.

Real services on real sockets; those that misbehave do so as ``tests.support.unreliable`` says.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp

from tests.support.courses import RoughService
from tests.support.served import bearer, closed_port, served
from tests.support.unreliable import FAULTS, Unreliable
from tools.worlds.bank import Instruction, LocalBank
from tools.worlds.bank_http import HttpBank, bank_service
from tools.worlds.grocery import GroceryShop, Wanted
from tools.worlds.grocery_http import HttpGrocery, grocery_service
from tools.worlds.http_client import MAX_ANSWER
from tools.worlds.http_service import MAX_REQUEST
from tools.worlds.sample_bank import EVERYDAY, SAVINGS
from tools.worlds.service import (
    Busy,
    KeyReused,
    NotFound,
    Refused,
    ServiceError,
    Unconfirmed,
)

TOKEN = "world-token-51c07be2"
OAT = [Wanted("P3", 2)]


@dataclass
class Ground:
    """One service behind HTTP, and the same thing done to either.

    Args:
        client: A caller; the time of a ``hasty`` one is short.
        write: The write, under a key: another key is another request.
        count: How often it has happened, by the service's own database.
    """

    url: str
    service: Unreliable
    client: Any
    hasty: Any
    write: Callable[[Any, str], Any]
    count: Callable[[], int]
    test: str = ""
    before: tuple[int, int] = (0, 0)

    def for_test(self, test: str) -> Ground:
        """The same service, which counts from now on."""
        return replace(self, test=test, before=(self.count(), self.service.writes))

    def do(self, client: Any, key: str) -> Any:
        return self.write(client, f"{self.test}-{key}")

    def find(self, key: str) -> Any:
        return self.client.find(f"{self.test}-{key}")

    @property
    def done(self) -> int:
        return self.count() - self.before[0]

    @property
    def writes(self) -> int:
        return self.service.writes - self.before[1]


@contextmanager
def grocery(path: Path, honours_keys: bool = True) -> Iterator[Ground]:
    shop = GroceryShop(path / "grocery.db", honours_keys=honours_keys)
    service = Unreliable(grocery_service(shop, TOKEN))
    with served(service) as url:
        yield Ground(
            url,
            service,
            HttpGrocery(url, TOKEN, honours_keys=honours_keys),
            HttpGrocery(url, TOKEN, honours_keys=honours_keys, timeout=0.4),
            lambda client, key: client.create_cart(OAT, key),
            lambda: shop.carts().matched,
        )


@contextmanager
def bank(path: Path, honours_keys: bool = True) -> Iterator[Ground]:
    local = LocalBank(path / "bank.db", honours_keys=honours_keys)
    service = Unreliable(bank_service(local, TOKEN))

    def transfer(client: Any, key: str) -> Any:
        return client.transfer(Instruction(EVERYDAY, SAVINGS, 100, "EUR", f"id-{key}"), key)

    with served(service) as url:
        yield Ground(
            url,
            service,
            HttpBank(url, TOKEN, honours_keys=honours_keys),
            HttpBank(url, TOKEN, honours_keys=honours_keys, timeout=0.4),
            transfer,
            lambda: local.account(SAVINGS).balance // 100,
        )


@pytest.fixture(scope="module", params=[grocery, bank], ids=lambda made: made.__name__)
def keyed_service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ground]:
    with request.param(tmp_path_factory.mktemp("keyed")) as made:
        yield made


@pytest.fixture
def ground(keyed_service: Ground) -> Ground:
    return keyed_service.for_test(str(next(_TESTS)))


@pytest.fixture(scope="module", params=[grocery, bank], ids=lambda made: made.__name__)
def keyless_service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Ground]:
    with request.param(tmp_path_factory.mktemp("keyless"), honours_keys=False) as made:
        yield made


@pytest.fixture
def forgetful(keyless_service: Ground) -> Ground:
    """A service that ignores keys, as many do."""
    return keyless_service.for_test(str(next(_TESTS)))


_TESTS = count()


# However it ends ----------------------------------------------------------------------------

ENDS: dict[str, type[Exception] | None] = {
    "answers late": Unconfirmed,
    "drops before": Unconfirmed,
    "drops after": Unconfirmed,
    "runs twice": None,
    "answers twice": None,
    "answers another": Unconfirmed,
    "fails before": Unconfirmed,
    "fails after": Unconfirmed,
    "fails unchanged": Busy,
    "is limited": Busy,
    "redirects": Unconfirmed,
    "answers garbage": Unconfirmed,
    "answers half": Unconfirmed,
    "answers without end": Unconfirmed,
}


def write_badly(ground: Ground, fault: str) -> None:
    """One good write, then one whose exchange goes wrong; whatever was to happen has happened."""
    ground.do(ground.client, "good")
    ground.service.next(fault)
    client = ground.hasty if fault == "answers late" else ground.client
    end = ENDS[fault]
    if end is None:
        ground.do(client, "bad")
    else:
        with pytest.raises(end):
            ground.do(client, "bad")
    ground.service.settled(ground.before[1] + 2)
    assert ground.writes == 2  # the client sent it once


def test_every_way_to_fail_has_an_end() -> None:
    assert set(ENDS) == set(FAULTS)


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_said_of_a_write_is_so(ground: Ground, fault: str) -> None:
    """Nothing that happened is ever called a failure, and the record tells what happened."""
    write_badly(ground, fault)
    happened = FAULTS[fault][0] > 0
    assert ground.done == 1 + happened
    assert (ground.find("bad") is not None) == happened
    if issubclass(ENDS[fault] or Unconfirmed, ServiceError):
        assert not happened


@pytest.mark.parametrize("fault", FAULTS)
def test_the_same_request_again_settles_it_and_counts_once(ground: Ground, fault: str) -> None:
    write_badly(ground, fault)
    again = ground.do(ground.client, "bad")
    assert ground.done == 2
    assert ground.find("bad") == again
    assert ground.do(ground.client, "bad") == again


def test_many_at_once_under_one_key_count_once(ground: Ground) -> None:
    answers: list[Any] = []
    threads = [
        threading.Thread(target=lambda: answers.append(ground.do(ground.client, "same")))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert ground.done == len(set(map(repr, answers))) == 1


@pytest.mark.parametrize("fault", ["runs twice", "drops after"])
def test_without_keys_what_is_sent_twice_happens_twice(forgetful: Ground, fault: str) -> None:
    """What many services are: here only the record can keep a caller from doing it again."""
    forgetful.service.next(fault)
    if fault == "runs twice":
        forgetful.do(forgetful.client, "a")
    else:
        with pytest.raises(Unconfirmed):
            forgetful.do(forgetful.client, "a")
        forgetful.do(forgetful.client, "a")
    assert forgetful.done == 2
    assert forgetful.find("a") is None


def test_without_keys_the_answer_of_another_is_noticed_too(forgetful: Ground) -> None:
    forgetful.do(forgetful.client, "a")
    forgetful.service.next("answers another")
    with pytest.raises(Unconfirmed, match="not the answer to this request"):
        forgetful.do(forgetful.client, "b")


def test_a_service_that_does_not_repeat_the_key_has_not_understood_it(tmp_path: Path) -> None:
    shop = GroceryShop(tmp_path / "grocery.db", honours_keys=False)
    with served(grocery_service(shop, TOKEN)) as url:
        trusting = HttpGrocery(url, TOKEN, honours_keys=True)
        with pytest.raises(Unconfirmed, match="not the answer to this request"):
            trusting.create_cart(OAT, "k")


# Nothing was sent --------------------------------------------------------------------------


def test_where_nobody_listens_nothing_was_changed() -> None:
    url = f"http://127.0.0.1:{closed_port()}"
    with pytest.raises(Busy, match="cannot be reached; nothing was changed"):
        HttpGrocery(url, TOKEN).create_cart(OAT, "k")
    with pytest.raises(Busy, match="cannot be reached"):
        HttpBank(url, TOKEN).accounts()


def test_what_does_not_fit_is_not_sent(ground: Ground) -> None:
    with pytest.raises(Refused, match="visible ASCII"):
        ground.do(ground.client, "a\nb")
    with pytest.raises(Refused, match="visible ASCII"):
        ground.write(ground.client, "")
    assert ground.writes == 0


def test_a_token_that_cannot_be_a_header_is_refused_at_once() -> None:
    for token in ("", "two words", "line\nbreak", "schlüssel"):
        with pytest.raises(ValueError, match="visible ASCII"):
            HttpGrocery("http://127.0.0.1", token)


def test_arguments_that_do_not_fit_are_not_sent(tmp_path: Path) -> None:
    with grocery(tmp_path) as ground:
        odd: list[Any] = [
            [Wanted("P3", "two")],
            [Wanted(3, 1)],
            [Wanted("P3", 1)] * 101,
            [object()],
        ]  # type: ignore[arg-type]
        for items in odd:
            with pytest.raises(Refused, match="takes no such request, so it was not sent"):
                ground.client.create_cart(items, "k")
        with pytest.raises(Refused, match="not sent"):
            ground.client.place_order("C16", 944, "CHF", "k")
        assert ground.writes == 0


@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
def test_no_proxy_of_the_environment_is_used(
    ground: Ground, variable: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, f"http://127.0.0.1:{closed_port()}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    ground.do(type(ground.client)(ground.url, TOKEN), "k")
    assert ground.done == 1


# Reads -------------------------------------------------------------------------------------


@pytest.mark.parametrize("answer", ["hangs up", "garbage", "another's", "redirects", "fails"])
def test_a_read_without_a_usable_answer_may_be_tried_again(answer: str) -> None:
    def reply(seen: Any) -> Any:
        own = {"Request-Id": dict(seen.headers).get("Request-Id", "")}
        return {
            "hangs up": None,
            "garbage": (200, own, b"<html>"),
            "another's": (200, {"Request-Id": "x"}, b"[]"),
            "redirects": (302, {**own, "Location": "/accounts"}, b""),
            "fails": (500, own, b""),
        }[answer]

    service = RoughService(reply)
    with service.running() as url, pytest.raises(Busy, match="Nothing was changed"):
        HttpBank(url, TOKEN).accounts()
    assert len(service.seen) == 1


def test_a_compressed_answer_is_not_unpacked() -> None:
    """It has no bound; what cannot be read has told nothing."""
    service = RoughService(
        lambda seen: (
            200,
            {"Request-Id": dict(seen.headers)["Request-Id"], "Content-Encoding": "gzip"},
            b"\x1f\x8b" + b"x" * 100,
        )
    )
    with service.running() as url, pytest.raises(Busy, match="cannot be read"):
        HttpBank(url, TOKEN).accounts()
    assert dict(service.seen[0].headers)["Accept-Encoding"] == "identity"


def test_an_answer_is_read_to_its_bound_and_no_further() -> None:
    service = RoughService(
        lambda seen: (
            200,
            {"Request-Id": dict(seen.headers)["Request-Id"]},
            b" " * (MAX_ANSWER + 1),
        )
    )
    with service.running() as url, pytest.raises(Busy, match="too long"):
        HttpBank(url, TOKEN).accounts()


def test_an_amount_in_an_answer_is_a_decimal_string() -> None:
    """A number could be meant in cents or in euros."""
    payee = {"id": "A", "holder": "B", "currency": "EUR", "own": True, "instant": True}
    account = {
        "id": "A", "name": "N", "holder": "H", "currency": "EUR", "balance": 12, "sent_today": "0",
        "transfer_limit": "1", "daily_limit": "1", "revision": 1,
    }  # fmt: skip

    def answers(body: dict[str, Any]) -> RoughService:
        raw = json.dumps(body).encode()
        return RoughService(
            lambda seen: (200, {"Request-Id": dict(seen.headers)["Request-Id"]}, raw)
        )

    with answers(account).running() as url, pytest.raises(Busy, match="cannot be read"):
        HttpBank(url, TOKEN).account("A")
    with answers({**account, "balance": "12"}).running() as url:
        assert HttpBank(url, TOKEN).account("A").balance == 1200
    with answers(payee).running() as url, pytest.raises(Busy, match="cannot be read"):
        HttpBank(url, TOKEN).payee("A")  # a field is missing


def test_a_message_of_the_service_is_cut() -> None:
    error = {"error": {"code": "refused", "message": "no " * 1000, "changed": False}}
    service = RoughService(
        lambda seen: (
            422,
            {"Request-Id": dict(seen.headers)["Request-Id"]},
            json.dumps(error).encode(),
        )
    )
    with service.running() as url, pytest.raises(Refused) as caught:
        HttpBank(url, TOKEN).accounts()
    assert len(str(caught.value)) == 500


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (404, b"<html>no such page</html>"),
        (408, b""),
        (409, b'{"error": "conflict"}'),
        (422, b'{"error": {"code": "refused", "message": "partly", "changed": true}}'),
        (502, b"<html>bad gateway</html>"),
        (503, b'{"error": {"code": "busy", "message": "busy", "changed": null}}'),
        (201, b"{}"),
        (204, b""),
        (303, b""),
    ],
)
def test_what_is_not_the_services_own_word_settles_no_write(status: int, body: bytes) -> None:
    """A proxy may have answered, whatever happened behind it."""

    def reply(seen: Any) -> Any:
        sent = dict(seen.headers)
        own = {name: sent[name] for name in ("Request-Id", "Idempotency-Key")}
        return status, {**own, "Location": "/cart"}, body

    service = RoughService(reply)
    with service.running() as url, pytest.raises(Unconfirmed, match="It may have happened"):
        HttpGrocery(url, TOKEN).create_cart(OAT, "k")
    assert [seen.method for seen in service.seen] == ["POST"]


# Refusals ----------------------------------------------------------------------------------


def test_a_refusal_comes_back_as_what_it_is(tmp_path: Path) -> None:
    with grocery(tmp_path) as made:
        ground = made.for_test("")
        client = ground.client
        with pytest.raises(NotFound, match=r"no cart 'C99'. Open carts: C16"):
            client.cart("C99")
        with pytest.raises(Refused, match="not available"):
            client.create_cart([Wanted("P9", 1)], "a")
        client.create_cart(OAT, "b")
        with pytest.raises(KeyReused, match="belongs to another request"):
            client.create_cart([Wanted("P3", 3)], "b")
        assert ground.done == 1


def test_too_many_requests_say_how_long_to_wait(ground: Ground) -> None:
    ground.service.next("is limited")
    with pytest.raises(Busy) as caught:
        ground.do(ground.client, "k")
    assert caught.value.retry_after == 7


def test_a_busy_service_says_that_nothing_was_changed(tmp_path: Path) -> None:
    import sqlite3

    shop = GroceryShop(tmp_path / "grocery.db", busy_timeout=0)
    shop.carts()
    with served(grocery_service(shop, TOKEN)) as url:
        other = sqlite3.connect(shop.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Busy, match="nothing was changed") as caught:
            HttpGrocery(url, TOKEN).create_cart(OAT, "k")
        other.close()
        assert caught.value.retry_after == 1


def test_an_unconfirmed_change_stays_unconfirmed(tmp_path: Path) -> None:
    class HalfBroken(GroceryShop):
        def create_cart(self, *args: Any, **kwargs: Any) -> Any:
            super().create_cart(*args, **kwargs)
            raise Unconfirmed("disk I/O error: it may have happened.")

    with served(grocery_service(HalfBroken(tmp_path / "grocery.db"), TOKEN)) as url:
        client = HttpGrocery(url, TOKEN)
        with pytest.raises(Unconfirmed):
            client.create_cart(OAT, "k")
        assert client.find("k") is not None


def test_another_token_is_refused_and_changes_nothing(ground: Ground) -> None:
    for token in ("other", f"{TOKEN}x", TOKEN.upper()):
        with pytest.raises(Refused, match="bearer token"):
            ground.do(type(ground.client)(ground.url, token), "k")
    assert ground.done == 0


# The service, spoken to by hand ------------------------------------------------------------

ORDER = {"cart_id": "C16", "expected_total": "9.44", "currency": "EUR"}


@pytest.fixture
def shop_url(tmp_path: Path) -> Iterator[str]:
    application: ASGIApp = grocery_service(GroceryShop(tmp_path / "grocery.db"), TOKEN)
    with served(application) as url:
        yield url


def post(url: str, body: Any = ORDER, **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    with httpx.Client(trust_env=False) as client:
        return client.post(url, content=content, headers={**bearer(TOKEN), **named})


def error_of(answer: httpx.Response) -> dict[str, Any]:
    found: dict[str, Any] = answer.json()["error"]
    return found


def test_an_answer_repeats_what_it_belongs_to(shop_url: str) -> None:
    answer = post(f"{shop_url}/place_order", Idempotency_Key="k-1", Request_Id="r-1")
    assert answer.status_code == 200
    assert answer.json()["result"]["total"] == "9.44"
    assert (answer.headers["Idempotency-Key"], answer.headers["Request-Id"]) == ("k-1", "r-1")
    refused = post(f"{shop_url}/place_order", Idempotency_Key="k-2", Request_Id="r-2")
    assert refused.status_code == 422
    assert (refused.headers["Idempotency-Key"], refused.headers["Request-Id"]) == ("k-2", "r-2")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"cart_id": "C16"}',
        {**ORDER, "expected_total": 944},
        {**ORDER, "expected_total": 9.44},
        {**ORDER, "expected_total": "9,44"},
        {**ORDER, "expected_total": "-9.44"},
        {**ORDER, "currency": "eur"},
        {**ORDER, "cart_id": 16},
        {**ORDER, "tip": "1.00"},
    ],
)
def test_arguments_that_do_not_fit_are_refused(shop_url: str, body: Any) -> None:
    answer = post(f"{shop_url}/place_order", body, Idempotency_Key="k")
    assert answer.status_code == 400
    assert (error_of(answer)["code"], error_of(answer)["changed"]) == ("invalid", False)


def test_a_write_needs_a_key_and_the_right_method(shop_url: str) -> None:
    assert post(f"{shop_url}/place_order").status_code == 400
    assert post(f"{shop_url}/place_order?cart_id=C16", Idempotency_Key="k").status_code == 400
    assert post(f"{shop_url}/cart", Idempotency_Key="k").status_code == 405
    with httpx.Client(trust_env=False, headers=bearer(TOKEN)) as client:
        assert client.get(f"{shop_url}/place_order").status_code == 405
        assert client.get(f"{shop_url}/cart?cart_id=C16&cart_id=C15").status_code == 400
        assert client.get(f"{shop_url}/carts?page=0&page_size=5").status_code == 400
        assert client.get(f"{shop_url}/_book").status_code == 404
        assert error_of(client.get(f"{shop_url}/nothing"))["changed"] is False


@pytest.mark.parametrize("header", ["", "Bearer", f"Basic {TOKEN}", "Bearer \xe9"])
def test_without_the_token_nothing_is_answered(shop_url: str, header: str) -> None:
    with httpx.Client(trust_env=False) as client:
        answer = client.get(
            f"{shop_url}/cart?cart_id=C16", headers=[(b"authorization", header.encode("latin-1"))]
        )
    assert answer.status_code == 401
    assert "C16" not in answer.text


def test_a_request_is_read_to_its_bound_and_no_further(shop_url: str) -> None:
    too_large = b" " * (MAX_REQUEST + 1)
    assert post(f"{shop_url}/place_order", too_large, Idempotency_Key="k").status_code == 413


def test_a_request_that_is_cut_off_changes_nothing(tmp_path: Path) -> None:
    shop = GroceryShop(tmp_path / "grocery.db")
    body = json.dumps(ORDER).encode()
    with served(grocery_service(shop, TOKEN)) as url:
        port = int(url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as connection:
            head = (
                f"POST /place_order HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
                f"Idempotency-Key: k\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            connection.sendall(head.encode() + body[:-5])
    assert shop.cart("C16").status == "open"
    assert shop.find("k") is None


def test_what_breaks_inside_tells_no_details(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    class Broken(GroceryShop):
        def place_order(self, *args: Any, **kwargs: Any) -> Any:
            raise RuntimeError("db=/srv/shop/prod.db")

    with served(grocery_service(Broken(tmp_path / "grocery.db"), TOKEN)) as url:
        answer = post(f"{url}/place_order", Idempotency_Key="k")
    assert (answer.status_code, error_of(answer)["changed"]) == (500, None)
    assert "prod.db" not in answer.text
