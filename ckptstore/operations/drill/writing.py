"""The reports of a drill: JSON for scripts and later drills, JUnit XML for a CI server, a page for people."""

from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec

from ckptstore.operations.drill.page import page
from ckptstore.operations.drill.report import FORMAT, DrillReport, Restored
from ckptstore.wording import printable

__all__ = ["as_json", "as_junit", "write_report"]


def write_report(report: DrillReport, folder: Path) -> None:
    """Write the three files, `drill-<time>.json`, `.xml` and `.html`, and note them in the report."""
    stem = _free_name(folder, f"drill-{datetime.fromisoformat(report.began):%Y%m%dT%H%M%SZ}")
    write: dict[str, Callable[[DrillReport], bytes]] = {".json": as_json, ".xml": as_junit, ".html": page}
    report.files = [str(folder / f"{stem}{suffix}") for suffix in write]
    for suffix, make in write.items():
        with (folder / f"{stem}{suffix}").open("xb") as file:
            file.write(make(report))


def as_json(report: DrillReport) -> bytes:
    """All of the report, with its exit code."""
    fields = {"format": FORMAT, **msgspec.to_builtins(report), "exit_code": report.exit_code}
    return msgspec.json.format(msgspec.json.encode(fields), indent=2) + b"\n"


def as_junit(report: DrillReport) -> bytes:
    """One test case for each checkpoint in each round, and one for each objective."""
    cases = list(_cases(report))
    counts = {
        "tests": len(cases),
        **{f"{kind}s": sum(case.find(kind) is not None for case in cases) for kind in ("failure", "error")},
        "skipped": sum(case.find("skipped") is not None for case in cases),
    }
    name = f"ckpt drill {report.store} {report.run}"
    fields = {"name": name, "timestamp": report.began, "time": f"{report.seconds:.3f}", **counts}
    suite = _element("testsuite", **fields)
    suite.extend(cases)
    root = _element("testsuites", name=name, **counts)
    root.append(suite)
    ET.indent(root)
    found: bytes = ET.tostring(root, encoding="utf-8", xml_declaration=True)
    return found + b"\n"


def _free_name(folder: Path, stem: str) -> str:
    """Two drills may begin in one second."""
    number, name = 1, stem
    while any((folder / f"{name}{suffix}").exists() for suffix in (".json", ".xml", ".html")):
        number += 1
        name = f"{stem}-{number}"
    return name


def _cases(report: DrillReport) -> Iterator[ET.Element]:
    for number, each in enumerate(report.rounds, 1):
        for result in each.results:
            classname = f"drill.round-{number}{f'.{each.name}' if each.name else ''}"
            case = _element("testcase", classname=classname, name=result.name, time=f"{result.seconds:.3f}")
            _tell(case, result)
            yield case
    for verdict in report.verdicts:
        case = _element("testcase", classname="drill.objectives", name=f"{verdict.objective}: {verdict.wanted}")
        kind = {"fail": "failure", "untested": "skipped"}.get(verdict.verdict)
        if kind:
            case.append(_element(kind, message=verdict.found))
        yield case


def _tell(case: ET.Element, result: Restored) -> None:
    kind = {"lost": "failure", "unknown": "error", "changed": "skipped"}.get(result.state)
    if kind:
        case.append(_element(kind, message=result.message, **({} if kind == "skipped" else {"type": result.kind})))


def _element(tag: str, **fields: Any) -> ET.Element:
    """XML can't hold control characters, not even escaped; names of others may."""
    return ET.Element(tag, {key: printable(str(value)) for key, value in fields.items()})
