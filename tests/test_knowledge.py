"""The knowledge files: they decode, name only known causes, agree with each other, and are read once."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from hatchling.build import build_wheel

from cudadoctor.knowledge import decoding
from cudadoctor.knowledge.load import Knowledge, KnowledgeError, load
from cudadoctor.model.explanation import Subject
from cudadoctor.model.version import ComputeCapability, CudaVersion, ModuleVersion, ToolkitVersion
from cudadoctor.parsers import read
from tests.cases import every
from tests.judging import KNOWLEDGE

ROOT = Path(__file__).parent.parent
TABLES = sorted((ROOT / "cudadoctor" / "knowledge" / "tables").glob("*.toml"))
IDS = set(KNOWLEDGE.causes)
TABLE_PROPERTIES = (
    "causes", "recipes", "architectures", "capabilities", "chip_prefixes", "chip_ranges", "branches", "distributions", "package_rules",
    "ubuntu_transitional", "toolkits", "toolkit_releases", "smi_versions", "distro_toolkits", "cuda_errors",
    "old_runtime_errors", "nvml_errors", "dcgm_errors", "smi_exits", "smi_messages", "smi_headers", "smi_changes", "xids",
    "xid_buckets", "recovery_actions", "env_vars", "visible_devices_rules", "numba_releases", "numba_cuda_releases",
    "numba_facts", "numba_env", "products", "torch_indexes", "distributions", "device_problems", "topics", "makers", "figures", "circumstances",
    "lexicon", "discourse", "experiments", "placeholder_words", "conditions", "redaction",
)  # fmt: skip
CAUSE = """
title = "The driver is asleep"
layer = "kernel"
row = "driver"
breaks = ["driver"]
effect = "blocks"
why = "It sleeps."
tell_apart = "lsmod"
recipes = []
"""


def values_of(key: str, value: Any) -> Iterator[tuple[dict[str, Any], Any]]:
    """Every value of that key at any depth, with the row that has it."""
    if isinstance(value, dict):
        if key in value:
            yield value, value[key]
        for inner in value.values():
            yield from values_of(key, inner)
    elif isinstance(value, list):
        for inner in value:
            yield from values_of(key, inner)


@every("name", TABLE_PROPERTIES)
def test_every_table_decodes_and_has_rows(name: str) -> None:
    if name == "recipes" and not (ROOT / "cudadoctor" / "knowledge" / "recipes").exists():
        pytest.skip("no recipes yet")
    table = getattr(KNOWLEDGE, name)
    rows = {"lexicon": "says", "discourse": "words", "experiments": "rule"}
    assert len(getattr(table, rows[name]) if name in rows else table) > 0


def test_every_table_file_is_read_by_some_property() -> None:
    for path in TABLES:
        texts = {f"tables/{other.name}": other.read_text(encoding="utf-8") for other in TABLES if other != path}
        knowledge = Knowledge(texts)
        broken = [message for name in TABLE_PROPERTIES if (message := complaint(knowledge, name)) is not None]
        assert broken, f"nothing reads {path.name}: add a property to Knowledge, or remove the file"
        assert all(path.name in message for message in broken)


def complaint(knowledge: Knowledge, name: str) -> str | None:
    """What reading this property complains of."""
    try:
        getattr(knowledge, name)
    except KnowledgeError as error:
        return str(error)
    return None


def test_a_misspelt_key_names_the_file() -> None:
    with pytest.raises(KnowledgeError, match=r"causes/driver-asleep\.toml.*tittle"):
        _ = Knowledge({"causes/driver-asleep.toml": CAUSE.replace("title", "tittle")}).cause("driver-asleep")


def test_text_that_is_no_toml_names_the_file() -> None:
    with pytest.raises(KnowledgeError, match=r"tables/nvml_errors\.toml"):
        _ = Knowledge({"tables/nvml_errors.toml": "[[error]\n"}).nvml_errors


def test_a_missing_table_names_the_file() -> None:
    with pytest.raises(KnowledgeError, match=r"tables/xid\.toml"):
        Knowledge({}).xid(79)


def test_an_id_that_is_not_the_file_name_is_refused() -> None:
    with pytest.raises(KnowledgeError, match=r"causes/driver-asleep\.toml"):
        _ = Knowledge({"causes/driver-asleep.toml": 'id = "driver-awake"\n' + CAUSE}).cause("driver-asleep")


def test_the_file_name_is_the_id_and_a_repeated_id_is_fine() -> None:
    for text in (CAUSE, 'id = "driver-asleep"\n' + CAUSE):
        assert Knowledge({"causes/driver-asleep.toml": text}).cause("driver-asleep").id == "driver-asleep"


def test_an_unknown_cause_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        Knowledge({}).cause("driver-asleep")


def test_nothing_is_decoded_before_it_is_asked_for() -> None:
    knowledge = Knowledge({"causes/driver-asleep.toml": CAUSE, "tables/xid.toml": "not toml"})
    assert list(knowledge.causes) == ["driver-asleep"]


def test_no_file_is_touched_after_load() -> None:
    script = f"""
import sys
import msgspec
msgspec.toml.decode("")  # imports what decodes TOML: an import reads files too, and is not what is tested
from cudadoctor.knowledge.load import load
from cudadoctor.parsers import error_codes, signs
from cudadoctor.parsers.base import Text
from tests.cases import every
knowledge = load()
touched = []
sys.addaudithook(lambda event, args: touched.append((event, args)) if event in ("open", "os.listdir", "os.scandir") else None)
for name in {TABLE_PROPERTIES!r}:
    getattr(knowledge, name)
text = Text("CUDA error 100, Xid 79, NVML error 9", source="text")
error_codes.clues(text, knowledge), signs.clues(text, knowledge)
assert not touched, touched
"""
    ran = subprocess.run([sys.executable, "-B", "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert ran.returncode == 0, ran.stderr


# ---------------------------------------------------------------- codes to causes, causes to codes
@every("path", TABLES)
def test_tables_name_only_causes_of_the_vocabulary(path: Path) -> None:
    for row, causes in values_of("causes", msgspec.toml.decode(path.read_text(encoding="utf-8"))):
        assert set(causes) <= IDS, row
        assert len(set(causes)) == len(causes) > 0, row
        assert not row.get("suspect_only") or len(causes) == 1, f"suspect_only is for a single cause: {row}"


def named_by_signs() -> Iterator[tuple[str, str, int]]:
    """(cause, API, number) for each code that the vocabulary's signs name. What stands after "not" speaks of a neighbour,
    and an Xid before a quotation counts only with those words."""
    for cause in KNOWLEDGE.causes.values():
        signs = re.split(r"\b[Nn]ot\b|\bis only\b|\bprefer\b|\bdecides nothing\b|\bPrefer\b", cause.signs)[0]
        for name in re.findall(r"CUDA_ERROR_\w+|cudaError\w+", signs):
            row = KNOWLEDGE.cuda_error(name)
            if row is not None:
                yield cause.id, "cuda", row.code
        for name in re.findall(r"NVML_ERROR_\w+", signs):
            nvml = KNOWLEDGE.nvml_error(name)
            assert nvml is not None, name
            yield cause.id, "nvml", nvml.code
        for numbers in re.findall(r"Xid (\d+(?:(?:/ ?|, |-)\d+)*)\b(?! ')", signs):
            for part in re.split(r"/ ?|, ", numbers):
                first, _, last = part.partition("-")
                for number in range(int(first), int(last or first) + 1):
                    yield cause.id, "xid", number
        for number in re.findall(r"\((\d{3})\)|CUDA (\d{3})\b", signs):
            yield cause.id, "cuda", int(number[0] or number[1])


@every("cause, api, number", sorted(set(named_by_signs())))
def test_a_code_in_the_vocabulary_has_that_cause_in_its_row(cause: str, api: str, number: int) -> None:
    row = {"cuda": KNOWLEDGE.cuda_error, "nvml": KNOWLEDGE.nvml_error, "xid": KNOWLEDGE.xid}[api](number)
    assert row is not None, f"{api} {number} has no row"
    assert cause in row.causes, f"{api} {number} means {cause} by the vocabulary; correct the row's causes"


def test_the_vocabulary_names_many_codes() -> None:
    assert len(set(named_by_signs())) > 40


def test_no_device_has_every_cause_that_hides_a_gpu() -> None:
    row = KNOWLEDGE.cuda_error(100)
    assert row is not None
    assert {
        "no-nvidia-gpu", "nouveau-bound", "driver-not-installed", "driver-not-loaded", "cuda-visible-devices-hides-all",
        "cuda-visible-devices-invalid", "scheduler-gave-no-gpu", "container-no-gpu-access",
    } <= set(row.causes)  # fmt: skip


@every("path", TABLES)
def test_every_source_is_a_key_or_a_text(path: Path) -> None:
    table = msgspec.toml.decode(path.read_text(encoding="utf-8"))
    used = set()
    for row, source in values_of("source", table):
        for text in [source] if isinstance(source, str) else source:
            known = text in table.get("sources", {})
            assert known or " " in text or "." in text or "(" in text, f"{text!r} is no key of [sources]: {row}"
            used.add(text)
    assert set(table.get("sources", {})) <= used, "a source that no row rests on"


@every("path", TABLES)
def test_every_row_has_a_source(path: Path) -> None:
    """Its own, or one that the head of the file states for all rows of its list."""
    table = msgspec.toml.decode(path.read_text(encoding="utf-8"))
    meta = table.get("meta", {})
    for name, rows in table.items():
        if not isinstance(rows, list):
            continue
        shared = meta.get(f"{name}_source") or meta.get("source")
        bare = [row for row in rows if not row.get("source")]
        assert not bare or shared, f"{path.name}, [[{name}]]: no source for {bare[0]}"


def test_the_source_of_a_row_is_given_in_full() -> None:
    row = KNOWLEDGE.cuda_error(100)
    assert row is not None
    assert any("nvidia-cuda-runtime" in text for text in KNOWLEDGE.sources("cuda_errors", row.source))
    assert any("libcudart 9.1.85" in text for text in KNOWLEDGE.sources("cuda_errors", None, "old_runtime"))
    assert KNOWLEDGE.sources("xid", "a text of its own") == ("a text of its own",)
    with pytest.raises(KeyError):
        KNOWLEDGE.sources("xid", None, "no_such_list")


@every("path", TABLES)
def test_the_head_of_a_file_is_read_without_its_rows(path: Path) -> None:
    whole = msgspec.toml.decode(path.read_text(encoding="utf-8"))
    head = KNOWLEDGE._head(path.stem)
    assert (head.meta, head.sources) == (whole.get("meta", {}), whole.get("sources", {}))


# ---------------------------------------------------------------- what explain says of things
def test_topics_name_only_kinds_that_exist_and_advice_only_known_apis() -> None:
    kinds = {row.id for row in KNOWLEDGE.topics}
    assert kinds == set(get_args(Subject))
    for row in KNOWLEDGE._pitfalls:
        assert set(row.topics) <= kinds, row
    apis = {row.api for row in KNOWLEDGE._advice}
    assert apis == {"cuda", "nvml", "xid", "nvidia-smi"}
    for api in apis:
        assert KNOWLEDGE.advice(api, success=False)
    assert KNOWLEDGE.advice("cuda", success=True) != KNOWLEDGE.advice("cuda", success=False)
    with pytest.raises(KeyError):
        KNOWLEDGE.topic("no-such-kind")


def test_the_causes_that_name_a_cause() -> None:
    naming = KNOWLEDGE.causes_naming("secure-boot-blocks-module")
    assert "driver-module-missing-for-kernel" in naming
    assert "secure-boot-blocks-module" not in naming
    for cause in KNOWLEDGE.causes.values():
        for other in cause.yields_to:
            assert cause.id in KNOWLEDGE.causes_naming(other)


def test_measured_values_and_rules_of_visible_devices_agree() -> None:
    measured = msgspec.toml.decode((ROOT / "fixtures" / "cuda_visible_devices_measured.toml").read_text(encoding="utf-8"))
    by_text = {row["text"]: row for row in measured["value"]}
    rules = {row.input: row for row in KNOWLEDGE.visible_devices_rules}
    assert by_text["0,0"]["cuInit"] == 101
    assert "101" in rules["duplicate '0,0'"].effect
    assert by_text["0 1"]["devices"] == ["A"]
    assert "'0 1' is 0 alone" in rules["spaces '0, 1'"].effect
    assert by_text["1abc,0"]["devices"] == ["B", "A"]
    assert "still counts" in rules["number with trailing text '1gpu2'"].effect
    assert not [row.input for row in rules.values() if row.certainty.startswith("second-hand")], "what was measured is no hearsay"


# ---------------------------------------------------------------- tables of codes
def test_the_tables_have_as_many_rows_as_their_heads_say() -> None:
    head = {name: KNOWLEDGE._head(name).meta for name in ("cuda_errors", "nvml_errors", "xid")}
    with_driver = [row for row in KNOWLEDGE.cuda_errors if row.driver_name]
    assert len(with_driver) == head["cuda_errors"]["enum_size"]
    assert len(KNOWLEDGE.cuda_errors) - len(with_driver) == head["cuda_errors"]["runtime_only"]
    assert len(KNOWLEDGE.old_runtime_errors) == head["cuda_errors"]["old_runtime"]
    assert len(KNOWLEDGE.nvml_errors) == head["nvml_errors"]["enum_size"]
    assert len(KNOWLEDGE.xids) == head["xid"]["count"]


def test_every_capability_belongs_to_an_architecture_and_to_the_toolkits_of_its_range() -> None:
    known = {row.id for row in KNOWLEDGE.architectures}
    for row in KNOWLEDGE.capabilities:
        assert row.architecture in known, row.cc
        for toolkit in KNOWLEDGE.toolkits:
            if row.compute_capability in toolkit.capabilities:
                assert row.first_toolkit is None or row.first_toolkit <= toolkit.version, (row.cc, toolkit.cuda)
                assert row.last_toolkit is None or toolkit.version <= row.last_toolkit, (row.cc, toolkit.cuda)


def test_codes_are_unique_and_old_numbers_lead_to_new_ones() -> None:
    for rows, number in (
        (KNOWLEDGE.cuda_errors, "code"),
        (KNOWLEDGE.nvml_errors, "code"),
        (KNOWLEDGE.smi_exits, "code"),
        (KNOWLEDGE.xids, "number"),
    ):
        codes = [getattr(row, number) for row in rows]
        assert len(set(codes)) == len(codes)
    for old in KNOWLEDGE.old_runtime_errors:
        today = KNOWLEDGE.cuda_error(old.code_today)
        assert today is not None
        assert today.runtime_name == old.runtime_name


def test_codes_are_found_by_number_digits_and_name() -> None:
    for key in (100, "100", "CUDA_ERROR_NO_DEVICE", "cudaErrorNoDevice"):
        row = KNOWLEDGE.cuda_error(key)
        assert row is not None
        assert row.code == 100
    for key in (18, "NVML_ERROR_LIB_RM_VERSION_MISMATCH", "NVMLError_LibRmVersionMismatch"):
        nvml = KNOWLEDGE.nvml_error(key)
        assert nvml is not None
        assert nvml.causes == ("driver-version-mismatch",)
    assert KNOWLEDGE.cuda_error("CUDA_ERROR_MADE_UP") is None
    assert KNOWLEDGE.xid(99999) is None


def test_an_xid_of_a_retired_unit_speaks_of_no_link_and_no_memory() -> None:
    event, failure = KNOWLEDGE.xid(156), KNOWLEDGE.xid(157)
    assert event is not None
    assert failure is not None
    assert (event.causes, event.suspect_only) == (("gpu-needs-reset",), True)
    assert failure.causes == ()


def test_short_messages_need_a_context() -> None:
    """A message of one or two plain words is printed by other software too."""
    for row in KNOWLEDGE.cuda_errors:
        if row.code and row.message and len(row.message.split()) <= 2:
            assert row.generic, f"{row.code}: {row.message!r} needs generic = true"


# ---------------------------------------------------------------- chips, architectures, drivers, toolkits
@pytest.mark.parametrize(
    ("device", "architecture", "capability"),
    [
        ("1292", "kepler", "3.5"),  # GeForce GT 740M as GK208M ...
        ("0fdf", "kepler", "3.0"),  # ... and as GK107M
        ("2335", "hopper", "9.0"),  # H200
        ("0x2335", "hopper", "9.0"),
        ("2C0A", "blackwell", "12.0"),  # in no pci.ids, inside a run
        ("2e13", "blackwell", "12.1"),  # RTX Spark N1X
        ("3041", "rubin", "10.7"),
        ("3080", "rubin", None),  # GR102
        ("3184", "blackwell-ultra", "10.3"),
        ("1140", "fermi", "2.1"),
        ("0028", "pre-cuda", None),
    ],
)
def test_chip_by_device_id(device: str, architecture: str, capability: str | None) -> None:
    chip = KNOWLEDGE.chip(device)
    assert chip is not None
    assert chip.architecture == architecture
    assert chip.compute_capability == (None if capability is None else ComputeCapability(capability))


@pytest.mark.parametrize("device", ["4000", "", "zz", "ffff"])
def test_a_device_outside_every_run_is_not_guessed(device: str) -> None:
    assert KNOWLEDGE.chip(device) is None


@pytest.mark.parametrize(
    ("name", "architecture", "capability"),
    [
        ("GK208M [GeForce GT 740M]", "kepler", "3.5"),
        ("GK107M [GeForce GT 740M]", "kepler", "3.0"),
        ("GH100 [H200 SXM 141GB]", "hopper", "9.0"),
        ("GM107M [GeForce GTX 850M]", "maxwell", "5.0"),
        ("GB203M / GN22 [GeForce RTX 5080]", "blackwell", "12.0"),
        ("GB10 [DGX Spark]", "blackwell", "12.1"),
        ("GB20B [RTX Spark N1X (6144-core Blackwell RTX GPU)]", "blackwell", "12.1"),
        ("GR100", "rubin", "10.7"),
        ("GR102 [Reserved Dev ID A]", "rubin", None),
        ("TU117 [GeForce GTX 1650]", "turing", "7.5"),
        ("NV34 [GeForce FX 5200]", "pre-cuda", None),
    ],
)
def test_chip_by_name(name: str, architecture: str, capability: str | None) -> None:
    chip = KNOWLEDGE.chip_by_name(name)
    assert chip is not None
    assert (chip.architecture, str(chip.compute_capability)) == (architecture, str(capability))


@pytest.mark.parametrize("name", ["", "   ", "Device 2335", "GeForce RTX 4090"])
def test_a_product_name_decides_nothing(name: str) -> None:
    assert KNOWLEDGE.chip_by_name(name) is None


def test_id_ranges_are_in_order_and_join_the_architectures() -> None:
    known = {row.id: row.cc for row in KNOWLEDGE.architectures}
    last = -1
    for row in KNOWLEDGE.chip_ranges:
        assert last < int(row.first, 16) <= int(row.last, 16), row
        last = int(row.last, 16)
        assert row.architecture == "pre-cuda" or row.cc is None or row.cc in known[row.architecture], row
    for prefix in KNOWLEDGE.chip_prefixes:
        re.compile(prefix.regex)
        assert prefix.architecture in {*known, "pre-cuda"}


def test_names_and_ids_give_the_same_chip() -> None:
    for row in KNOWLEDGE.chip_ranges:
        for name in row.chips:
            chip = KNOWLEDGE.chip_by_name(name)
            if chip is not None and row.architecture != "pre-cuda":
                assert chip.architecture == row.architecture, (row.first, name)
                assert str(chip.compute_capability) == str(row.cc), (row.first, name)


def test_capabilities_belong_to_their_architecture() -> None:
    for row in KNOWLEDGE.capabilities:
        found = KNOWLEDGE.architecture_of(row.compute_capability)
        if found is not None:
            assert found.id == row.architecture
    hopper = KNOWLEDGE.architecture_of(ComputeCapability("9.0"))
    assert hopper is not None
    assert hopper.id == "hopper"
    assert KNOWLEDGE.architecture_of(ComputeCapability("99.0")) is None


def test_branches() -> None:
    assert KNOWLEDGE.newest_branch == max(row.branch for row in KNOWLEDGE.branches)
    branch = KNOWLEDGE.branch(580)
    assert branch is not None
    assert branch.cuda == CudaVersion("13.0")
    assert KNOWLEDGE.branch(1) is None
    for row in KNOWLEDGE.architectures:
        assert row.last_driver_branch is None or KNOWLEDGE.branch(row.last_driver_branch) is not None


def test_measured_cuda_versions_agree_with_the_branches() -> None:
    for row in KNOWLEDGE.smi_versions:
        branch = KNOWLEDGE.branch(row.branch)
        assert branch is not None
        assert branch.cuda == CudaVersion(row.cuda)


def test_toolkits_and_their_drivers() -> None:
    toolkit = KNOWLEDGE.toolkit(ToolkitVersion("11.5.119"))
    assert toolkit is not None
    assert (toolkit.cc_min, toolkit.cc_max) == (ComputeCapability("3.5"), ComputeCapability("8.7"))
    assert KNOWLEDGE.toolkit(ToolkitVersion("99.1")) is None
    minimum = KNOWLEDGE.driver_minimum(ToolkitVersion("12.4"))
    assert (minimum.full, minimum.minor) == (ModuleVersion("550.54.14"), ModuleVersion("525.60.13"))
    of_windows = KNOWLEDGE.driver_minimum(ToolkitVersion("12.4"), windows=True)
    assert of_windows.full == ModuleVersion("551.61")
    unknown = KNOWLEDGE.driver_minimum(ToolkitVersion("99.1"))
    assert unknown.full is None
    assert unknown.minor is None


def test_last_toolkit_of_an_architecture_is_the_last_that_compiles_for_it() -> None:
    for row in KNOWLEDGE.architectures:
        newest = [toolkit.version for toolkit in KNOWLEDGE.toolkits if set(toolkit.capabilities) & set(row.capabilities)]
        if row.last_toolkit is not None and newest:
            assert max(newest) == row.last_toolkit, row.id


def test_ubuntu_packages() -> None:
    names = {(row.release, row.package) for row in KNOWLEDGE.ubuntu_packages("jammy")}
    assert ("jammy", "nvidia-driver-470") in names
    assert not KNOWLEDGE.ubuntu_packages("warty")
    real = {row.package for release in ("focal", "jammy", "noble", "questing", "resolute") for row in KNOWLEDGE.ubuntu_packages(release)}
    for row in KNOWLEDGE.ubuntu_transitional:
        assert row.ends_at in real, f"{row.package} on {row.release} ends at {row.ends_at}, which is no package"


def test_load_reads_only_toml_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert load().causes.keys() == KNOWLEDGE.causes.keys()
    assert os.listdir(tmp_path) == []


def test_a_wheel_holds_the_same_knowledge_as_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    with zipfile.ZipFile(tmp_path / build_wheel(str(tmp_path))) as wheel:
        compiled = decoding.apart(wheel.read("cudadoctor/knowledge/compiled.json"))
    texts = KNOWLEDGE._texts
    assert {file: decoding.loaded(text) for file, text in compiled.items()} == {file: decoding.loaded(text) for file, text in texts.items()}
    tables = [file for file in texts if file.startswith("tables/")]
    assert [decoding.head_of(compiled[file]) for file in tables] == [decoding.head_of(texts[file]) for file in tables]


def test_no_word_that_wakes_a_reader_goes_over_the_end_of_a_line() -> None:
    """They are looked for line by line: such a word would never be found, and nobody would notice."""
    words = [*KNOWLEDGE.system_names.words["hints"], *(word for parser in read.parsers(KNOWLEDGE) for word in parser.wakes)]
    words += [literal for cause in KNOWLEDGE.causes.values() for match in cause.match for literal in match.literals]
    assert not [word for word in words if "\n" in word]
