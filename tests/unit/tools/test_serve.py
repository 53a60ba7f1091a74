"""The sample services as programs: real processes, real HTTP."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from agent.config import load_settings
from tests.support.served import bearer, process
from tools.worlds.bank import Instruction
from tools.worlds.bank_http import HttpBank
from tools.worlds.grocery import GroceryShop
from tools.worlds.grocery_http import HttpGrocery
from tools.worlds.sample_bank import EVERYDAY, SAVINGS

PROGRAM = "tools.worlds.serve"
TOKEN = "world-token-1f0c77aa"


def options(folder: Path) -> list[str]:
    return ["--port", "0", "--data", str(folder / "world.db")]


def refused(*arguments: str, **env: str) -> str:
    """What is said by a program that does not start."""
    ended = subprocess.run(
        [sys.executable, "-m", PROGRAM, *arguments],
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout) == (2, ""), ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stderr


def test_the_shop_serves_whoever_knows_the_token_and_keeps_its_data(tmp_path: Path) -> None:
    arguments = [PROGRAM, "grocery", *options(tmp_path), "--token-env", "SHOP"]
    with process(*arguments, SHOP=TOKEN) as running:
        assert httpx.get(f"{running.url}/carts").status_code == 401
        shop = HttpGrocery(running.url, TOKEN)
        done = shop.discard_cart("C16", "key-1")
        assert shop.discard_cart("C16", "key-1") == done
    assert running.log == f"Listening on {running.url}\n", "and no token"
    with process(*arguments, SHOP=TOKEN) as running:
        shop = HttpGrocery(running.url, TOKEN)
        assert shop.cart("C16").status == "discarded"
        assert shop.find("key-1") == done


def test_a_token_is_made_for_a_run_where_none_is_named(tmp_path: Path) -> None:
    tokens = set()
    for _ in "12":
        with process(PROGRAM, "bank", *options(tmp_path)) as running:
            (token,) = re.findall(r"^Token, for this run: (\S{16,})$", running.log, re.M)
            bank = HttpBank(running.url, token)
            before = bank.account(SAVINGS).balance
            wanted = Instruction(EVERYDAY, SAVINGS, 100, "EUR", f"id-{token}")
            assert bank.transfer(wanted, token).status == "settled"
            assert bank.account(SAVINGS).balance == before + 100
            tokens.add(token)
    assert len(tokens) == 2


@pytest.mark.parametrize("given", ["SAYSO_HOME", "~", "the default"])
def test_its_data_are_those_of_sayso_in_a_folder_of_its_owners(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env, home = {
        "SAYSO_HOME": ({"SAYSO_HOME": str(tmp_path / "a" / "state")}, tmp_path / "a" / "state"),
        "~": ({"SAYSO_HOME": "~/state", "HOME": str(tmp_path)}, tmp_path / "state"),
        "the default": ({"SAYSO_HOME": " ", "XDG_STATE_HOME": str(tmp_path)}, tmp_path / "sayso"),
    }[given]
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    with process(
        PROGRAM, "grocery", "--port", "0", "--token-env", "SHOP", SHOP=TOKEN, **env
    ) as run:
        HttpGrocery(run.url, TOKEN).discard_cart("C16", "key-1")
    settings = load_settings()
    assert settings.home == home
    assert settings.ensure_home() == home, "and it is open to nobody else"
    shop = GroceryShop(settings.home / "worlds" / "grocery.db")
    assert shop.cart("C16").status == "discarded"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "a request half sent"])
def test_a_signal_ends_it_cleanly(number: signal.Signals, busy: bool, tmp_path: Path) -> None:
    with process(
        PROGRAM, "grocery", *options(tmp_path), "--token-env", "SHOP", SHOP=TOKEN
    ) as running:
        port = int(running.url.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as line:
            if busy:
                line.sendall(
                    b"POST /create_cart HTTP/1.1\r\nHost: shop\r\nContent-Length: 99\r\n"
                    b"Expect: 100-continue\r\nAuthorization: Bearer " + TOKEN.encode() + b"\r\n\r\n"
                )
                assert line.recv(100).startswith(b"HTTP/1.1 100 "), "it waits for the body"
            running.running.send_signal(number)
            running.running.wait()
    assert running.running.returncode == 0
    assert "Traceback" not in running.log


def test_beyond_this_machine_it_needs_a_token_of_its_owners(tmp_path: Path) -> None:
    for host in ("0.0.0.0", "::"):
        told = refused("grocery", "--host", host, *options(tmp_path))
        assert f"--host {host}: others could call there; it needs --token-env NAME" in told
    arguments = ["grocery", "--host", "0.0.0.0", *options(tmp_path), "--token-env", "SHOP"]
    with process(PROGRAM, *arguments, SHOP=TOKEN) as running:
        url = running.url.replace("0.0.0.0", "127.0.0.1")
        assert httpx.get(f"{url}/carts").status_code == 401
        assert HttpGrocery(url, TOKEN).carts().matched == 3


@pytest.mark.parametrize("host", ["localhost", "127.0.0.2", "::1"])
def test_this_machine_has_several_names(host: str, tmp_path: Path) -> None:
    if host == "::1":
        try:
            socket.create_server((host, 0), family=socket.AF_INET6).close()
        except OSError:
            pytest.skip("no IPv6 here")
    with process(PROGRAM, "grocery", "--host", host, *options(tmp_path)) as running:
        assert httpx.get(f"{running.url}/carts", headers=bearer("x")).status_code == 401


BAD: dict[str, tuple[list[str], str]] = {
    "nothing": ([], "the following arguments are required: world"),
    "no such world": (["orders"], "invalid choice: 'orders'"),
    "a port in words": (["bank", "--port", "web"], "'web' is no port: 0 to 65535"),
    "no such port": (["bank", "--port", "65536"], "'65536' is no port"),
    "a negative port": (["bank", "--port", "-1"], "'-1' is no port"),
    "no such host": (["bank", "--host", "no such host"], "no such host:8772 cannot be used"),
    "no host": (["bank", "--host", ""], "cannot be used"),
    "a host elsewhere": (
        ["bank", "--host", "192.0.2.1", "--port", "0", "--token-env", "GOOD"],
        "192.0.2.1:0 cannot be used",
    ),
    "no variable": (["bank", "--token-env", "NO_SUCH"], "NO_SUCH: there is no such variable"),
    "a short token": (["bank", "--token-env", "SHORT"], "at least 16 visible ASCII characters"),
    "an odd token": (["bank", "--token-env", "ODD"], "at least 16 visible ASCII characters"),
    "a folder": (["bank", "--port", "0", "--data", "."], "database cannot be used"),
    "no state folder": (["bank", "--port", "0"], "SAYSO_HOME /proc/x cannot be used: "),
    "no place": (["bank", "--port", "0", "--data", "/proc/x/y.db"], "No such file or directory"),
}


@pytest.mark.parametrize(("arguments", "said"), BAD.values(), ids=BAD)
def test_what_keeps_it_from_starting_is_said(arguments: list[str], said: str) -> None:
    secrets = {"GOOD": TOKEN, "SHORT": "tiny-secret", "ODD": "tiny secret with spaces"}
    secrets["SAYSO_HOME"] = "/proc/x"
    told = refused(*arguments, **secrets)
    assert said in told.replace("\n", " ")
    assert "tiny" not in told


def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        told = refused("grocery", "--data", str(tmp_path / "w.db"), "--port", port)
    assert f"127.0.0.1:{port} cannot be used: Address already in use" in told
    assert not (tmp_path / "w.db").exists(), "and nothing was made"


@pytest.mark.parametrize("foreign", ["text", "another world's"])
def test_a_file_of_another_kind_is_left_alone(foreign: str, tmp_path: Path) -> None:
    path = tmp_path / "world.db"
    if foreign == "text":
        path.write_text("no database\n" * 100)
    else:
        with process(PROGRAM, "grocery", *options(tmp_path)):
            pass
    before = path.read_bytes()
    told = refused("bank", *options(tmp_path))
    assert "The bank's database cannot be used" in told
    assert path.read_bytes() == before
