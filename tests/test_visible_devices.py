"""CUDA_VISIBLE_DEVICES: every value that was measured on two GPUs, and the cause that each form of mistake is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from cudadoctor.checks import visible_devices
from cudadoctor.checks.visible_devices import HIDES, INVALID, SCHEDULER, Resolution, resolve
from cudadoctor.knowledge.load import Knowledge
from cudadoctor.model.facts import Facts, Key, NotKnown
from cudadoctor.model.findings import Clue
from cudadoctor.model.values import ENVIRONMENT, LADDER, LOADED_DRIVER, NVML, PCI, WSL, CudaDevice, Environment, Ladder, RungResult
from tests import facts_builder as make
from tests.cases import every
from tests.facts_builder import fact, host

# The measured machine's UUIDs began so that `GPU-e` was enough for the first.
A, B = "e1c2d3a4-0000-1111-2222-333344445555", "9badcafe-0000-1111-2222-333344445555"
UUIDS = (f"GPU-{A}", f"GPU-{B}")
OTHER = "0000:02:00.0"
MEASURED = msgspec.toml.decode((Path(__file__).parent.parent / "fixtures" / "cuda_visible_devices_measured.toml").read_text("utf-8"))[
    "value"
]
NOTHING = Knowledge({})


def filled(text: str) -> str:
    for mark, value in (("<A upper case>", A.upper()), ("<first 4 of A>", A[:4]), ("<A>", A), ("<B>", B)):
        text = text.replace(mark, value)
    return text


@every("row", MEASURED)
def test_measured_values(row: dict[str, Any]) -> None:
    found = resolve(filled(row["text"]), UUIDS)
    assert (found.code, ["AB"[place] for place in found.visible]) == (row["cuInit"], row["devices"])


def test_the_measured_values_are_all_there() -> None:
    assert len(MEASURED) == 59


@given(some.text(alphabet="01290,-+; GPUabcefMIGnx:.\t", max_size=30))
def test_any_text_is_resolved(value: str) -> None:
    found = resolve(value, UUIDS)
    assert found.code in (0, 100, 101)
    assert bool(found.visible) == (found.code == 0)
    assert (found.bad is None) == (found.reason is None)
    # With nothing known, form alone is judged: what is bad in form is bad with a list too.
    if resolve(value, None).code != 0:
        assert found.code != 0


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("", "empty"), ("-1", "negative"), ("bash", "no-number"), ("2", "no-such-index"), ("GPU-77", "no-such-uuid"),
        ("GPU-", "wrong-form"), (f"gpu-{A}", "wrong-form"), (A, "wrong-form"), (B, "wrong-form"), ("0,0", "duplicate"), (f"GPU-{A},1", "mixed"),
        ("MIG-1234", "no-such-mig"), ("18446744073709551616", "negative"), ("4294967295", "negative"),
    ],
)  # fmt: skip
def test_reasons(value: str, reason: str) -> None:
    assert resolve(value, UUIDS).reason == reason


def test_a_prefix_that_fits_two() -> None:
    assert resolve("GPU-e", (f"GPU-{A}", "GPU-e999")).reason == "ambiguous-uuid"


def test_mig_names() -> None:
    listed = ("MIG-aaaa-1", "MIG-bbbb-2")
    assert resolve("MIG-aaaa", UUIDS, mig_uuids=listed, mig_possible=True) == Resolution(mig=("MIG-aaaa-1",))
    assert resolve("MIG-cccc", UUIDS, mig_uuids=listed, mig_possible=True).reason == "no-such-mig"
    old = resolve(f"MIG-GPU-{A}/1/0", UUIDS, mig_uuids=listed, mig_possible=True)
    assert (old.code, old.judged) == (0, False)


def test_what_nobody_knows_is_taken_as_good() -> None:
    assert resolve("1", None) == Resolution(visible=(1,), judged=False)
    assert resolve("GPU-77", (None, None)) == Resolution(visible=(-1,), judged=False)
    assert resolve("1,abc", None).judged is False
    assert resolve("e1c2d3a4", UUIDS).reason == "wrong-form"
    assert resolve("deadbeef", UUIDS).reason == "no-number"


# ---------------------------------------------------------------- rules
def variables(**given: str) -> Environment:
    return Environment(variables=given, lines={name: place for place, name in enumerate(given, 1)})


def seen(count: int, code: int = 100) -> Ladder:
    """What the ladder showed: so many devices, or cuInit refused."""
    if count == 0:
        return make.ladder("init", code=code)
    return make.ladder(devices=(make.ADDRESS, OTHER)[:count])


def two_gpus(
    value: str | None, devices: int, /, unknown: tuple[Key[Any], ...] = (), changes: make.State | None = None, **more: str
) -> Facts:
    """A machine with two GPUs, this value, and so many devices seen by libcuda."""
    given = {**({} if value is None else {"CUDA_VISIBLE_DEVICES": value}), **more}
    gpus = tuple(
        make.nvml_gpu(place, address, uuid=uuid) for place, (address, uuid) in enumerate(zip((make.ADDRESS, OTHER), UUIDS, strict=True))
    )
    state: dict[Key[Any], Any] = {
        ENVIRONMENT: fact(ENVIRONMENT, variables(**given), *(f"{name}={text}" for name, text in given.items())),
        NVML: make.nvml(gpus=gpus),
        PCI: make.bus(make.gpu(), make.gpu(address=OTHER)),
        LADDER: seen(devices),
    }
    return host({**state, **(changes or {})}, unknown)


def clues(facts: Facts) -> list[Clue]:
    (rule,) = visible_devices.CHECK.rules
    return list(rule.function(facts, NOTHING))


def causes(facts: Facts) -> list[str]:
    return [clue.cause for clue in clues(facts)]


@pytest.mark.parametrize("value", ["", " ", "-1", "bash", "none", "NoDevFiles", "all", ",0", "-1,0", "cuda:0"])
def test_hides_all(value: str) -> None:
    (clue,) = clues(two_gpus(value, 0))
    assert clue.cause == HIDES
    assert clue.quotes[0].text == f"CUDA_VISIBLE_DEVICES={value}"
    assert (clue.values["variable"], clue.values["value"]) == ("CUDA_VISIBLE_DEVICES", value)


@pytest.mark.parametrize("value", ["7", "99,0", "GPU-77", f"gpu-{A}", A, B, "0,0", "1,1", "GPU-", "MIG-1234", f"MIG-GPU-{A}/0/0"])
def test_invalid(value: str) -> None:
    (clue,) = clues(two_gpus(value, 0))
    assert clue.cause == INVALID
    assert (clue.values["variable"], clue.values["value"]) == ("CUDA_VISIBLE_DEVICES", value)


@pytest.mark.parametrize("value", ["0,7", "0 1", "0;1", "0-1", "0\uff0c1", f"GPU-{A},1", f"0,GPU-{B}"])
def test_invalid_behind_an_entry_that_works(value: str) -> None:
    assert causes(two_gpus(value, 1)) == [INVALID]
    # Whether the first entry works, only the ladder shows.
    with pytest.raises(NotKnown):
        clues(two_gpus(value, 1, unknown=(LADDER,)))
    # Where it does not, the value is not why.
    assert causes(two_gpus(value, 0)) == []


def test_a_word_behind_an_entry_that_works() -> None:
    assert causes(two_gpus("0,abc", 1)) == [HIDES]
    assert causes(two_gpus("0,-1,1", 1)) == [HIDES]


@pytest.mark.parametrize(
    ("value", "devices"), [(None, 2), ("0", 1), ("1,0", 2), ("0, 1", 2), ("0,", 1), ("0,-1", 1), (f"GPU-{A}", 1), ("GPU-e1", 1), ("0x0", 1)]
)
def test_healthy_values(value: str | None, devices: int) -> None:
    assert causes(two_gpus(value, devices)) == []


def test_what_the_driver_does_outranks_the_reading() -> None:
    assert causes(two_gpus("bash", 1)) == []


def test_a_good_value_is_not_blamed_for_a_failing_driver() -> None:
    assert causes(two_gpus("0", 0)) == []


def test_nobody_knows_the_gpus() -> None:
    unknown = (NVML, PCI)
    with pytest.raises(NotKnown):
        clues(two_gpus("7", 0, unknown=unknown))
    # A form that is wrong on every machine is judged all the same.
    assert causes(two_gpus("-1", 0, unknown=unknown)) == [HIDES]
    assert causes(two_gpus(f"gpu-{A}", 0, unknown=unknown)) == [INVALID]
    assert causes(two_gpus("0,0", 0, unknown=unknown)) == [INVALID]


def test_the_bus_counts_where_nvml_does_not() -> None:
    assert causes(two_gpus("7", 0, unknown=(NVML,))) == [INVALID]
    with pytest.raises(NotKnown):  # the bus has no UUIDs
        clues(two_gpus("GPU-77", 0, unknown=(NVML,)))
    with pytest.raises(NotKnown):  # WSL shows no GPU on its bus
        clues(two_gpus("7", 0, unknown=(NVML,), changes={WSL: True}))
    partial = fact(PCI, make.bus(make.gpu()), "a filtered listing", whole=False)
    with pytest.raises(NotKnown):
        clues(two_gpus("1", 0, unknown=(NVML,), changes={PCI: partial}))


def test_nobody_knows_the_environment() -> None:
    with pytest.raises(NotKnown):
        clues(host(unknown=(ENVIRONMENT,)))


def test_mig_without_an_instance_is_another_fault() -> None:
    gpus = (make.nvml_gpu(0, make.ADDRESS, uuid=UUIDS[0], mig_mode="enabled"),)
    assert causes(two_gpus("MIG-1234", 0, changes={NVML: make.nvml(gpus=gpus)})) == []
    listed = (make.nvml_gpu(0, make.ADDRESS, uuid=UUIDS[0], mig_mode="enabled", mig_uuids=("MIG-aaaa",)),)
    assert causes(two_gpus("MIG-1234", 0, changes={NVML: make.nvml(gpus=listed)})) == [INVALID]


def test_the_gpus_stand_beside_an_invalid_value() -> None:
    (clue,) = clues(two_gpus("7", 0))
    assert [quote.text for quote in clue.quotes] == ["CUDA_VISIBLE_DEVICES=7", f"2 GPUs: {UUIDS[0]}, {UUIDS[1]}"]
    (clue,) = clues(two_gpus("-1", 0))
    assert len(clue.quotes) == 1


def test_device_order() -> None:
    (clue,) = clues(two_gpus(None, 0, CUDA_DEVICE_ORDER=""))
    assert (clue.cause, clue.values["variable"], clue.quotes[0].text) == (INVALID, "CUDA_DEVICE_ORDER", "CUDA_DEVICE_ORDER=")
    assert causes(two_gpus(None, 2, CUDA_DEVICE_ORDER="PCI_BUS_ID")) == []
    assert causes(two_gpus(None, 2, CUDA_DEVICE_ORDER="")) == []


@pytest.mark.parametrize("job", ["SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID"])
def test_scheduler(job: str) -> None:
    assert causes(two_gpus("NoDevFiles", 0, **{job: "4242"})) == [SCHEDULER]
    assert causes(two_gpus("", 0, **{job: "4242"})) == [SCHEDULER]
    assert causes(two_gpus(None, 0, **{job: "4242"})) == [SCHEDULER]


def test_a_job_that_was_given_a_gpu() -> None:
    assert causes(two_gpus("-1", 0, SLURM_JOB_ID="1", SLURM_JOB_GPUS="0")) == [HIDES]
    assert causes(two_gpus("NoDevFiles", 0, SLURM_JOB_ID="1", SLURM_JOB_GPUS="0")) == [SCHEDULER]
    assert causes(two_gpus(None, 0, SLURM_JOB_ID="1", SLURM_JOB_GPUS="0")) == []
    assert causes(two_gpus(None, 2, SLURM_JOB_ID="1")) == []
    assert causes(two_gpus("7", 0, SLURM_JOB_ID="1")) == [INVALID]


def test_a_job_on_a_node_without_a_driver() -> None:
    assert causes(two_gpus(None, 0, changes={LOADED_DRIVER: None}, SLURM_JOB_ID="1")) == []
    for missing in (LOADED_DRIVER, LADDER):
        with pytest.raises(NotKnown):
            clues(two_gpus(None, 0, unknown=(missing,), SLURM_JOB_ID="1"))
    assert causes(two_gpus(None, 0, changes={LADDER: seen(0, code=999)}, SLURM_JOB_ID="1")) == []


@pytest.mark.parametrize(
    ("value", "devices", "words"),
    [
        (None, 2, "CUDA_VISIBLE_DEVICES is not set: it hides no GPU"),
        ("1", 1, "CUDA_VISIBLE_DEVICES=1 shows 1 GPU of 2"),
        ("bash", 0, "CUDA_VISIBLE_DEVICES=bash shows no GPU ('bash': neither a number nor a UUID)"),
        ("0;1", 1, "CUDA_VISIBLE_DEVICES=0;1 shows 1 GPU of 2 (of '0;1' only the first number is read)"),
    ],
)
def test_the_line(value: str | None, devices: int, words: str) -> None:
    assert visible_devices.CHECK.describe(two_gpus(value, devices), NOTHING).summary == words


def test_the_line_where_the_gpus_are_unknown() -> None:
    line = visible_devices.CHECK.describe(two_gpus("1", 0, unknown=(NVML, PCI)), NOTHING)
    assert line.because == "not recorded"


def test_the_devices_that_libcuda_shows_are_counted() -> None:
    """The ladder's devices, not its rung alone, say how many entries work."""
    climbed = Ladder(
        rungs=tuple(RungResult(rung=rung, status="pass") for rung in ("libcuda", "init", "devices")),  # type: ignore[arg-type]
        devices=(CudaDevice(index=0),),
    )
    assert causes(two_gpus("0,7", 1, changes={LADDER: climbed})) == [INVALID]
