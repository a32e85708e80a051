"""Files that somebody else may have put in the place of those that are read: pipes, devices, links, and contents that no program wrote."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cudadoctor.commands import policy_file
from cudadoctor.sources import container_stack, owners, plain_files, trust

AS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_what_is_no_plain_file_holds_nobody_up(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.mkdir()
    assert plain_files.beginning(str(path), 100) == ""
    with pytest.raises(OSError, match="no plain file"):
        plain_files.text(str(path), 100)


def test_a_file_is_read_as_far_as_was_asked(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"a\r\nb\xff")
    assert plain_files.beginning(str(tmp_path / "file"), 5) == "a\nb\ufffd"
    assert plain_files.beginning(str(tmp_path / "file"), 1) == "a"


@pytest.mark.skipif(not AS_ROOT, reason="only root can be tricked")
@pytest.mark.parametrize("target", ["/etc/shadow", "/proc/kmsg"])
def test_root_follows_no_link_of_another_user(target: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read of /proc/kmsg waits, and takes the messages from the system's log."""
    folder = tmp_path / "strange"
    folder.mkdir()
    link = folder / policy_file.PROJECT
    link.symlink_to(target)
    os.chown(link, 1000, 1000, follow_symlinks=False)
    assert plain_files.beginning(str(link), 100) == ""
    assert policy_file.gathered(None, (), (), str(folder)).refused is None
    link.unlink()
    link.symlink_to(tmp_path / "own")  # root's own
    (tmp_path / "own").write_text("x")
    assert plain_files.beginning(str(link), 100) == "x"


@pytest.mark.skipif(not AS_ROOT, reason="only root can make a link another user's")
def test_inside_a_user_namespace_the_hosts_own_links_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/etc/os-release is one, and belongs to nobody there. What is written follows none of them."""
    link = tmp_path / "os-release"
    link.symlink_to("/etc/passwd")
    os.chown(link, 65534, 65534, follow_symlinks=False)
    assert plain_files.beginning(str(link), 4) == ""
    monkeypatch.setattr(owners, "is_unmapped", lambda user: user == 65534)
    assert plain_files.beginning(str(link), 4) == "root"
    assert trust.strange_link(str(link)) == str(link)


@pytest.mark.parametrize("content", [None, '{"a":' * 100_000, '{"currentContext": "x\\nnvidia-ctk: /usr/bin/nvidia-ctk"}', "[]"])
def test_settings_of_docker_that_no_docker_wrote(content: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "docker").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "docker").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    path = tmp_path / ".docker" / "config.json"
    path.parent.mkdir()
    if content is None:
        os.mkfifo(path)
    else:
        path.write_text(content)
    said = container_stack.read_container_stack("")
    assert "context" not in said
    assert "nvidia-ctk" not in said
    path.unlink()
    path.write_text('{"currentContext": "desktop-linux"}')
    assert "context: desktop-linux\n" in container_stack.read_container_stack("")
