"""The pages behind `cudadoctor explain`: codes of every API, causes, and things that are no code."""

from __future__ import annotations

import msgspec
import pytest

from cudadoctor.knowledge.load import Knowledge
from cudadoctor.knowledge.lookup import NoSuchError, explain_code
from cudadoctor.knowledge.lookup import hardware as hardware_pages
from cudadoctor.knowledge.lookup import topics as forms
from cudadoctor.model.explanation import CodeMeaning, Topic
from tests.cases import every
from tests.judging import KNOWLEDGE


def matches(query: str) -> list[tuple[str, int]]:
    found = explain_code(query, KNOWLEDGE)
    return [] if found is None else [(match.api, match.number) for match in found.matches]


def meaning(query: str) -> CodeMeaning:
    found = explain_code(query, KNOWLEDGE)
    assert found is not None
    return found.matches[0]


def topic(query: str) -> Topic:
    found = explain_code(query, KNOWLEDGE)
    assert found is not None, query
    assert (found.kind, found.matches, found.cause) == ("topic", (), None)
    return found.topics[0]


def fact(page: Topic, name: str) -> str | None:
    return next((line.value for line in page.facts if line.name == name), None)


# ---------------------------------------------------------------- codes
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("cuda 3", [("cuda", 3)]),
        ("CUDA error 100", [("cuda", 100)]),
        ("nvml 3", [("nvml", 3)]),
        ("Xid 79", [("xid", 79)]),
        ("xid79", [("xid", 79)]),
        ("79 xid", [("xid", 79)]),
        ("xid: 79", [("xid", 79)]),
        ("nvidia-smi 9", [("nvidia-smi", 9)]),
        ("nvidia-smi exit code 9", [("nvidia-smi", 9)]),
        ("cudaErrorNoDevice", [("cuda", 100)]),
        ("CUDA_ERROR_NO_DEVICE", [("cuda", 100)]),
        ("cuda_error_no_device", [("cuda", 100)]),
        ("CUresult.CUDA_ERROR_NO_DEVICE", [("cuda", 100)]),
        ("cudaErrorNoDevice (100)", [("cuda", 100)]),
        ("NVMLError_DriverNotLoaded", [("nvml", 9)]),
        ("NVML_ERROR_DRIVER_NOT_LOADED", [("nvml", 9)]),
        ("ROBUST_CHANNEL_GPU_HAS_FALLEN_OFF_THE_BUS", [("xid", 79)]),
        (" 100 ", [("cuda", 100), ("xid", 100)]),
        ("9", [("cuda", 9), ("nvml", 9), ("xid", 9), ("nvidia-smi", 9)]),
        ("exit 9", [("cuda", 9), ("nvml", 9), ("xid", 9), ("nvidia-smi", 9)]),
        ("cuda 38", [("cuda-before-10.1", 38)]),
        ("cuda 4", [("cuda", 4), ("cuda-before-10.1", 4)]),
        ("ls 100", []),
        ("no-such-cause", []),
        ("", []),
        ("out of memory", []),
        ("NVRM: Xid (PCI:0000:01:00): 79, pid=1234, GPU has fallen off the bus.", []),
        ("CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected", []),
    ],
)
def test_what_a_query_means(query: str, expected: list[tuple[str, int]]) -> None:
    assert matches(query) == expected


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("cuda 12345", ["CUDA has no code 12345", "`cuda 10000`"]),
        ("cuda 38000", ["CUDA has no code 38000"]),
        ("cuda 97", ["no code 97", "`cuda 69`", "`cuda 98`"]),
        ("nvml 12345", ["NVML has no code 12345", "`nvml 999`"]),
        ("Xid 999", ["Xid has no number 999", "`xid 185`"]),
        ("nvidia-smi 77", ["nvidia-smi has no exit code 77", "`nvidia-smi 18`", "`nvidia-smi 127`"]),
        ("123456", ["no API here has the code 123456"]),
        ("470", ["no API here has the code 470", "`driver 470`"]),
        ("cc 6.5", ["no compute capability 6.5", "`cc 6.2`", "`cc 7.0`"]),
        ("driver 999", ["no driver branch 999", f"`driver {KNOWLEDGE.newest_branch}`"]),
        ("cuda 12.7", ["no CUDA toolkit 12.7", "`driver 565`", "`toolkit 12.6`", "`toolkit 12.8`"]),
        ("toolkit 12", ["which toolkit 12?", "12.0", "12.9"]),
        ("ptx 42.0", ["PTX 42.0"]),
        ("numba 0.99", ["no Numba 0.99"]),
        ("numba-cuda 9.0", ["no numba-cuda 9.0"]),
        ("10de:ffff", ["ffff", "newer than these tables"]),
        ("1002:1292", ["vendor 1002 is not NVIDIA"]),
        ("42.42", ["42.42"]),
        ("numba", ["needs a number", "`numba 0.60`"]),
        ("xid", ["needs a number", "`xid 79`"]),
    ],
)
def test_a_known_kind_with_a_value_that_no_table_holds_is_a_clear_sentence(query: str, words: list[str]) -> None:
    with pytest.raises(NoSuchError) as error:
        explain_code(query, KNOWLEDGE)
    for word in words:
        assert word in str(error.value)


def test_the_words_that_need_a_number_are_told_a_question_that_has_an_answer() -> None:
    for example in forms._NEEDS_NUMBER.values():
        for query in example.split("` or `"):
            assert explain_code(query, KNOWLEDGE) is not None, query


@every("old", KNOWLEDGE.old_runtime_errors)
def test_old_and_new_numbers_of_the_runtime_name_each_other(old) -> None:  # type: ignore[no-untyped-def]
    by_number = explain_code(f"cuda {old.code}", KNOWLEDGE)
    assert by_number is not None
    before = [match for match in by_number.matches if match.api == "cuda-before-10.1"]
    assert [match.name for match in before] == [old.runtime_name]
    assert f"today {old.code_today}" in before[0].meaning
    is_used = any(match.api == "cuda" for match in by_number.matches)
    assert is_used is (KNOWLEDGE.cuda_error(old.code) is not None)
    assert ("Since 10.1 no CUDA code has this number" in before[0].meaning) is not is_used
    today = meaning(old.runtime_name)
    assert today.number == old.code_today
    if old.code != old.code_today:
        assert today.number_before_10_1 is not None


def test_every_code_of_every_table_has_a_page() -> None:
    tables = {
        "cuda": [row.code for row in KNOWLEDGE.cuda_errors],
        "nvml": [row.code for row in KNOWLEDGE.nvml_errors],
        "nvidia-smi": [row.code for row in KNOWLEDGE.smi_exits],
        "xid": [row.number for row in KNOWLEDGE.xids],
    }
    for api, numbers in tables.items():
        for number in numbers:
            found = meaning(f"{api} {number}")
            assert (found.api, found.number) == (api, number)
            assert found.meaning
            assert found.sources
            assert found.causes or found.advice, f"{api} {number}: neither a cause nor what to do"


def test_every_name_of_every_api_has_a_page() -> None:
    names = [(name, "cuda", row.code) for row in KNOWLEDGE.cuda_errors for name in (row.driver_name, row.runtime_name) if name]
    names += [(name, "nvml", row.code) for row in KNOWLEDGE.nvml_errors for name in (row.name, row.exception)]
    names += [(name, "xid", row.number) for row in KNOWLEDGE.xids for name in row.name.split(" / ") if "_" in name]
    for name, api, number in names:
        for form in (name, name.lower(), name.upper()):
            assert (api, number) in matches(form), form


def test_no_device_tells_its_causes_apart() -> None:
    match = meaning("CUDA_ERROR_NO_DEVICE")
    assert match.aliases == ("cudaErrorNoDevice",)
    assert match.certain is False
    assert "no CUDA-capable device is detected" in match.messages
    assert match.number_before_10_1 == 38
    assert list(match.tell_apart) == list(match.causes)
    for cause in (
        "no-nvidia-gpu", "nouveau-bound", "driver-not-installed", "driver-not-loaded", "cuda-visible-devices-hides-all",
        "cuda-visible-devices-invalid", "scheduler-gave-no-gpu", "container-no-gpu-access",
    ):  # fmt: skip
        assert cause in match.causes
        command = match.tell_apart[cause]
        assert command == (KNOWLEDGE.causes[cause].tell_apart if cause in KNOWLEDGE.causes else None)


def test_what_to_do_where_no_cause_stands_for_the_code() -> None:
    assert "compute-sanitizer" in (meaning("cuda 201").advice or "")
    assert "Nothing to do" in (meaning("cuda 0").advice or "")
    assert "Reboot" in (meaning("Xid 79").advice or ""), "the Xid table's own action comes first"
    assert meaning("cuda 100").advice is None


def test_a_cause_without_a_file_has_no_command() -> None:
    texts = {name: text for name, text in KNOWLEDGE._texts.items() if name.startswith("tables/")}
    found = explain_code("cuda 804", Knowledge(texts))
    assert found is not None
    assert found.matches[0].tell_apart == {"forward-compat-unsupported": None}
    assert found.matches[0].certain is True


# ---------------------------------------------------------------- causes
def test_a_cause_has_its_page_and_the_codes_that_may_mean_it() -> None:
    cause = "driver-version-mismatch"
    found = explain_code(cause, KNOWLEDGE)
    assert found is not None
    assert (found.kind, found.query, found.matches) == ("cause", cause, ())
    assert found.cause is not None
    assert found.cause.id == cause
    assert {"cuda 803", "nvml 18", "nvidia-smi 18"} <= set(found.cause.codes)
    assert found.cause.tell_apart == KNOWLEDGE.causes[cause].tell_apart


@every("cause", sorted(KNOWLEDGE.causes))
def test_the_messages_of_a_cause_are_those_of_its_matches(cause: str) -> None:
    found = explain_code(cause, KNOWLEDGE)
    assert found is not None
    assert found.cause is not None
    known = KNOWLEDGE.cause(cause)
    assert {*found.cause.messages, *found.cause.hints} == {literal for match in known.match for literal in match.literals}
    assert all(any(one in match.literals and not match.suspects for match in known.match) for one in found.cause.messages)


def test_every_code_named_on_a_page_is_a_query_that_leads_back() -> None:
    for cause in KNOWLEDGE.causes:
        page = explain_code(cause, KNOWLEDGE)
        assert page is not None
        assert page.cause is not None
        for code in page.cause.codes:
            found = explain_code(code, KNOWLEDGE)
            assert found is not None
            assert any(cause in match.causes for match in found.matches)


# ---------------------------------------------------------------- things that are no code
@pytest.mark.parametrize(
    ("query", "subject", "identity"),
    [
        ("CUDA_VISIBLE_DEVICES", "variable", "CUDA_VISIBLE_DEVICES"),
        ("cuda_visible_devices", "variable", "CUDA_VISIBLE_DEVICES"),
        ("$CUDA_HOME", "variable", "CUDA_HOME"),
        ("CUDA_VISIBLE_DEVICES=-1", "variable", "CUDA_VISIBLE_DEVICES"),
        ("NVIDIA_DRIVER_CAPABILITIES", "variable", "NVIDIA_DRIVER_CAPABILITIES"),
        ("NUMBA_ENABLE_CUDASIM", "variable", "NUMBA_ENABLE_CUDASIM"),
        ("__NV_PRIME_RENDER_OFFLOAD", "variable", "__NV_PRIME_RENDER_OFFLOAD"),
        ("PATH", "variable", "PATH"),
        ("kepler", "architecture", "kepler"),
        ("Kepler architecture", "architecture", "kepler"),
        ("architecture ada", "architecture", "ada"),
        ("Blackwell Ultra", "architecture", "blackwell-ultra"),
        ("sm_90", "capability", "cc 9.0"),
        ("sm_90a", "capability", "cc 9.0"),
        ("sm_120", "capability", "cc 12.0"),
        ("compute_35", "capability", "cc 3.5"),
        ("cc 8.9", "capability", "cc 8.9"),
        ("compute capability 8.9", "capability", "cc 8.9"),
        ("8.9", "capability", "cc 8.9"),
        ("NVIDIA GeForce RTX 3090", "capability", "cc 8.6"),
        ("H200", "capability", "cc 9.0"),
        ("GK208M", "chip", "GK208M"),
        ("gk208m", "chip", "GK208M"),
        ("GK208M [GeForce GT 740M]", "chip", "GK208M"),
        ("10de:1292", "device", "10de:1292"),
        ("[10DE:1292]", "device", "10de:1292"),
        ("pci id 10de:1292", "device", "10de:1292"),
        ("0x1292", "device", "10de:1292"),
        ("PCI\\VEN_10DE&DEV_1292&SUBSYS_00000000", "device", "10de:1292"),
        ("driver 470", "driver", "driver 470"),
        ("nvidia-driver-470-server", "driver", "driver 470"),
        ("470.256.02", "driver", "driver 470.256.02"),
        ("driver 550.54", "driver", "driver 550.54"),
        ("551.78", "driver", "driver 551.78"),
        ("toolkit 12.4", "toolkit", "toolkit 12.4"),
        ("cuda 12.4", "toolkit", "toolkit 12.4"),
        ("CUDA 12.4.1", "toolkit", "toolkit 12.4"),
        ("cuda-12.4", "toolkit", "toolkit 12.4"),
        ("nvcc 12.4", "toolkit", "toolkit 12.4"),
        ("CUDA Version: 12.4", "toolkit", "toolkit 12.4"),
        ("12.4", "toolkit", "toolkit 12.4"),
        ("ptx 8.5", "ptx", "ptx 8.5"),
        ("PTX ISA 8.5", "ptx", "ptx 8.5"),
        (".version 8.5", "ptx", "ptx 8.5"),
        ("gcc 13", "compiler", "gcc 13"),
        ("g++-13", "compiler", "gcc 13"),
        ("gcc 13.2.0", "compiler", "gcc 13"),
        ("clang 17", "compiler", "clang 17"),
        ("msvc 19.40", "compiler", "msvc 1940"),
        ("msvc 14.40", "compiler", "msvc 1940"),
        ("_MSC_VER 1940", "compiler", "msvc 1940"),
        ("numba 0.60", "numba", "numba 0.60"),
        ("numba==0.59.1", "numba", "numba 0.59.1"),
        ("numba-cuda 0.20", "numba-cuda", "numba-cuda 0.20"),
        ("numba_cuda==0.20.1", "numba-cuda", "numba-cuda 0.20.1"),
    ],
)
def test_what_a_thing_is(query: str, subject: str, identity: str) -> None:
    found = topic(query)
    assert (found.subject, found.id) == (subject, identity)
    assert topic(found.id).id == identity, "the id is a question that leads back"


@pytest.mark.parametrize(
    "query",
    ["RTX 3090 out of memory", "Driver/library version mismatch", "a sentence about kepler", "GT 740M", "CUDA_NO_SUCH_VARIABLE", "ls"],
)
def test_what_is_no_thing(query: str) -> None:
    assert explain_code(query, KNOWLEDGE) is None


def test_a_long_text_is_not_even_looked_at() -> None:
    assert explain_code("cuda 100 " * 40, KNOWLEDGE) is None
    assert explain_code("kepler\n" * 40, KNOWLEDGE) is None


def everything() -> list[str]:
    """A question for every row of the tables of things."""
    newest = KNOWLEDGE.numba_cuda_releases
    return [
        *(row.name for row in KNOWLEDGE.env_vars),
        *(row.name for row in KNOWLEDGE.numba_env),
        *(row.id for row in KNOWLEDGE.architectures),
        *(row.name for row in KNOWLEDGE.architectures),
        *(f"cc {row.cc}" for row in KNOWLEDGE.capabilities),
        *(f"sm_{row.cc.replace('.', '')}" for row in KNOWLEDGE.capabilities),
        *(
            name
            for row in KNOWLEDGE.chip_ranges
            for name in row.chips
            if "/" not in name and KNOWLEDGE.chip_by_name(name.upper()) is not None
        ),
        *(f"10de:{row.first}" for row in KNOWLEDGE.chip_ranges),
        *(f"10de:{row.last}" for row in KNOWLEDGE.chip_ranges),
        *(f"driver {row.branch}" for row in KNOWLEDGE.branches),
        *(row.last for row in KNOWLEDGE.branches if row.last),
        *(f"cuda {row.cuda}" for row in KNOWLEDGE.toolkits),
        *(f"ptx {row.ptx_isa}" for row in KNOWLEDGE.toolkits),
        *(f"gcc {number}" for number in range(4, 20)),
        *(f"clang {number}" for number in range(3, 25)),
        *(f"msvc {number}" for number in range(1900, 1970, 10)),
        *(f"numba {row.numba.replace('.x', '').replace('{0,1}', '1')}" for row in KNOWLEDGE.numba_releases),
        *(f"numba-cuda {end}" for row in newest for end in row.numba_cuda.split(" - ")),
    ]


@every("query", dict.fromkeys(everything()))
def test_every_row_of_every_table_has_a_page(query: str) -> None:
    found = topic(query)
    assert found.title
    assert found.meaning
    assert found.sources
    assert "{" not in "".join(trouble.text for trouble in found.troubles), "a placeholder was left open"
    assert "None" not in [line.value for line in found.facts]
    assert list(found.tell_apart) == list(found.causes)
    assert set(found.causes) == {cause for trouble in found.troubles for cause in trouble.causes}


def test_what_a_kepler_needs() -> None:
    for query in ("kepler", "cc 3.5", "GK208M", "10de:1292"):
        found = topic(query)
        assert fact(found, "last driver") == "470.256.02", query
        assert fact(found, "last toolkit") == "11.8", query
        assert {"driver-too-new-for-gpu", "open-module-unsupported-gpu", "toolkit-dropped-gpu"} <= set(found.causes), query
        assert "driver-too-old-for-gpu" not in found.causes, query


@pytest.mark.parametrize(
    ("query", "driver"),
    [
        ("GA100", "450"), ("ampere", "450"), ("GA102", "455.23.04"), ("cc 8.6", "455.23.04"), ("10de:2206", "455.23.04"),
        ("ada", "520.56.06"), ("hopper", "520.56.06"), ("cc 12.0", "570.86.15"), ("GB10", "580.94.13"), ("blackwell-ultra", "580.82.07"),
    ],
)  # fmt: skip
def test_the_first_driver_of_a_gpu(query: str, driver: str) -> None:
    assert fact(topic(query), "first driver") == driver


@pytest.mark.parametrize("query", ["GA102", "cc 8.6", "10de:2206"])
def test_what_a_capability_says_of_a_gpu_comes_with_its_sources(query: str) -> None:
    assert any("11.1 GA asks for 455.23" in source for source in topic(query).sources)


def test_what_a_blackwell_needs() -> None:
    found = topic("cc 12.0")
    assert {"driver-too-old-for-gpu", "open-module-required", "toolkit-too-old-for-gpu", "numba-too-old"} <= set(found.causes)
    assert "driver-too-new-for-gpu" not in found.causes
    assert "numba-too-old" not in topic("cc 9.0").causes


def test_the_end_of_numbas_built_in_target_is_that_of_the_table() -> None:
    newest = KNOWLEDGE.numba_releases[0].builtin_cc
    assert all(f"..{'.'.join(map(str, hardware_pages._BUILTIN_NUMBA_ENDS))} " in row for row in newest)


def test_the_same_name_with_chips_of_two_generations_is_told_by_the_id() -> None:
    assert (fact(topic("10de:1292"), "compute capability"), fact(topic("10de:0fdf"), "compute capability")) == ("3.5", "3.0")
    assert (fact(topic("10de:0fdf"), "last toolkit"), fact(topic("10de:1292"), "last toolkit")) == ("10.2", "11.8")


def test_a_chip_older_than_cuda() -> None:
    found = topic("NV34")
    assert "CUDA does not run on it" in " ".join(trouble.text for trouble in found.troubles)
    assert "open-module-unsupported-gpu" not in found.causes


def test_a_driver_branch() -> None:
    found = topic("driver 470")
    assert fact(found, "newest CUDA that it supports") == "11.4"
    assert fact(found, "the last branch for") == "kepler"
    assert any("no longer drives" in trouble.text and "Fermi" in trouble.text for trouble in found.troubles)
    assert any("support has ended" in trouble.text for trouble in found.troubles)
    assert not any("ended on" in trouble.text for trouble in topic("driver 580").troubles), "its support ends after the table was read"
    assert "Windows version" in topic("551.78").meaning
    assert fact(topic("driver 535.54.03"), "newest toolkit that needs nothing newer") == "12.2 GA"


def test_a_toolkit_and_the_number_that_is_a_code() -> None:
    found = topic("cuda 12.4")
    assert fact(found, "Linux driver with which everything works") == "550.54.14"
    assert fact(found, "Linux driver from which on machine code runs") == "525.60.13"
    assert (fact(found, "newest gcc"), fact(found, "newest PTX that it writes")) == ("13", "8.4")
    assert "debian 13 trixie" in (fact(found, "packaged by") or "")
    assert matches("cuda 12") == [("cuda", 12)]
    assert "`cuda 12.9`" in (meaning("cuda 12").advice or "")
    assert "dot" not in (meaning("cuda 100").advice or "") + (meaning("cuda 1").advice or "")


def test_a_ptx_version_and_a_host_compiler() -> None:
    assert "from 555 on" in (fact(topic("ptx 8.5"), "driver branches that compile it") or "")
    assert fact(topic("gcc 13"), "accepted by CUDA") == "12.4 to 13.5"
    assert fact(topic("gcc 13"), "refused by CUDA") == "8.0 to 12.3"
    assert any("No CUDA in these tables" in trouble.text for trouble in topic("gcc 99").troubles)
    assert "host-compiler-unsupported" not in topic("gcc 5").causes


def test_numba() -> None:
    assert fact(topic("numba 0.60"), "toolkits of its built-in CUDA target") == "11.2-12.4"
    assert fact(topic("numba-cuda 0.20"), "toolkits of CUDA") == "12, 13"
    assert fact(topic("numba-cuda 0.5"), "releases") == "0.0.13 - 0.5"
    assert fact(topic("numba-cuda 0.30.2"), "releases") == "0.30.0 - 0.30.4"


def test_every_kind_of_topic_has_an_example_that_leads_to_it_and_every_pitfall_is_reached() -> None:
    for kind in KNOWLEDGE.topics:
        assert topic(kind.example).subject == kind.id
    reached = {trouble.causes for query in everything() for trouble in topic(query).troubles}
    for row in KNOWLEDGE._pitfalls:
        assert row.causes in reached or not row.causes, row


@pytest.mark.parametrize(
    ("number", "asked"),
    [
        (79, "NVIDIA's catalogue (A100, H100, B100, GB200): RESTART_BM, then CONTACT_SUPPORT."),
        (145, "(B100, GB200): WORKFLOW_NVLINK5_ERR."),
    ],
)
def test_an_xid_has_the_words_of_nvidias_catalogue(number: int, asked: str) -> None:
    assert asked in (explain_code(f"xid {number}", KNOWLEDGE).matches[0].advice or "")


# ---------------------------------------------------------------- JSON
@pytest.mark.parametrize("query", ["100", "driver-version-mismatch", "cc 8.9"])
def test_the_json_has_every_key(query: str) -> None:
    found = explain_code(query, KNOWLEDGE)
    raw = msgspec.to_builtins(found)
    assert list(raw) == ["schema", "kind", "query", "matches", "cause", "topics"]
    assert raw["schema"] == "cudadoctor.explanation/1"
    for match in raw["matches"]:
        assert {"api", "number", "name", "aliases", "meaning", "causes", "certain", "tell_apart"} <= set(match)
        assert {"messages", "advice", "number_before_10_1", "sources"} <= set(match)
    for thing in raw["topics"]:
        assert set(thing) == {
            "subject", "id", "title", "meaning", "compute_capability", "facts", "troubles", "causes", "tell_apart", "sources",
        }  # fmt: skip
