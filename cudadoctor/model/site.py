"""Where the manual stands on the web: one constant, and the address of each page below it.

`.example` is a name that nobody can register (RFC 2606): until the manual has a home no link of ours can lead to a stranger's page.
`cudadoctor guide` and `cudadoctor explain` print the same pages without a network.
"""

from __future__ import annotations

ADDRESS = "https://cudadoctor.example/"


def of_cause(cause_id: str) -> str:
    """The page of a cause, `causes/<id>`: stable."""
    return f"{ADDRESS}causes/{cause_id}/"
