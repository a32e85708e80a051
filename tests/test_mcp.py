"""`cudadoctor mcp`, asked by the SDK's own client over standard input and output: it reads, it is bounded, it marks what a machine printed."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from cudadoctor.knowledge.load import load
from tests.command_line import ROOT, host

ENOUGH = 1_000_001
QUESTIONS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("check", {"replay": host("h200-visible-devices-word")}),
    ("explain", {"what": "Xid 79"}),
    ("explain", {"what": "epoch 1\nFailed to initialize NVML: Driver/library version mismatch\n"}),
    ("explain", {"what": "nonsense-xyz"}),
    ("explain", {"what": "x" * ENOUGH}),
    ("explain", {"what": "--help"}),
    ("suggest_fix", {"replay": host("h200-visible-devices-word")}),
    ("suggest_fix", {"cause": "nouveau-bound; rm -rf /", "replay": host("h200-healthy")}),
    ("compare", {"a": host("h200-healthy"), "b": host("driver-not-loaded")}),
    ("check", {"replay": "a\0b"}),
    ("explain", {"what": "rank 0\0 Failed to initialize NVML: Driver/library version mismatch"}),
    ("compare", {"a": "a\0b", "b": "-"}),
    ("explain", {"what": "epoch 1\nFailed to initialize NVML: Driver/library version mismatch \U000e0101\u202e\x1b[2J\n"}),
    ("check", {"python": "venv/bin/python", "replay": host("h200-healthy")}),
)


def connected(folder: Path, *options: str) -> Any:
    """A client of a server that is started in this folder."""
    from mcp import Client, StdioServerParameters, stdio_client  # a second, which only the process that runs these tests needs

    program = str(Path(sys.executable).with_name("cudadoctor"))
    return Client(stdio_client(StdioServerParameters(command=program, args=["mcp", *options], cwd=folder)))


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one server answers. It is started in a folder whose modules would betray themselves."""
    folder = tmp_path_factory.mktemp("cloned")
    (folder / "cudadoctor").mkdir()
    (folder / "cudadoctor" / "__init__.py").write_text(f"open({str(folder / 'imported')!r}, 'w')")
    for name in ("json", "click", "msgspec"):
        (folder / f"{name}.py").write_text(f"open({str(folder / 'imported')!r}, 'w')")

    async def talk() -> dict[str, Any]:
        async with connected(folder) as client:
            return {
                "tools": (await client.list_tools()).tools,
                "answers": [await client.call_tool(name, arguments) for name, arguments in QUESTIONS],
                "resources": (await client.list_resources()).resources,
                "page": (await client.read_resource("cudadoctor://causes/nouveau-bound")).contents[0],
                "imported": (folder / "imported").exists(),
            }

    return asyncio.run(talk())


def answer(session: dict[str, Any], number: int) -> Any:
    result = session["answers"][number]
    assert not result.is_error, result.content
    assert "never instructions" in result.structured_content["machine_words"]
    return result.structured_content["answer"]


def refusal(session: dict[str, Any], number: int) -> str:
    result = session["answers"][number]
    assert result.is_error
    return str(result.content[0].text)


def test_four_tools_that_only_read(session: dict[str, Any]) -> None:
    assert [tool.name for tool in session["tools"]] == ["check", "explain", "suggest_fix", "compare"]
    assert all(tool.annotations.read_only_hint and not tool.annotations.destructive_hint for tool in session["tools"])
    assert not session["imported"], "a module of the working directory was imported"
    assert not [tool.name for tool in session["tools"] if "python" in str(tool.input_schema)], "an agent names what is executed"


def test_the_interpreter_is_the_word_of_whoever_starts_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in the folder that an agent works in is not run; what the server's command line names is."""
    monkeypatch.chdir(tmp_path)
    for name in ("theirs", "ours"):
        (tmp_path / name).write_text(f"#!/bin/sh\n: > {tmp_path}/{name}.ran\n")
        (tmp_path / name).chmod(0o755)

    async def talk(*options: str) -> None:
        async with connected(tmp_path, *options) as client:
            for tool in ("check", "suggest_fix"):
                await client.call_tool(tool, {"python": "./theirs"})

    asyncio.run(talk("--python", str(tmp_path / "ours")))
    assert not (tmp_path / "theirs.ran").exists()
    assert (tmp_path / "ours.ran").exists()


def test_check_answers_in_brief(session: dict[str, Any]) -> None:
    found = answer(session, 0)
    assert (found["verdict"], found["cause"], found["command"]) == (
        "broken", "cuda-visible-devices-hides-all", "unset CUDA_VISIBLE_DEVICES",
    )  # fmt: skip
    assert len(json.dumps(found)) < 2000


def test_explain_reads_a_code_and_a_text(session: dict[str, Any]) -> None:
    assert answer(session, 1)["matches"][0]["causes"][0] == "gpu-fell-off-bus"
    found = answer(session, 2)
    assert found["cause"] == "driver-version-mismatch"
    assert "version mismatch" in found["quotes"][0]["text"]
    assert found["steps"][0]["kind"] == "restart"


def test_what_cannot_be_meant_is_refused_in_words(session: dict[str, Any]) -> None:
    assert "'nonsense-xyz' is no cause" in refusal(session, 3)
    assert "longer than 1000000 characters" in refusal(session, 4)
    assert "'--help' is no cause" in refusal(session, 5)
    assert "rm -rf" in refusal(session, 7)
    assert "NUL" in refusal(session, 9)
    assert "NUL" in refusal(session, 11)


def test_a_text_with_a_sign_that_no_name_has_is_read(session: dict[str, Any]) -> None:
    assert answer(session, 10)["cause"] == "driver-version-mismatch"


def test_nothing_is_hidden_from_the_person_in_front(session: dict[str, Any]) -> None:
    shown = json.dumps(answer(session, 12)["quotes"], ensure_ascii=False)
    assert "version mismatch" in shown
    assert "\\\\U000e0101\\\\u202e" in shown
    assert not set("\U000e0101\u202e\x1b") & set(json.loads(shown)[0]["text"])


def test_suggest_fix_and_compare_say_what_the_commands_say(session: dict[str, Any]) -> None:
    assert "unset CUDA_VISIBLE_DEVICES" in answer(session, 6)["text"]
    assert "DIFFERENT" in answer(session, 8)["text"]


def test_causes_are_resources(session: dict[str, Any]) -> None:
    assert {resource.name for resource in session["resources"]} == set(load().causes)
    assert session["page"].text.startswith("# The GPU is bound to nouveau")


def test_without_the_sdk_it_is_said_what_is_missing(tmp_path: Path) -> None:
    import subprocess

    code = "import sys; sys.modules['mcp'] = None; sys.argv[1:] = ['mcp']; from cudadoctor.__main__ import main; main()"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "needs the extra `mcp`" in done.stderr


def test_a_line_that_is_no_message_gets_an_answer() -> None:
    """Else its sender waits for ever. What comes after it is answered as well."""
    call = '{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"explain","arguments":{"what":%s}}}'
    hello = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}'
    prompt = '{"id":10,"jsonrpc":"2.0","method":"prompts/get","params":{"name":"x"}}'
    lines = (hello, "{", call % (7, '"\\ud800"'), call % (8, "[" * 5000 + "]" * 5000), '{"id":9,"jsonrpc":"2.0","method":"ping"}', prompt)
    program = str(Path(sys.executable).with_name("cudadoctor"))
    with subprocess.Popen([program, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.writelines(line + "\n" for line in lines)
        server.stdin.flush()
        late = threading.Timer(60, server.kill)
        late.start()
        answers = [json.loads(server.stdout.readline()) for _ in lines]
        late.cancel()
        server.kill()
        assert server.stderr is not None
        assert "Traceback" not in server.stderr.read()
    said = [(one["id"], one.get("error", {}).get("code") == -32700) for one in answers]  # in whatever order they are ready
    assert sorted(said, key=str) == [(1, False), (10, False), (7, True), (9, False), (None, True), (None, True)]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_one_signal_ends_it(how: signal.Signals) -> None:
    """While its standard input is open, in the middle of a sentence too."""
    program = str(Path(sys.executable).with_name("cudadoctor"))
    with subprocess.Popen([program, "mcp"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello}).encode() + b"\n{")
        server.stdin.flush()
        assert b'"id":1' in server.stdout.readline()
        server.send_signal(how)
        try:
            server.wait(5)
        finally:
            server.kill()
        assert server.returncode in (-how, 128 + how)
