"""Reads the knowledge files: all texts at once, each table decoded into typed values when it is first used.

After `load()` no file is touched any more, so whoever receives a `Knowledge` stays pure.
A file that does not fit its types is an error that names the file: knowledge is part of the program.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache, cached_property
from typing import Any, TypeVar

from cudadoctor.knowledge import codes, numba_rows, software, systems, tables, wording
from cudadoctor.knowledge.decoding import Folder, KnowledgeError, apart, decode, head_of, part_of, row_by, table_of
from cudadoctor.knowledge.experiments import Experiments
from cudadoctor.model import site
from cudadoctor.model.extension import Extension
from cudadoctor.model.recipe import Cause, Recipe
from cudadoctor.model.version import ComputeCapability, ModuleVersion, PackageVersion, ToolkitVersion

T = TypeVar("T")
Notes = tuple[dict[str, Any], ...]  # rows for whoever maintains the tables
FOLDERS = ("causes", "recipes", "tables")


@cache
def load() -> Knowledge:
    """The knowledge that comes with the package; one for the whole process. Reads every file once; nothing is decoded yet.

    An installed package holds all files in one as JSON, which is decoded five times as fast (.github/scripts/compiled.py makes it).
    """
    root = os.path.dirname(os.path.abspath(__file__))
    texts: dict[str, str] = {}
    try:
        with open(os.path.join(root, "compiled.json"), "rb") as compiled:
            return Knowledge(apart(compiled.read()))
    except FileNotFoundError:
        pass  # a checkout
    for folder in FOLDERS:
        for name in sorted(os.listdir(os.path.join(root, folder))):
            if name.endswith(".toml"):
                with open(os.path.join(root, folder, name), encoding="utf-8") as file:
                    texts[f"{folder}/{name}"] = file.read()
    return Knowledge(texts)


class Knowledge:
    """What is known apart from any machine. `texts`: file ("causes/nouveau-bound.toml", "tables/chips.toml") -> its TOML or JSON."""

    def __init__(self, texts: Mapping[str, str], extensions: tuple[Extension, ...] = (), left_out: tuple[str, ...] = ()) -> None:
        self._texts = dict(texts)
        self._made: dict[object, object] = {}
        self.extensions = extensions
        self.left_out = left_out  # why extensions are not used, a sentence each

    def once(self, name: object, make: Callable[[], T]) -> T:
        """What `make` gives, made once for this knowledge: indexes that recognisers build from tables."""
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]  # type: ignore[return-value]

    # ------------------------------------------------------------ what others add
    def extended(self, extension: Extension) -> Knowledge:
        """This knowledge and an extension's causes and recipes; their files are decoded when they are first used, as all are."""
        added = {f"causes/{name}.toml": text for name, text in extension.causes.items()}
        added.update({f"recipes/{name}.toml": text for name, text in extension.recipes.items()})
        return Knowledge({**self._texts, **added}, (*self.extensions, extension), self.left_out)

    def without(self, why: str) -> Knowledge:
        """This knowledge, and a sentence on an extension that is left out of it."""
        return Knowledge(self._texts, self.extensions, (*self.left_out, why))

    more_probes = property(lambda self: self._more("probes"))
    more_parsers = property(lambda self: self._more("parsers"))
    more_checks = property(lambda self: self._more("checks"))

    def _more(self, kind: str) -> tuple[Any, ...]:
        return tuple(one for extension in self.extensions for one in getattr(extension, kind))

    # ------------------------------------------------------------ causes and recipes
    @cached_property
    def causes(self) -> Mapping[str, Cause]:
        return self._folder("causes", Cause)

    @cached_property
    def recipes(self) -> Mapping[str, Recipe]:
        return self._folder("recipes", Recipe)

    def cause(self, cause_id: str) -> Cause:
        """KeyError where there is none."""
        return self.causes[cause_id]

    def own_causes(self) -> tuple[str, ...]:
        """Those that no extension added."""
        return tuple(cause for cause in self.causes if not any(cause in extension.causes for extension in self.extensions))

    def page_of(self, cause_id: str) -> str | None:
        """The address of a cause's page in the manual, which has none of an extension's."""
        return None if any(cause_id in extension.causes for extension in self.extensions) else site.of_cause(cause_id)

    def recipe(self, recipe_id: str) -> Recipe:
        """KeyError where there is none."""
        return self.recipes[recipe_id]

    # ------------------------------------------------------------ chips and architectures
    architectures = part_of("architectures", "architecture", tuple[tables.Architecture, ...])  # oldest first
    capabilities = part_of("architectures", "capability", tuple[tables.Capability, ...])
    capability = row_by(capabilities, "compute_capability")

    architecture = row_by(architectures, "id")  # "pre-cuda" has no row

    def architecture_of(self, capability: ComputeCapability) -> tables.Architecture | None:
        """The architecture, with what its row of this capability says otherwise."""
        row = next((row for row in self.architectures if capability in row.capabilities), None)
        return None if row is None else row.of(self.capability(capability))

    def first_toolkit(self, capability: ComputeCapability) -> ToolkitVersion | None:
        """The first toolkit whose machine code runs there: code for 8.0 runs on each 8.x."""
        rows = (
            self.capability(one)
            for row in self.architectures
            for one in row.capabilities
            if one.major == capability.major and one <= capability
        )
        found = [row.first_toolkit for row in rows if row is not None and row.first_toolkit is not None]
        return min(found, key=lambda version: version.numbers, default=None)

    def architecture_of_chip(self, chip: tables.Chip | None) -> tables.Architecture | None:
        """The same for a chip. None for one from before CUDA, and for None."""
        row = self.architecture(chip.architecture) if chip is not None else None
        return row.of(self.capability(chip.compute_capability)) if row is not None and chip is not None else None

    def chip(self, device_id: str) -> tables.Chip | None:
        """The chip behind a PCI device id of NVIDIA's ("1292", with or without 0x). None: newer than the table, or no GPU."""
        row = self.chip_range(device_id)
        return None if row is None else _chip(row.architecture, row.cc)

    def chip_range(self, device_id: str) -> tables.IdRange | None:
        try:
            number = int(device_id, 16)
        except ValueError:
            return None
        return next((row for row in self.chip_ranges if int(row.first, 16) <= number <= int(row.last, 16)), None)

    def chip_by_name(self, name: str) -> tables.Chip | None:
        """The chip by the first word of its name in pci.ids ("GK208M [GeForce GT 740M]"); a product's name decides nothing."""
        first = name.split(maxsplit=1)[0] if name.strip() else ""
        prefix = next((row for row in self.chip_prefixes if row.fits(first)), None)
        if prefix is None:
            return None
        capability = next((row.cc for row in self._chip_capabilities if re.match(row.regex, first)), prefix.cc)
        return _chip(prefix.architecture, capability)

    chip_prefixes = part_of("chips", "chip", tuple[tables.ChipPrefix, ...])
    chip_ranges = part_of("chips", "id_range", tuple[tables.IdRange, ...])
    _chip_capabilities = part_of("chips", "chip_cc", tuple[tables.ChipCapability, ...])
    chip_exceptions = part_of("chips", "exception", tuple[tables.ChipException, ...])

    # ------------------------------------------------------------ driver branches and packages
    branches = part_of("driver_branches", "branch", tuple[tables.Branch, ...])
    branch = row_by(branches, "branch")
    package_rules = part_of("driver_branches", "package_rule", Notes)

    @property
    def newest_branch(self) -> int:
        return max(row.branch for row in self.branches)

    _ubuntu_packages = part_of("ubuntu_packages", "package", tuple[tables.UbuntuPackage, ...])
    _ubuntu_transitional = part_of("ubuntu_packages", "transitional", dict[str, dict[str, tuple[str, str]]])

    def ubuntu_packages(self, codename: str) -> tuple[tables.UbuntuPackage, ...]:
        """The real driver packages of one release ("jammy")."""
        return tuple(row for row in self._ubuntu_packages if row.release == codename)

    @cached_property
    def ubuntu_transitional(self) -> tuple[tables.UbuntuTransitional, ...]:
        return tuple(
            tables.UbuntuTransitional(release=release, package=package, installs=installs, ends_at=ends_at)
            for release, rows in self._ubuntu_transitional.items()
            for package, (installs, ends_at) in rows.items()
        )

    system_names = table_of("distributions", systems.Distributions)  # systems, and how texts and kernels name them

    @property
    def distributions(self) -> tuple[systems.DistributionRow, ...]:
        return self.system_names.distribution

    device_problems = part_of("device_problems", "problem", tuple[systems.DeviceProblem, ...])  # of Windows
    device_problem = row_by(device_problems, "code")

    # ------------------------------------------------------------ toolkits
    toolkits = part_of("cuda_driver_compat", "cuda", tuple[tables.ToolkitInfo, ...])  # oldest first

    def toolkit(self, version: ToolkitVersion) -> tables.ToolkitInfo | None:
        """The row of its major.minor."""
        return next((row for row in self.toolkits if row.version.major_minor == version.major_minor), None)

    def driver_minimum(self, toolkit: ToolkitVersion, *, windows: bool = False) -> tables.DriverMinimum:
        """The oldest drivers for a toolkit: the first release of its major.minor counts, for an update is seldom known."""
        rows = [row for row in self.toolkit_releases if row.version.major_minor == toolkit.major_minor]
        full = [row.windows_min if windows else row.linux_min for row in rows]
        info = self.toolkit(toolkit)
        minor = None if info is None else info.minor_compat_windows_min if windows else info.minor_compat_linux_min
        oldest = min((ModuleVersion(text) for text in full if text is not None), default=None)
        return tables.DriverMinimum(full=oldest, minor=tables.version_of(ModuleVersion, minor))

    toolkit_releases = part_of("cuda_driver_compat", "release", tuple[tables.ToolkitRelease, ...])
    smi_versions = part_of("cuda_driver_compat", "smi_version", tuple[tables.SmiVersion, ...])
    distro_toolkits = part_of("cuda_driver_compat", "distro_toolkit", tuple[tables.DistroToolkit, ...])

    # ------------------------------------------------------------ products, adapters, frameworks, Numba
    products = part_of("products", "product", tuple[software.Product, ...])
    makers = part_of("adapters", "maker", tuple[software.Maker, ...])
    frameworks = table_of("frameworks", software.Frameworks)

    @property
    def torch_indexes(self) -> tuple[software.TorchIndex, ...]:
        """Oldest CUDA first."""
        return self.frameworks.torch_index

    def capability_of_product(self, name: str) -> ComputeCapability | None:
        """The compute capability of a product ("NVIDIA GeForce RTX 3090"); None where the name does not decide it."""
        row = next((row for row in self.products if row.fits(name)), None)
        return None if row is None else row.compute_capability

    def maker_of(self, vendor: str | None, words: str | None) -> software.Maker | None:
        """Who made an adapter: by its PCI vendor id, else by what a listing or a text calls it."""
        if vendor is not None:
            return next((row for row in self.makers if row.vendor == vendor), None)
        return next((row for row in self.makers if any(word in (words or "") for word in row.words)), None)

    numba_releases = part_of("numba_support", "numba", tuple[numba_rows.NumbaRelease, ...])

    def numba_release(self, version: PackageVersion) -> numba_rows.NumbaRelease | None:
        return next((row for row in self.numba_releases if row.covers(version)), None)

    numba_cuda_releases = part_of("numba_support", "numba_cuda", tuple[numba_rows.NumbaCudaRelease, ...])
    numba_facts = part_of("numba_support", "fact", tuple[numba_rows.NumbaFact, ...])
    numba_env = part_of("numba_support", "env", tuple[numba_rows.NumbaEnv, ...])

    # ------------------------------------------------------------ figures
    _rates = part_of("benchmark", "rate", tuple[tables.RateRow, ...])
    _rate = row_by(_rates, "cc")
    figures = part_of("benchmark", "figure", tuple[tables.FigureRow, ...])
    figure = row_by(figures, "name")  # None for a figure of a later release

    def nvlink(self, capability: ComputeCapability) -> float | None:
        """GB/s that one NVLink of such a GPU carries in one direction."""
        rate = self._rate(capability.text)
        return None if rate is None else rate.nvlink

    def per_cycle(self, capability: ComputeCapability, kind: str) -> int | None:
        """Multiply-adds of one multiprocessor in a cycle; `shared`: bytes of shared memory; `tensor_bf16`, `product_bf16`: of its tensor
        cores. None: not known."""
        rate = self._rate(capability.text)
        if kind == "shared":
            return (rate.shared_bytes if rate is not None else None) or tables.SHARED_BYTES
        what, _, operands = kind.partition("_")
        if what in ("tensor", "product"):
            return (rate.tensor or {}).get(operands) if rate is not None else None
        if kind in ("fp16", "bf16"):
            return getattr(rate, kind) if rate is not None else None
        row = self.capability(capability)
        return None if row is None else row.fp32_lanes_per_sm if kind == "fp32" else row.fp64_lanes_per_sm

    # ------------------------------------------------------------ codes
    dcgm_errors = part_of("dcgm_errors", "error", tuple[codes.DcgmErrorRow, ...])
    dcgm_error = row_by(dcgm_errors, "code")  # None for a code that no cause of the vocabulary stands for

    _cuda_errors = part_of("cuda_errors", "error", tuple[codes.CudaError, ...])
    _runtime_errors = part_of("cuda_errors", "runtime_only", tuple[codes.CudaError, ...])

    cuda_errors: cached_property[tuple[codes.CudaError, ...]] = cached_property(  # driver and runtime share their numbers
        lambda self: tuple(sorted(self._cuda_errors + self._runtime_errors, key=lambda row: row.code))
    )
    cuda_error = row_by(cuda_errors, "code", "driver_name", "runtime_name")
    old_runtime_errors = part_of("cuda_errors", "old_runtime", tuple[codes.OldRuntimeError, ...])
    old_runtime_error = row_by(old_runtime_errors, "code")
    nvml_errors = part_of("nvml_errors", "error", tuple[codes.NvmlError, ...])
    nvml_error = row_by(nvml_errors, "code", "name", "exception")
    smi_exits = part_of("nvidia_smi", "exit_code", tuple[codes.SmiExit, ...])
    smi_exit = row_by(smi_exits, "code")
    smi_messages = part_of("nvidia_smi", "message", tuple[codes.SmiMessage, ...])
    smi_headers = part_of("nvidia_smi", "header", Notes)
    smi_changes = part_of("nvidia_smi", "change", Notes)
    xids = part_of("xid", "xid", tuple[codes.Xid, ...])
    xid = row_by(xids, "number")
    xid_line = part_of("xid", "line_format", codes.XidLine)  # its form in the kernel log
    xid_buckets = part_of("xid", "bucket", Notes)
    recovery_actions = part_of("xid", "recovery_action", tuple[codes.RecoveryAction, ...])

    # ------------------------------------------------------------ what texts show and people write
    circumstances = part_of("circumstances", "circumstance", tuple[wording.Circumstance, ...])
    _placeholders = table_of("placeholders", wording.Placeholders)
    placeholder_words: cached_property[dict[str, str]] = cached_property(lambda self: self._placeholders.words)
    placeholder_forms: cached_property[dict[str, re.Pattern[str]]] = cached_property(lambda self: self._placeholders.compiled())
    _conditions = table_of("conditions", wording.Conditions)
    # Of recipes, where lines alone meet them.
    conditions: cached_property[dict[str, dict[str, re.Pattern[str]]]] = cached_property(lambda self: self._conditions.compiled())
    discourse = table_of("discourse", wording.Discourse)
    lexicon = table_of("lexicon", wording.Lexicon)
    redaction = table_of("redaction", dict[str, Any])
    experiments = table_of("experiments", Experiments)

    # ------------------------------------------------------------ what `explain` says beside the numbers
    def causes_naming(self, cause_id: str) -> tuple[str, ...]:
        """The ids of other causes in whose files this one is named; no file is decoded for it."""
        named = (file for file, text in self._texts.items() if file.startswith("causes/") and f'"{cause_id}"' in text)
        return tuple(name for file in named if (name := file.removeprefix("causes/").removesuffix(".toml")) != cause_id)

    topics = part_of("topics", "topic", tuple[tables.TopicKind, ...])
    _pitfalls = part_of("topics", "pitfall", tuple[tables.Pitfall, ...])
    _advice = part_of("topics", "advice", tuple[tables.Advice, ...])

    def topic(self, kind: str) -> tables.TopicKind:
        """KeyError where there is none."""
        return {row.id: row for row in self.topics}[kind]

    def pitfalls(self, kind: str, conditions: frozenset[str]) -> tuple[tables.Pitfall, ...]:
        """What goes wrong with a thing of this kind of which these conditions hold."""
        return tuple(row for row in self._pitfalls if kind in row.topics and (row.when is None or row.when in conditions))

    def advice(self, api: str, *, success: bool) -> str | None:
        """What to do about a code of this API that no cause stands for."""
        rows = [row for row in self._advice if row.api == api and row.when in (None, "success" if success else None)]
        return min(rows, key=lambda row: row.when is None).text if rows else None

    def sources(self, table: str, source: tables.Source | None, rows: str = "") -> tuple[str, ...]:
        """The texts behind the `source` of a row of this table ("chips").

        Rows of a compact list have none of their own: the file's `<rows>_source` holds for all of them.
        """
        head = self._head(table)
        if source is None:
            source = str(head.meta.get(f"{rows}_source") or head.meta["source"])
        keys = (source,) if isinstance(source, str) else source
        return tuple(head.sources.get(key, key) for key in keys)

    def sources_of(self, table: str, rows: Iterable[tables.Sourced]) -> list[str]:
        """The texts behind several rows."""
        return [text for row in rows for text in self.sources(table, row.source)]

    def read_on(self, table: str) -> str:
        """The day on which a table's facts were read ("2026-11-21"): what it calls newest was newest then."""
        return str(self._head(table).meta.get("read", ""))

    def _head(self, table: str) -> tables.Table:
        return self.once(f"head of {table}", lambda: head_of(self._texts[f"tables/{table}.toml"]))

    # ------------------------------------------------------------ environment variables
    env_vars = part_of("env_vars", "var", tuple[tables.EnvVar, ...])
    visible_devices_rules = part_of("env_vars", "cuda_visible_devices_rule", tuple[tables.VisibleDevicesRule, ...])

    # ------------------------------------------------------------ indexes and decoding
    def _table(self, name: str, kind: type[T]) -> T:
        file = f"tables/{name}.toml"
        if file not in self._texts:
            raise KnowledgeError(f"{file}: no such knowledge file")
        return self.once(file, lambda: decode(file, self._texts[file], kind))

    def _folder(self, folder: str, kind: type[T]) -> Mapping[str, T]:
        files = {file[len(folder) + 1 : -len(".toml")]: file for file in self._texts if file.startswith(f"{folder}/")}
        return Folder({name: (file, self._texts[file]) for name, file in files.items()}, kind)


def _chip(architecture: str, capability: str | None) -> tables.Chip:
    return tables.Chip(architecture=architecture, compute_capability=tables.version_of(ComputeCapability, capability))
