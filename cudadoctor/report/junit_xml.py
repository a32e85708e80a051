"""JUnit's XML: cases in suites, counted. Every word is cleaned and escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape

from cudadoctor.model.pattern import lazy
from cudadoctor.report.clean import clean, one_line

_NOT_XML = lazy("[\ufffe\uffff]")  # what XML 1.0 refuses and `clean` leaves
_COUNTED = {"failures": "failure", "errors": "error", "skipped": "skipped"}


def document(suites: Mapping[str, Sequence[str]], properties: Mapping[str, str], seconds: float) -> str:
    """`suites`: the cases of each, by name; the first has the properties."""
    every = [one for cases in suites.values() for one in cases]
    inner = [_suite(name, cases, properties if number == 0 else {}) for number, (name, cases) in enumerate(suites.items())]
    head = f'<testsuites name="cudadoctor" {_counts(every)} time="{seconds:.3f}">\n'
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{head}{"".join(inner)}</testsuites>\n'


def head(suite: str, name: str, seconds: float = 0.0) -> str:
    return f'classname="cudadoctor.{suite}" name="{_attribute(name)}" time="{seconds:.3f}"'


def passed(of: str, said: Iterable[str]) -> str:
    return f"    <testcase {of}>\n      <system-out>{_body(said)}</system-out>\n    </testcase>\n"


def not_passed(of: str, tag: str, message: str, said: Sequence[str] = (), *, kind: str = "") -> str:
    """`tag`: failure, error or skipped; `kind`: what a reader groups failures by."""
    named = f'{tag} type="{_attribute(kind)}"' if kind else tag
    inner = f'<{named} message="{_attribute(message)}"' + (f">{_body(said)}</{tag}>" if said else "/>")
    return f"    <testcase {of}>\n      {inner}\n    </testcase>\n"


def _suite(name: str, cases: Sequence[str], properties: Mapping[str, str]) -> str:
    entries = "".join(f'      <property name="{key}" value="{_attribute(value)}"/>\n' for key, value in properties.items())
    known = f"    <properties>\n{entries}    </properties>\n" if properties else ""
    return f'  <testsuite name="{name}" {_counts(cases)}>\n{known}{"".join(cases)}  </testsuite>\n'


def _counts(cases: Sequence[str]) -> str:
    numbers = {name: sum(f"<{tag} " in case for case in cases) for name, tag in _COUNTED.items()}
    return f'tests="{len(cases)}" ' + " ".join(f'{name}="{number}"' for name, number in numbers.items())


def _attribute(text: str) -> str:
    return _xml(one_line(text))


def _body(lines: Iterable[str]) -> str:
    return _xml(clean("\n".join(lines)))


def _xml(text: str) -> str:
    return escape(_NOT_XML.sub(lambda match: f"\\u{ord(match.group()):04x}", text), quote=True)
