"""PCI addresses, of which every tool has a spelling of its own."""

from __future__ import annotations

from functools import lru_cache

from cudadoctor.model.pattern import lazy

_ADDRESS = lazy(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.([0-7]))?")


@lru_cache(maxsize=4096)
def normal_address(text: str) -> str | None:
    """`01:00.0`, `00000000:01:00.0` and `0000:01:00` as `0000:01:00.0`; None where it is no address."""
    match = _ADDRESS.fullmatch(text)
    if match is None:
        return None
    domain, bus, device, function = match.groups()
    domain = (domain or "0000").lower()
    if len(domain) > 4 and set(domain[:-4]) == {"0"}:
        domain = domain[-4:]
    return f"{domain}:{bus}:{device}.{function or '0'}".lower()
