"""The parts that all pages have: the frame with its styles, tables, tags, bars. Names are data, never markup."""

import html
from collections.abc import Iterable, Sequence
from importlib.resources import files
from string import Template

from ckptstore.wording import printable

TONES = {
    "pass": "pass",
    "restored": "pass",
    "good": "pass",
    "fail": "fail",
    "lost": "fail",
    "degraded": "odd",
    "unknown": "odd",
    "untested": "odd",
    "changed": "odd",
}
"""The colours of verdicts and states; the words stand beside them always."""

__all__ = ["TONES", "bars", "command", "frame", "resource", "sentence", "table", "tag", "text"]


def frame(heading: str, *, about: str, when: str, main: str, style: str = "") -> bytes:
    """A whole page, as UTF-8. `about`: what its title says after the heading; `main` is HTML, `style` more CSS."""
    filled = Template(resource(__name__.rpartition(".")[0], "frame.html")).substitute(
        title=text(f"{heading}: {about}"),
        heading=text(heading),
        when=text(when),
        style=resource(__name__.rpartition(".")[0], "base.css") + style,
        main=main,
    )
    return filled.encode("utf-8", "backslashreplace")


def resource(package: str, name: str) -> str:
    """A file that lies beside the code."""
    return files(package).joinpath(name).read_text(encoding="utf-8")


def text(value: object) -> str:
    """`value` as text of a page or of an attribute; control characters are spelled out."""
    return html.escape(printable(str(value)))


def sentence(words: str) -> str:
    """With a capital first."""
    return text(f"{words[:1].upper()}{words[1:]}")


def command(words: str) -> str:
    """What to do next: as a command where it is one."""
    return f"<code>{text(words)}</code>" if words.startswith("ckpt ") else text(words)


def tag(word: str, tone: str) -> str:
    """A word on the colour of a verdict or state."""
    return f'<span class="tag {TONES.get(tone, "plain")}">{text(word)}</span>'


def bars(taken: float, predicted: float | None, longest: float, label: str) -> str:
    """Seconds taken over seconds predicted, on the scale of the `longest` of a table."""
    lines = "".join(
        f'<div class="bar {kind}" style="width:{100 * seconds / longest:.1f}%"></div>'
        for kind, seconds in (("", taken), ("before", predicted or 0.0))
        if longest and seconds
    )
    return f"<div>{lines}{text(label)}</div>"


def table(headings: Sequence[tuple[str, str]], rows: Iterable[Sequence[str]]) -> str:
    """Of cells that are HTML already; (heading, class) of each column. On a phone each cell tells its heading."""
    head = "".join(f'<th scope="col" class="{kind}">{text(words)}</th>' for words, kind in headings)
    body = "\n".join(
        "<tr>"
        + "".join(
            f'<td class="{kind}" data-label="{text(words)}">{cell}</td>'
            for (words, kind), cell in zip(headings, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return f'<table class="stack"><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>'
