"""Files that the user asked for. What another user put in their way is not followed: he would choose which file root overwrites."""

from __future__ import annotations

import errno

from cudadoctor.sources import trust


def text(path: str, body: str, *, mode: str = "w") -> None:
    """Writes or, with mode "a", appends. OSError where it cannot be written, or where a link of another user leads elsewhere."""
    strange = trust.strange_link(path)
    if strange is not None:
        raise OSError(errno.EPERM, f"{strange} is a link that another user made", path)
    with open(path, mode, encoding="utf-8") as stream:
        stream.write(body)
