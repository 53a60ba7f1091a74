"""What CI servers read: JUnit's XML, and the annotations of GitHub's log."""

from __future__ import annotations

import re
from collections.abc import Iterator
from xml.etree import ElementTree

from agent.evals.reports.runs import Run
from agent.evals.tasks.record import Trial
from agent.safe_text import one_line, shorten

_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
LONGEST = 20_000


def junit(run: Run) -> str:
    """A test suite for each world, a test case for each trial."""
    root = ElementTree.Element("testsuites", name=_xml(run.title))
    for one in run.diagnoses:
        suite = ElementTree.SubElement(
            root,
            "testsuite",
            name=_xml(f"{one.world}, policy in the {one.policy_in}"),
            tests=str(len(one.trials)),
            failures=str(sum(not t.passed and t.error is None for t in one.trials)),
            errors=str(sum(t.error is not None for t in one.trials)),
            time=f"{sum(t.figures.seconds for t in one.trials):.3f}",
        )
        for trial in one.trials:
            _case(suite, trial)
    ElementTree.indent(root)
    return ElementTree.tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: ElementTree.Element, trial: Trial) -> None:
    case = ElementTree.SubElement(
        suite,
        "testcase",
        classname=_xml(f"sayso.{trial.world}.{trial.policy_in}"),
        name=_xml(f"{trial.task} trial {trial.number}"),
        time=f"{trial.figures.seconds:.3f}",
    )
    if not trial.passed:
        kind = "error" if trial.error is not None else "failure"
        found = ElementTree.SubElement(case, kind, message=_xml(_what(trial)))
        found.text = _xml(shorten("\n".join([trial.story, *trial.problems]), LONGEST))


def github_annotations(run: Run) -> Iterator[str]:
    """A line for GitHub's log for each task that failed, with how often it did."""
    for one in run.diagnoses:
        for task, trials in one.by_task.items():
            if failed := [trial for trial in trials if not trial.passed]:
                title = f"{one.world}: {task} failed {len(failed)} of {len(trials)}"
                yield f"::error title={_property(title)}::{_message(_what(failed[0]))}"


def _what(trial: Trial) -> str:
    if trial.error is not None:
        return one_line(shorten(trial.error, 500))
    what = trial.failure.what if trial.failure is not None else "; ".join(trial.problems)
    return one_line(shorten(what, 500))


def _xml(text: str) -> str:
    """A text without the characters that XML does not have."""
    return _NO_XML.sub("\ufffd", text)


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
