"""The pages behind `cudadoctor explain`: codes of every API, and causes."""

from __future__ import annotations

import msgspec
import pytest

from cudadoctor.explain import explain_code
from cudadoctor.knowledge.load import Knowledge, load

KNOWLEDGE = load()


def matches(query: str) -> list[tuple[str, int]]:
    found = explain_code(query, KNOWLEDGE)
    return [] if found is None else [(match.api, match.number) for match in found.matches]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("cuda 3", [("cuda", 3)]),
        ("CUDA error 100", [("cuda", 100)]),
        ("nvml 3", [("nvml", 3)]),
        ("Xid 79", [("xid", 79)]),
        ("xid79", [("xid", 79)]),
        ("nvidia-smi 9", [("nvidia-smi", 9)]),
        ("cudaErrorNoDevice", [("cuda", 100)]),
        ("CUDA_ERROR_NO_DEVICE", [("cuda", 100)]),
        ("cuda_error_no_device", [("cuda", 100)]),
        ("NVMLError_DriverNotLoaded", [("nvml", 9)]),
        (" 100 ", [("cuda", 100), ("xid", 100)]),
        ("9", [("cuda", 9), ("nvml", 9), ("xid", 9), ("nvidia-smi", 9)]),
        ("cuda 38", [("cuda-before-10.1", 38)]),
        ("cuda 12345", []),
        ("ls 100", []),
        ("no-such-cause", []),
        ("", []),
    ],
)
def test_what_a_query_means(query: str, expected: list[tuple[str, int]]) -> None:
    assert matches(query) == expected


def test_no_device_tells_its_causes_apart() -> None:
    found = explain_code("CUDA_ERROR_NO_DEVICE", KNOWLEDGE)
    assert found is not None
    (match,) = found.matches
    assert match.aliases == ("cudaErrorNoDevice",)
    assert match.certain is False
    assert list(match.tell_apart) == list(match.causes)
    for cause in (
        "no-nvidia-gpu", "nouveau-bound", "driver-not-installed", "driver-not-loaded", "cuda-visible-devices-hides-all",
        "cuda-visible-devices-invalid", "scheduler-gave-no-gpu", "container-no-gpu-access",
    ):  # fmt: skip
        assert cause in match.causes
        command = match.tell_apart[cause]
        assert command == (KNOWLEDGE.causes[cause].tell_apart if cause in KNOWLEDGE.causes else None)


def test_a_cause_without_a_file_has_no_command() -> None:
    texts = {name: text for name, text in KNOWLEDGE._texts.items() if name.startswith("tables/")}
    found = explain_code("cuda 804", Knowledge(texts))
    assert found is not None
    assert found.matches[0].tell_apart == {"forward-compat-unsupported": None}
    assert found.matches[0].certain is True


def test_a_cause_has_its_page_and_the_codes_that_may_mean_it() -> None:
    cause = "driver-version-mismatch"
    found = explain_code(cause, KNOWLEDGE)
    assert found is not None
    assert (found.kind, found.query, found.matches) == ("cause", cause, ())
    assert found.cause is not None
    assert found.cause.id == cause
    assert {"cuda 803", "nvml 18", "nvidia-smi 18"} <= set(found.cause.codes)
    assert found.cause.tell_apart == KNOWLEDGE.causes[cause].tell_apart


def test_every_code_named_on_a_page_is_a_query_that_leads_back() -> None:
    for cause in KNOWLEDGE.causes:
        page = explain_code(cause, KNOWLEDGE)
        assert page is not None
        assert page.cause is not None
        for code in page.cause.codes:
            found = explain_code(code, KNOWLEDGE)
            assert found is not None
            assert any(cause in match.causes for match in found.matches)


@pytest.mark.parametrize("query", ["100", "driver-version-mismatch"])
def test_the_json_has_every_key(query: str) -> None:
    found = explain_code(query, KNOWLEDGE)
    raw = msgspec.to_builtins(found)
    assert list(raw) == ["schema", "kind", "query", "matches", "cause"]
    assert raw["schema"] == "cudadoctor.explanation/1"
    for match in raw["matches"]:
        assert set(match) == {"api", "number", "name", "aliases", "meaning", "causes", "certain", "tell_apart"}
