"""Pages read as a strict reader would: what is open is closed, nothing comes from elsewhere, nothing runs."""

from html.parser import HTMLParser

SVG_LEAVES = {"line", "polyline"}
VOID = {"meta", "br"}


class Page(HTMLParser):
    """A page's text, links, ids, and the cells of its heat maps by (row, column)."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text: list[str] = []
        self.links: list[str] = []
        self.ids: list[str] = []
        self.cells: dict[tuple[str, str], tuple[str, str]] = {}
        self.commands: list[str] = []
        self.map = False
        self.columns: list[str] = []
        self.row: str | None = None
        self.at = 0
        text = data.decode()
        assert text.startswith("<!DOCTYPE html>")
        assert "url(" not in text
        assert "@import" not in text
        self.feed(text)
        self.close()
        assert self.open == []
        assert len({*self.ids}) == len(self.ids)
        assert {link.removeprefix("#") for link in self.links} <= {*self.ids}

    @property
    def said(self) -> str:
        return " ".join(" ".join(self.text).split())

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        assert len(values) == len(attrs)
        assert tag not in {"script", "link", "img", "iframe", "object", "embed", "form", "base", "image", "use"}
        assert not {"src", "srcset", "xlink:href", "action", "data"} & values.keys()
        assert not any(name.startswith("on") for name in values)
        if "href" in values:
            assert values["href"].startswith("#")
            self.links.append(values["href"])
        if "id" in values:
            self.ids.append(values["id"])
        if tag == "table":
            self.map, self.columns = values.get("class") == "map", []
        if tag == "tr":
            self.row, self.at = None, 0
        if tag == "td" and self.map:
            kind, _, state = values["class"].partition(" ")
            assert kind == "cell"
            assert values["title"] == values["aria-label"]
            self.cells[self.row, self.columns[self.at + 1]] = (state, values["title"])
            self.at += 1
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        assert tag in SVG_LEAVES

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] == ["style"]:
            return
        self.text.append(data)
        if self.open[-1:] == ["code"]:
            self.commands.append(data)
        if self.map and self.open[-3:] == ["thead", "tr", "th"]:
            self.columns.append(data)
        if self.map and self.open[-2:] == ["th", "span"] and "tbody" in self.open and self.row is None:
            self.row = data
