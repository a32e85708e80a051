"""HTML pages that tests look at, and a reader of HTML that keeps the tree."""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

import msgspec

from cudadoctor.model.report import Report
from tests.test_formats import report_of, shown

VOID = {"meta", "link", "br", "img", "input", "hr"}
# Values of a closed set, which no machine can choose; the cause must be one that is known.
FIXED = {
    "schema", "kind", "verdict", "action", "status", "cause", "layer", "effect", "basis", "mode", "who", "stage", "state", "flavour", "url",
}  # fmt: skip


@dataclass
class Node:
    tag: str
    attributes: dict[str, str | None] = field(default_factory=dict)
    inner: list[Node | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "".join(one if isinstance(one, str) else one.text for one in self.inner)

    @property
    def words(self) -> str:
        """The text a reader sees, on one line."""
        return " ".join(self.text.split())

    def all(self, *tags: str, **attributes: str) -> list[Node]:
        wanted = {name.rstrip("_"): value for name, value in attributes.items()}
        return [
            node
            for node in self.below
            if (not tags or node.tag in tags)
            and all(value in (node.attributes.get(name) or "").split() or value == node.attributes.get(name) for name, value in wanted.items())
        ]  # fmt: skip

    def one(self, *tags: str, **attributes: str) -> Node:
        (node,) = self.all(*tags, **attributes)
        return node

    @functools.cached_property
    def below(self) -> list[Node]:
        """All that is in it, in the order of the page; asked when the page was read."""
        return [node for one in self.inner if isinstance(one, Node) for node in (one, *one.below)]

    def shape(self) -> list[tuple[str, tuple[str, ...]]]:
        """Every tag with the names of its attributes."""
        return [(node.tag, tuple(node.attributes)) for node in self.below]


class _Reader(HTMLParser):
    """Every tag must be closed in its turn, or this is no page of ours."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("")
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len(dict(attrs)) == len(attrs), f"an attribute twice in <{tag}>"
        node = Node(tag, dict(attrs))
        self.open[-1].inner.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> within <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].inner.append(data)


def tree(page: str) -> Node:
    reader = _Reader()
    reader.feed(page)
    reader.close()
    assert len(reader.open) == 1
    return reader.root


def page_of(report: Report) -> str:
    return shown(report, "html")


@functools.cache
def page_tree(name: str) -> Node:
    """The page of a recorded host."""
    return tree(page_of(report_of(name)))


def saying(text: str, name: str = "pcie-link-x4") -> Report:
    """A report in which every word that is not of a closed set is this text."""

    def altered(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {(text if key == "packages" else inner): altered(one, inner) for inner, one in value.items()}
        if isinstance(value, (list, tuple)):
            return [altered(one, key) for one in value]
        return text if isinstance(value, str) and key not in FIXED else value

    return msgspec.convert(altered(msgspec.to_builtins(report_of(name))), Report)
