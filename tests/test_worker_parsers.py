"""The parsers of worker output where a fixture cannot show it: how the child ended, what is cut, and what joins two climbs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cudadoctor.model.evidence import Item, Status
from cudadoctor.model.facts import Fact, Unknown
from cudadoctor.model.values import Ladder, Nvml, Processes, PythonEnvironment, RungResult, Toolkits
from cudadoctor.model.version import CudaVersion, LibraryVersion, PackageVersion
from cudadoctor.parsers import worker_ladder, worker_nvml, worker_processes, worker_python_env
from cudadoctor.parsers.base import Parser, Text
from cudadoctor.parsers.json_lines import STRING_LIMIT, build, records
from tests.cases import every

START = {"event": "start", "python": "/env/bin/python", "version": "3.12.3", "quick": False}
PARSERS = (worker_nvml.PARSER, worker_processes.PARSER, worker_python_env.PARSER, worker_ladder.PARSER)
HEADS = {
    "worker_nvml": {"event": "nvml", "code": 0},
    "worker_processes": {"event": "processes", "provider": "psutil 7.2.2", "complete": True},
    "worker_python_env": {"event": "python", "path": "/env/bin/python", "version": "3.12.3"},
    "worker_ladder": START,
}


def text(*events: dict[str, Any] | str, status: Status = "ok", whole: bool | None = None, **item: Any) -> Text:
    body = "\n".join(event if isinstance(event, str) else json.dumps(event) for event in events)
    made = Item(id="x", kind="worker", what="x.py", status=status, stdout=body, **item)
    return Text(body, source="x.py", whole=made.whole if whole is None else whole, item=made)


def only(parser: Parser, source: Text) -> Any:
    (found,) = parser.parse(source)
    return found


def begin(step: str, gpu: int | None = None) -> dict[str, Any]:
    return {"event": "begin", "step": step, "gpu": gpu}


def end(step: str, status: str = "pass", gpu: int | None = None, **more: Any) -> dict[str, Any]:
    return {"event": "end", "step": step, "status": status, "gpu": gpu, **more}


def climb(*events: dict[str, Any] | str, **how: Any) -> Ladder:
    fact = only(worker_ladder.PARSER, text(START, *events, **how))
    assert isinstance(fact, Fact)
    value: Ladder = fact.need()
    return value


# ---------------------------------------------------------------- all of them
@every("parser", PARSERS)
@pytest.mark.parametrize("body", ["", "Traceback (most recent call last):\nOSError: no", "{}", '{"event": 3}', '{"event": "nvml"', "[1]"])
def test_no_line_that_can_be_read_is_ignorance(parser: Parser, body: str) -> None:
    source = text(body, status="failed", exit=1, stderr="noise\nImportError: cannot import name 'x'\n")
    found = list(parser.parse(source))
    assert {entry.key for entry in found} == set(parser.keys)
    for entry in found:
        assert isinstance(entry, Unknown)
        assert "exit code 1" in entry.why
        assert "ImportError: cannot import name 'x'" in entry.why


def test_ignorance_names_the_signal() -> None:
    assert "SIGSEGV" in only(worker_nvml.PARSER, text("", status="failed", signal=11)).why
    assert "signal 35" in only(worker_nvml.PARSER, text("", status="failed", signal=35)).why


@every("parser", PARSERS)
def test_a_line_cut_in_the_middle_costs_itself(parser: Parser) -> None:
    head = json.dumps(HEADS[parser.name])
    for cut in range(len(head)):
        found = list(parser.parse(text(head, head[:cut])))
        assert all(isinstance(entry, Fact) for entry in found)


@every("parser", PARSERS)
def test_what_was_cut_short_is_not_whole(parser: Parser) -> None:
    source = text(HEADS[parser.name], status="timed-out", seconds=10.0, why="no answer within 10 s")
    assert all(isinstance(entry, Unknown) or not entry.whole for entry in parser.parse(source))
    assert all(isinstance(entry, Fact) and entry.whole for entry in parser.parse(text(HEADS[parser.name])))


def test_strings_are_bounded_and_lose_control_characters() -> None:
    colour, deep, path = "\x1b[31mred\x1b[0m\x07", [{"k\x1b[1m": "\x9b1m"}], "/opt/a\x1b[1mb"
    (entry,) = records(json.dumps({"event": "x", "long": "a" * 10**6, "colour": colour, "lines": "a\n\tb", "deep": deep, "path": path}))
    assert len(entry.fields["long"]) == STRING_LIMIT
    assert entry.fields["colour"] == "red"
    assert entry.fields["lines"] == "a\n\tb"
    assert entry.fields["deep"] == [{"k": "1m"}]
    assert entry.fields["path"] == path, "without them it is another"


def test_nesting_and_figures_without_end() -> None:
    assert list(records('{"event": "x", "a": ' + "[" * 10**5)) == []
    (entry,) = records('{"event": "x", "a": 123456789012345678901234567890}')
    assert build(Nvml, {"code": entry.fields["a"]}) is not None
    assert build(Nvml, {"code": "0"}) is None
    assert build(Nvml, {"code": True}) is None


# ---------------------------------------------------------------- nvml, processes, python
def test_versions_become_their_own_types() -> None:
    nvml = only(worker_nvml.PARSER, text({"event": "nvml", "code": 0, "library": "580.159.04", "cuda": "13.0"})).need()
    assert (nvml.library, nvml.cuda) == (LibraryVersion("580.159.04"), CudaVersion("13.0"))
    head, package = HEADS["worker_python_env"], {"event": "package", "name": "numba", "version": "0.68.1"}
    fact = next(iter(worker_python_env.PARSER.parse(text(head, package))))
    assert isinstance(fact, Fact)
    assert isinstance(fact.value, PythonEnvironment)
    found = fact.value.package("numba")
    assert found is not None
    assert found.version == PackageVersion("0.68.1")


def test_gpus_that_could_not_be_counted_are_no_absence() -> None:
    fact = only(worker_nvml.PARSER, text(HEADS["worker_nvml"], {"event": "error", "step": "count", "error": "Unknown Error"}))
    assert fact.need().gpus == ()
    assert not fact.whole


def test_a_binding_that_does_not_serve_is_quoted() -> None:
    wrong = "/x/pynvml.py has no nvmlInit"
    fact = only(worker_nvml.PARSER, text({"event": "nvml", "code": 0, "provider": "ctypes", "provider_error": wrong}))
    assert ("import pynvml", wrong) in [(quote.source, quote.text) for quote in fact.quotes]


def test_files_that_could_not_be_read_hide_holders() -> None:
    head = {**HEADS["worker_processes"], "complete": False}
    fact = only(worker_processes.PARSER, text(head, {"event": "process", "pid": 7, "state": "running", "own": True}))
    value: Processes = fact.need()
    assert not value.complete
    assert not fact.whole
    assert [process.pid for process in value.processes] == [7]
    assert len(fact.quotes) == 1, "a process that holds nothing and is as usual is not quoted"


def toolkits(*events: dict[str, Any], **how: Any) -> Fact[Toolkits] | Unknown:
    numba = {"event": "package", "name": "numba", "version": "0.68.1"}
    _, found, _ = worker_python_env.PARSER.parse(text(HEADS["worker_python_env"], numba, *events, **how))
    return found


def test_a_component_that_was_not_looked_for_is_not_missing() -> None:
    nvvm = {"event": "component", "name": "nvvm", "path": None}
    assert isinstance(toolkits(nvvm), Fact)
    assert isinstance(toolkits(nvvm, status="timed-out", seconds=10.0), Unknown)
    assert isinstance(toolkits(nvvm, {"event": "error", "step": "toolkits", "error": "OSError"}), Unknown)
    assert isinstance(toolkits(nvvm, {"event": "error", "step": "others", "error": "OSError"}), Fact)


def test_a_search_that_a_variable_ended_says_so() -> None:
    fact = toolkits({"event": "component", "name": "libdevice", "path": None, "rule": "CUDA_HOME", "hides": ["/usr/local/cuda/x.bc"]})
    assert isinstance(fact, Fact)
    assert fact.quotes[0].text == "libdevice: not found (CUDA_HOME is set and holds none)"


def test_a_line_of_numbas_configuration_is_quoted_where_it_stands() -> None:
    config = {"event": "config", "path": "/home/user/.numba_config.yaml", "line": 4, "text": "enable_cudasim: 1"}
    fact = next(iter(worker_python_env.PARSER.parse(text(HEADS["worker_python_env"], config))))
    assert isinstance(fact, Fact)
    quote = fact.quotes[-1]
    assert (quote.source, quote.first, quote.text) == ("/home/user/.numba_config.yaml", 4, "enable_cudasim: 1")


# ---------------------------------------------------------------- ladder
@pytest.mark.parametrize(
    ("how", "status", "why"),
    [
        ({"status": "failed", "signal": 11}, "crash", "SIGSEGV"),
        ({"status": "failed", "exit": 1}, "crash", "exit code 1"),
        ({"status": "ok", "exit": 0}, "crash", "ended early"),
        ({"status": "timed-out", "seconds": 10.0, "why": "no answer within 10 s", "signal": 9}, "hang", "no answer within 10 s"),
        ({"status": "timed-out", "seconds": 10.0, "why": "no answer within 10 s"}, "hang", "no answer within 10 s"),
        ({"status": "abandoned", "seconds": 10.3, "why": "could not be killed"}, "hang", "could not be killed"),
        ({"status": "failed", "exit": 124, "seconds": 20.0}, "hang", "exit code 124"),
    ],
)
def test_a_begin_without_its_end(how: dict[str, Any], status: str, why: str) -> None:
    stderr = "Fatal Python error: Segmentation fault\n\nThread 0x01:\n"
    ladder = climb(begin("libcuda"), end("libcuda"), begin("context", 1), stderr=stderr, **how)
    rung = ladder.rungs[-1]
    assert (rung.rung, rung.gpu, rung.status, rung.line) == ("context", 1, status, 4)
    assert why in (rung.why or "")
    assert rung.output == stderr.strip()
    assert [entry.status for entry in ladder.rungs] == ["pass", status]


def test_an_end_that_was_lost_on_the_way_is_no_crash() -> None:
    lost = '{"event": "end", "step": "libc'
    assert [entry.rung for entry in climb(begin("libcuda"), lost, begin("init"), end("init")).rungs] == ["init"]
    assert [entry.rung for entry in climb(begin("libcuda"), lost, {"event": "done"}).rungs] == []
    assert [entry.rung for entry in climb(begin("libcuda"), dropped_bytes=100).rungs] == []


def test_a_crash_between_the_smoke_steps_is_the_rungs() -> None:
    smoke = {"event": "smoke", "gpu": 0, "step": "vector add", "status": "pass"}
    ladder = climb(begin("numba-kernel", 0), {"event": "numba", "version": "0.68.1"}, smoke, status="failed", signal=6)
    assert [(entry.rung, entry.status) for entry in ladder.rungs] == [("numba-kernel", "crash")]
    assert len(ladder.smoke) == 1


@pytest.mark.parametrize(
    ("body", "step"),
    [
        ((begin("libcuda"),), "libcuda"),
        ((begin("libcuda"), end("libcuda"), begin("init")), "init"),
        ((begin("libcuda"), end("libcuda")), None),
        ((begin("libcuda"), {"event": "done"}), None),
        ((), None),
        (({"event": "begin", "step": 3},), None),
    ],
)
def test_the_open_step(body: tuple[dict[str, Any], ...], step: str | None) -> None:
    assert worker_ladder.open_step("\n".join(json.dumps(event) for event in body)) == step


def test_a_failing_rung_is_quoted_by_its_code_or_by_what_it_printed() -> None:
    fact = only(
        worker_ladder.PARSER,
        text(
            START,
            end("init", "fail", code=100, name="CUDA_ERROR_NO_DEVICE", output="cuInit returned 100"),
            end("numba-kernel", "fail", gpu=0, output="Traceback\n  File x\nNvvmError: failed\n\nsee the manual"),
        ),
    )
    assert [(quote.source, quote.text, quote.first) for quote in fact.quotes] == [
        ("libcuda (cuInit)", "cuInit: 100 CUDA_ERROR_NO_DEVICE", 2),
        ("Numba kernel", "Numba kernel on GPU 0: NvvmError: failed", 3),
    ]


def test_free_memory_joins_its_device() -> None:
    devices = [{"index": 0, "compute_capability": "9.0", "memory_total_bytes": 10}, {"index": 1}, {"name": "no index"}]
    ladder = climb(end("devices", cuda="13.0", devices=devices), end("context", gpu=0, memory_free_bytes=7))
    assert [(device.index, device.memory_free_bytes) for device in ladder.devices] == [(0, 7), (1, None)]
    assert ladder.cuda == CudaVersion("13.0")


def rung(name: Any, status: Any = "pass", **more: Any) -> RungResult:
    return RungResult(rung=name, status=status, **more)


def test_the_doctors_own_numba_completes_a_climb_without_numba() -> None:
    main = climb(
        end("ptx-kernel", gpu=0),
        end("numba-kernel", "skip", gpu=0, why="no Numba here"),
        end("numba-kernel", "skip", gpu=1, why="Numba did not start, see GPU 0"),
    )
    own = climb(
        end("ptx-kernel", "fail", gpu=0),
        {"event": "numba", "version": "0.68.1"},
        {"event": "smoke", "gpu": 0, "step": "vector add", "status": "pass"},
        end("numba-kernel", gpu=0),
    )
    both = worker_ladder.merge(main, own)
    assert [(entry.rung, entry.status) for entry in both.rungs] == [("ptx-kernel", "pass"), ("numba-kernel", "pass")]
    assert both.numba is not None
    assert both.numba.python == "/env/bin/python"
    assert both.smoke == own.smoke
    assert both.python == main.python


@pytest.mark.parametrize(
    "results",
    [
        (),
        (rung("numba-kernel", "fail", gpu=0),),
        (rung("numba-kernel", "skip", gpu=0, why="no Numba here"), rung("numba-kernel", "pass", gpu=1)),
        (rung("numba-kernel", "skip", gpu=0, why="--quick"),),
    ],
)
def test_a_climb_that_had_its_numba_stays_as_it_is(results: tuple[RungResult, ...]) -> None:
    main = Ladder(rungs=results)
    assert worker_ladder.merge(main, Ladder(rungs=(rung("numba-kernel", "pass", gpu=0),))) == main


def test_an_own_climb_that_did_not_reach_numba_changes_nothing() -> None:
    main = Ladder(rungs=(rung("numba-kernel", "skip", gpu=0, why="no Numba here"),))
    assert worker_ladder.merge(main, Ladder(rungs=(rung("init", "fail"),))) == main


def test_the_silence_of_a_trial_is_an_answer_of_its_own() -> None:
    """A framework that was not started, or that gave no line, is named beside those that did."""
    from cudadoctor.knowledge.load import load
    from cudadoctor.model.evidence import Evidence, Item
    from cudadoctor.model.guard import Guard
    from cudadoctor.model.values import FRAMEWORK_RUNS
    from cudadoctor.parsers.read import read

    start = '{"event": "start", "framework": "jax"}\n{"event": "begin", "step": "import"}\n'
    items = (
        Item(
            id="framework-jax",
            kind="worker",
            what=("python", "frameworks.py"),
            status="timed-out",
            why="no answer within 45 s",
            stdout=start,
        ),
        Item(id="framework-torch", kind="worker", what=("python", "frameworks.py"), status="not-run", why="no time was left"),
    )
    fact = read(Evidence(items=items), Guard(), load())[FRAMEWORK_RUNS]
    assert [(run.name, run.status, run.why) for run in fact.need().runs] == [
        ("torch", "unknown", "no time was left"),
        ("jax", "hang", "no answer within 45 s"),
    ]
    assert [quote.text for quote in fact.quotes] == [
        "jax: its import gave no answer (no answer within 45 s)",
        "torch: not tried (no time was left)",
    ]


# ---------------------------------------------------------------- figures that nobody measured
@pytest.mark.parametrize(
    ("name", "value"),
    [("temperature_c", 1e15), ("temperature_c", -300.0), ("power_w", -1.0), ("memory_total_bytes", 1 << 62), ("pcie_width", 5000),
     ("ecc_uncorrected_volatile", -3), ("sm_clock_mhz", 10**9)],
)  # fmt: skip
def test_a_figure_out_of_bounds_is_left_out(name: str, value: float) -> None:
    fact = only(worker_nvml.PARSER, text({"event": "nvml", "code": 0}, {"event": "gpu", "index": 0, "name": "NVIDIA H100", name: value}))
    (gpu,) = fact.need().gpus
    assert getattr(gpu, name) is None
    assert gpu.name == "NVIDIA H100"


def test_a_gpu_has_one_index_and_one_entry() -> None:
    gpus = [{"event": "gpu", "index": index} for index in (0, 1, 1, -5, 9000, 0)]
    assert [gpu.index for gpu in only(worker_nvml.PARSER, text({"event": "nvml", "code": 0}, *gpus)).need().gpus] == [0, 1]
    devices = [{"index": index} for index in (0, 0, -1, 300)]
    assert [device.index for device in climb(end("devices", devices=devices)).devices] == [0]
    assert climb({"event": "smoke", "gpu": -1, "step": "vector addition", "status": "fail"}).smoke == ()


def test_a_start_up_hook_that_ends_no_line_hides_nothing() -> None:
    """What sitecustomize or a .pth file writes stands before the worker's first word."""
    body = 'hi{"event": "python", "path": "/env/bin/python"}\nhi\n{"event": "package"}\n{broken{"event": "x"}\n'
    assert [(one.line, one.event) for one in records(body)] == [(1, "python"), (3, "package")]
