"""``sayso policy``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.program import Invoke

PAGE = """version: 1
rules:
  - {name: small, tools: refund_order, when: amount <= 50, verdict: allow}
  - {name: big, tools: refund_order, when: total > 500, verdict: deny, message: Call them.}
tests:
  - {call: 'refund_order({"order_id": "C1", "amount": "50.00", "currency": "EUR"})', expect: allow}
"""
REFUND = 'refund_order({"order_id": "C1", "amount": "%s", "currency": "EUR"})'


@pytest.fixture
def page(folder: Path) -> Path:
    path = folder / "policy.yaml"
    path.write_text(PAGE)
    return path


def test_a_right_file_is_checked_without_being_used(sayso: Invoke, page: Path) -> None:
    checked = sayso("policy", "check")
    assert (checked.code, checked.out) == (0, "")
    assert "policy.yaml: no faults." in checked.err
    assert "Ignored" not in checked.err


def test_faults_are_answered_with_their_lines(sayso: Invoke, page: Path) -> None:
    page.write_text(PAGE.replace("refund_order, when", "refund_ordr, when", 1))
    checked = sayso("policy", "check")
    assert checked.code == 1
    assert checked.out.startswith("policy.yaml:3:5: 'small' never matches: no tool is called")
    as_json = sayso("policy", "check", "policy.yaml", "--json")
    assert as_json.code == 1
    assert len(json.loads(as_json.out)["faults"]) == 1
    assert sayso("policy", "test").code == 2


def test_a_warning_is_none(sayso: Invoke, page: Path) -> None:
    page.write_text(PAGE.replace("when: total > 500", "when: amount <= 50"))
    checked = sayso("policy", "check")
    assert checked.code == 0
    assert "the more restrictive one wins (a warning)" in checked.out


def test_the_tools_of_all_bundled_domains_are_known(sayso: Invoke, folder: Path) -> None:
    names = ["transfer_funds", "web_fetch", "write_file", "place_order"]
    rules = [f"  - {{name: {name}, tools: {name}, verdict: ask}}" for name in names]
    (folder / "p.yaml").write_text("version: 1\nrules:\n" + "\n".join(rules))
    found = sayso("policy", "check", "p.yaml", "--tools", "orders")
    assert (found.code, found.out) == (0, "")


def test_tests_pass_or_fail_with_their_lines(sayso: Invoke, page: Path) -> None:
    assert sayso("policy", "test").code == 0
    page.write_text(PAGE.replace("expect: allow", "expect: deny"))
    failed = sayso("policy", "test")
    assert failed.code == 1
    assert failed.out.startswith("policy.yaml:6: refund_order: expected deny, got allow")
    (row,) = json.loads(sayso("policy", "test", "--json").out)
    assert (row["line"], row["passed"]) == (6, False)


def test_arguments_that_do_not_fit_fail_a_test(sayso: Invoke, page: Path) -> None:
    page.write_text(PAGE.replace('"50.00"', '"fifty"'))
    failed = sayso("policy", "test")
    assert (failed.code, "do not fit refund_order" in failed.out) == (1, True)


def test_a_projects_file_is_tested_below_the_organisations(
    sayso: Invoke, page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    above = page.parent / "org.yaml"
    above.write_text("version: 1\ndefault: {writes: ask}\n")
    monkeypatch.setenv("SAYSO_POLICY", "org.yaml")
    failed = sayso("policy", "test")
    assert (failed.code, "organisation/default" in failed.out) == (1, True)
    above.unlink()
    gone = sayso("policy", "check")
    assert (gone.code, "SAYSO_POLICY=org.yaml: expected a file that exists" in gone.err) == (
        2,
        True,
    )


def test_without_a_file_there_is_nothing_to_look_at(sayso: Invoke) -> None:
    for command in ("check", "test"):
        found = sayso("policy", command)
        assert (found.code, "There is no policy" in found.err) == (2, True)
    assert sayso("policy", "check", "gone.yaml").code == 2


def test_explain_uses_a_folders_file_only_when_it_may(sayso: Invoke, page: Path) -> None:
    ignored = sayso("policy", "explain", REFUND % "5.00")
    assert ignored.out.startswith("ask (writes)\n")
    assert "Ignored policy.yaml" in ignored.err
    used = sayso("policy", "explain", "--trust", REFUND % "5.00")
    assert used.out.startswith("allow (project/small)\n")


def test_explain_pretends_what_it_is_told(sayso: Invoke, page: Path) -> None:
    def verdict(*options: str) -> str:
        found = sayso("policy", "explain", REFUND % "80.00", "--trust", "--json", *options)
        assert found.code == 0
        return str(json.loads(found.out)["verdict"])

    assert verdict() == "ask"
    assert verdict("--always") == "allow"
    assert verdict("--spent", "spend:refund-eur=420.00") == "ask"
    assert verdict("--spent", "spend:refund-eur=420.01", "--always") == "deny"
    assert verdict("--grant", "read:*") == "deny"
    assert verdict("--deny", "spend:*") == "deny"
    page.write_text(
        "version: 1\nrules:\n"
        "  - {name: a, when: '\"private\" in labels', verdict: deny}\n"
        "  - {name: b, when: 'session.counts[\"refund_order\"] > 1', verdict: deny}\n"
        "  - {name: c, when: 'has(args.amount) && provenance.amount == \"untrusted\"', "
        "verdict: deny}\n"
    )
    assert verdict() == "ask"
    assert verdict("--label", "private") == "deny"
    assert verdict("--count", "refund_order=2") == "deny"
    assert verdict("--origin", "amount=untrusted") == "deny"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["no_such_tool()"], "No tool 'no_such_tool'"),
        (["refund_order({"], "a call is written as"),
        (["refund_order({})"], "do not fit refund_order"),
        ([REFUND % "5.00", "--label", "odd"], "expected untrusted, private"),
        ([REFUND % "5.00", "--count", "refund_order"], "expected a name, = and a value"),
        ([REFUND % "5.00", "--count", "refund_order=many"], "expected a whole number"),
        ([REFUND % "5.00", "--spent", "spend:eur=inf"], "expected an amount such as 12.50"),
    ],
)
def test_what_cannot_be_explained_is_said(sayso: Invoke, arguments: list[str], said: str) -> None:
    found = sayso("policy", "explain", *arguments)
    assert found.code == 2
    assert said in found.err
