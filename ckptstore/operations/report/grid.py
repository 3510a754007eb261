"""The heat map of a run: checkpoints by targets. Colour, sign and word say the same, so none is needed alone."""

from collections import Counter
from collections.abc import Iterable, Sequence

from ckptstore.operations.findings import Finding
from ckptstore.operations.pages import sentence, table, tag, text
from ckptstore.operations.report.content import STATES, Row, RunPart, StoreReport
from ckptstore.wording import count

SIGNS = {
    "good": ("✓", "all that is to be there is there"),
    "missing": ("∅", "something that is to be there is not"),
    "corrupt": ("✕", "something there is not what was stored, or cut short"),
    "unreachable": ("?", "the target does not answer, so nothing can be said"),
    "retired": ("↪", "still on a target that another has taken the place of"),
    "unknown": ("⁇", "no record can be read that says what is to be there"),
    "nothing": ("·", "nothing is to be there"),
}
"""The sign of each state, and what it means."""

READ, LISTED = "every byte was read", "what is there was listed, not read: ckpt report --read-data reads it"

__all__ = ["heat_map", "legend"]


def heat_map(part: RunPart, report: StoreReport) -> str:
    """Newest first: a row a checkpoint, a column a target; then what is amiss in words."""
    if not part.rows:
        return '<p class="faint">No checkpoint to show.</p>'
    head = "".join(
        f'<th scope="col">{text(name)}<span class="domain">{text(domain)}</span></th>'
        for name, domain in report.targets.items()
    )
    body = "\n".join(_row(row) for row in part.newest_first)
    label = f"Checkpoints of run {part.run} on each target"
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{text(label)}"><table class="map">'
        f'<thead><tr><th scope="col" class="corner">checkpoint</th>{head}</tr></thead>'
        f"<tbody>\n{body}\n</tbody></table></div>"
        f"{_details(part)}"
    )


def legend(report: StoreReport) -> str:
    """What the signs mean: of those that are to be seen, and of good always."""
    seen = {cell.state for part in report.runs for row in part.rows for cell in row.cells} | {"good"}
    items = "".join(
        f'<li><span class="cell {state}" aria-hidden="true">{SIGNS[state][0]}</span>'
        f"<strong>{state}</strong> {text(SIGNS[state][1])}</li>"
        for state in STATES
        if state in seen
    )
    how = READ if report.read_data else LISTED
    return f'<ul class="signs">{items}</ul><p class="faint">{sentence(how)}.</p>'


def _row(row: Row) -> str:
    cells = "".join(_cell(row, number) for number in range(len(row.cells)))
    deleted = f" {tag('deleted', '')}" if row.deleted else ""
    name = f'<span class="name" title="{text(row.name)}">{text(row.name)}</span>'
    return f'<tr><th scope="row">{name} {tag(row.state, row.state)}{deleted}</th>{cells}</tr>'


def _cell(row: Row, number: int) -> str:
    cell = row.cells[number]
    sign, _ = SIGNS[cell.state]
    told = f"{row.name} on {cell.target}: {cell.state}"
    told += f"; to be there: {cell.holds}" if cell.holds else ""
    told += f"; amiss: {cell.amiss}" if cell.amiss else ""
    word = cell.state if cell.state not in {"good", "nothing"} else ""
    shown = f'<span class="word">{word}</span>' if word else ""
    return (
        f'<td class="cell {cell.state}" title="{text(told)}" aria-label="{text(told)}">'
        f'<span aria-hidden="true">{sign}</span>{shown}</td>'
    )


def _details(part: RunPart) -> str:
    """What was found of each checkpoint, folded: a line for all of one kind on one target."""
    folds = [_fold(row.name, row.findings) for row in part.newest_first if row.findings]
    folds += [_fold("beside the checkpoints", part.beside)] if part.beside else []
    if not folds:
        return ""
    heading = f"What was found amiss in run {part.run}, in words"
    return f"<details><summary>{text(heading)}</summary>{''.join(folds)}</details>"


def _fold(name: str, findings: Sequence[Finding]) -> str:
    headings = [("what", ""), ("target", ""), ("objects", "number"), ("for example", "")]
    words = f"{name}: {count(len(findings), 'finding')}"
    return f"<details><summary>{text(words)}</summary>{table(headings, _grouped(findings))}</details>"


def _grouped(findings: Iterable[Finding]) -> Iterable[Sequence[str]]:
    groups: Counter[tuple[str, str, str]] = Counter()
    first: dict[tuple[str, str, str], Finding] = {}
    for finding in findings:
        group = (finding.kind, finding.what, finding.target)
        groups[group] += 1
        first.setdefault(group, finding)
    for group, number in groups.items():
        kind, what, target = group
        example = first[group]
        detail = f" ({example.detail})" if example.detail else ""
        yield [text(f"{kind} {what}"), text(target), f"{number:,}", text(f"{example.path}{detail}")]
