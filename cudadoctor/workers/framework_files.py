"""Part of the worker python_env: what the files of GPU frameworks say of themselves. Nothing is imported or loaded.

For each framework that is installed: the distribution, whether it is a build for CUDA and for which, the architectures where a file
lists them, the cuDNN that it was built for, and the CUDA libraries that it loads with the place where each was found.
"""

from __future__ import annotations

import os
import re
import struct

from cudadoctor_lines import TYPE_CHECKING, beginning, listing, sibling

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    Said = dict[str, Any]

LIBRARIES_AT_MOST = 40
OURS = re.compile(r"^lib(?:cu(?!da\.)|nvrtc|nvJitLink|nvToolsExt|nccl)")  # CUDA's libraries; the driver's own are not in wheels
PIN = re.compile(r"^(nvidia-cudnn(?:-cu\d+)?)\b[^;]*?[=>~]=\s*(\d[\w.]*)")
ARCHITECTURES = re.compile(rb"\0(sm_\d+[a-z]?(?: (?:sm|compute)_\d+[a-z]?)*)(?=\0)")
CUPY = r"cupy(-cuda\d+x?|-rocm-[\d-]+)?"
NUMBER = re.compile(r"\d+(?:\.\d+)*")


# ---------------------------------------------------------------- files
def assigned(text: str, name: str) -> str | None:
    """What a Python file assigns to a name: the text of the literal, without quotation marks."""
    found = re.search(r"(?m)^%s(?:\s*:[^=\n]+)?\s*=\s*(.+?)\s*$" % re.escape(name), text)
    return found.group(1).strip("'\"") if found else None


def architectures_in(path: str) -> list[str]:
    """What torch.cuda.get_arch_list() answers: the longest text in the library that is a list of architectures."""
    import mmap

    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            lists = sorted(set(ARCHITECTURES.findall(content)), key=len)
            # A single name may be any text; two of them, and no list, tell nothing.
            return lists[-1].decode().split() if lists and (b" " in lists[-1] or len(lists) == 1) else []
    except (OSError, ValueError):
        return []


def needs(*paths: str) -> tuple[list[str], list[str]]:
    """What shared objects ask the loader for (DT_NEEDED), and the folders that they name themselves (DT_RPATH, DT_RUNPATH)."""
    names: list[str] = []
    folders: list[str] = []
    for path in paths:
        here = os.path.dirname(os.path.abspath(path))  # the loader follows no links for $ORIGIN
        try:
            with open(path, "rb") as file:
                for tag, text in dynamic_strings(file):
                    if tag == 1:
                        names.append(text)
                    else:
                        folders += [entry.replace("$ORIGIN", here).replace("${ORIGIN}", here) for entry in text.split(":")]
        except (OSError, ValueError, struct.error):
            continue
    return names, folders


def dynamic_strings(file: Any) -> Iterator[tuple[int, str]]:
    """Tag and text of the entries of an ELF file's dynamic section that name libraries and folders. Little else of it is read."""
    head = file.read(64)
    if head[:6] != b"\x7fELF\x02\x01":  # 64 bits, little endian: the only kind that CUDA is built for
        return
    offset, (size, count) = struct.unpack_from("<Q", head, 32)[0], struct.unpack_from("<HH", head, 54)
    file.seek(offset)
    segments = [struct.unpack_from("<IIQQQQQQ", file.read(size)) for _ in range(min(count, 64))]
    dynamic = next((segment for segment in segments if segment[0] == 2), None)
    if dynamic is None:
        return
    file.seek(dynamic[2])
    data = file.read(min(dynamic[5], 1 << 16))
    entries = [struct.unpack_from("<QQ", data, at) for at in range(0, len(data) - 15, 16)]
    address = dict(entries).get(5)  # DT_STRTAB
    loaded = next((part for part in segments if part[0] == 1 and address is not None and part[3] <= address < part[3] + part[5]), None)
    if loaded is None or address is None:
        return
    for tag, value in entries:
        if tag in (1, 15, 29):  # the table of names has many MB, so each is read by itself
            file.seek(loaded[2] + address - loaded[3] + value)
            yield tag, file.read(4096).partition(b"\0")[0].decode("utf-8", "replace")


# ---------------------------------------------------------------- where libraries are
class Loader:
    """Where a framework's libraries may come from: wheels, the environment, the loader's own places, a toolkit."""

    def __init__(self, prefix: str, folders: list[str], root: str = "") -> None:
        self.root, self.prefix = root, prefix
        bases = [os.path.join(site, "nvidia") for site in folders]
        self.wheels = [os.path.join(base, entry, "lib") for base in bases for entry in listing(base)]
        named = [os.environ.get(name) for name in ("CUDA_PATH", "CUDA_HOME")]
        homes = [home for home in named if home] + [root + "/usr/local/cuda"]
        self.toolkits = [os.path.join(home, name) for home in homes for name in ("lib64", "lib", "targets/x86_64-linux/lib")]

    def find(self, soname: str, own: list[str]) -> str | None:
        """The file of that name; None where it is nowhere that any framework's loader looks."""

        def within(folders: list[str]) -> Iterator[str]:
            yield from (path for path in (os.path.join(folder, soname) for folder in folders) if os.path.isfile(path))

        by_loader = sibling("toolkit_search_linux").by_loader(soname, self.root)
        ways = (within([*own, *self.wheels, os.path.join(self.prefix, "lib")]), (path for _, path in by_loader), within(self.toolkits))
        return next((path for way in ways for path in way), None)

    def found(self, sonames: list[str], *own: str) -> dict[str, str | None]:
        """Where each of CUDA's libraries is. Empty where nobody looked: Windows finds and names them otherwise."""
        if os.name == "nt":
            return {}
        wanted = [name for name in dict.fromkeys(sonames) if OURS.match(name)]
        return {name: self.find(name, list(own)) for name in wanted[:LIBRARIES_AT_MOST]}


# ---------------------------------------------------------------- the frameworks
def first(installed: dict[str, Any], patterns: tuple[str, ...]) -> Any:
    """The distribution that has one of these names, the first of them that is there."""
    names = (name for pattern in patterns for name in sorted(installed) if re.fullmatch(pattern, name))
    return next((installed[name] for name in names), None)


def torch_version(entry: Any) -> tuple[str | None, str | None]:
    """The CUDA and the ROCm for which PyTorch was built, the text `None` where it was built for none."""
    text = beginning(os.path.join(entry.folder, "torch", "version.py"))
    return assigned(text, "cuda"), assigned(text, "hip")


def of_torch(entry: Any, installed: dict[str, Any], loader: Loader) -> Said:
    cuda, hip = torch_version(entry)
    kind = "cuda" if cuda not in (None, "None") else "rocm" if hip not in (None, "None") else "cpu" if cuda is not None else None
    own = os.path.join(entry.folder, "torch", "lib")
    if kind != "cuda":
        return said(entry, "torch", kind, None, {})
    names, folders = needs(os.path.join(own, "libtorch_cuda.so"))
    libraries = loader.found(names, own, *folders)
    listed = architectures_in(os.path.join(own, "libtorch_python.so"))
    return said(entry, "torch", kind, cuda, libraries, cudnn=pinned(entry), architectures=listed)


def of_tensorflow(entry: Any, installed: dict[str, Any], loader: Loader) -> Said:
    text = beginning(os.path.join(entry.folder, "tensorflow", "python", "platform", "build_info.py"))
    stated = dict(re.findall(r"'(\w{1,80})', ('[^']{0,400}'|True|False|\[[^\]]{0,400}\])", text))
    built = {"True": "cuda", "False": "cpu"}.get(stated.get("is_cuda_build", ""))
    kind = "rocm" if stated.get("is_rocm_build") == "True" else built
    cuda, cudnn = stated.get("cuda_version", "").strip("'"), stated.get("cudnn_version", "").strip("'")
    sonames = []
    if kind == "cuda" and cuda and cudnn:  # it opens them by name, so its file asks for none
        sonames = ["libcublas.so." + cuda.partition(".")[0], "libcudnn.so." + cudnn.partition(".")[0]]
    architectures = re.findall(r"(?:sm|compute)_\w+", stated.get("cuda_compute_capabilities", ""))
    own = os.path.join(entry.folder, "tensorflow")
    libraries = loader.found(sonames, own)
    return said(entry, "tensorflow", kind, cuda or None, libraries, cudnn=pinned(entry) or cudnn or None, architectures=architectures)


def of_jax(entry: Any, installed: dict[str, Any], loader: Loader) -> Said:
    """JAX's GPU code is in a plugin for one CUDA major version; before 0.4.30 it was a jaxlib with a local version."""
    plugin = next((installed[name] for name in sorted(installed) if re.match(r"jax-cuda\d+-plugin$", name)), None)
    if plugin is None:
        return said(entry, "jax", None, None, {})
    major = NUMBER.findall(plugin.name)[0]
    cudnn = pinned(plugin)
    sonames = ["libcublas.so." + major] + (["libcudnn.so." + cudnn.partition(".")[0]] if cudnn else [])
    return said(entry, "jax", "cuda", major, loader.found(sonames, plugin.folder), cudnn=cudnn, package=plugin.name)


def of_cupy(entry: Any, installed: dict[str, Any], loader: Loader) -> Said:
    builds = [name for name in sorted(installed) if re.fullmatch(CUPY, name)]
    text = beginning(os.path.join(entry.folder, "cupy", ".data", "_wheel.json"))
    stated = re.search(r'"cuda": "(\d+)(?:\.(\d+))?', text)
    # Of two distributions one overwrote the other's files: these say which one it was.
    by_files = [name for name in builds if stated and re.match(r"cupy-cuda%s" % stated.group(1), name)]
    entry = installed[(by_files or builds)[0]]
    named = re.search(r"-cuda(\d{2})", entry.name)
    cuda = ".".join(part for part in stated.groups() if part) if stated else named.group(1) if named else None
    kind = "rocm" if "-rocm" in entry.name else "cuda"
    own = os.path.join(entry.folder, "cupy_backends", "cuda", "libs")
    names, folders = needs(*(os.path.join(own, file) for file in listing(own) if file.endswith(".so")))
    sonames = [soname for soname in names if not soname.startswith(("libcutensor", "libcusparseLt", "libnccl", "libcudnn"))]
    if cuda and kind == "cuda":  # opened by name when the first kernel is compiled
        major = cuda.partition(".")[0]
        sonames.append("libnvrtc.so." + {"11": "11.2"}.get(major, major))
    return said(entry, "cupy", kind, cuda, loader.found(sonames, own, *folders))


def of_pycuda(entry: Any, installed: dict[str, Any], loader: Loader) -> Said:
    own = os.path.join(entry.folder, "pycuda")
    drivers = [file for file in listing(entry.folder) + ["pycuda/" + name for name in listing(own)] if "_driver" in file and ".so" in file]
    names, folders = needs(*(os.path.join(entry.folder, file) for file in drivers[:1]))
    return said(entry, "pycuda", "cuda", None, loader.found(names, own, *folders))


def of_onnxruntime(entry: Any, installed: dict[str, Any], loader: Loader) -> Said:
    own = os.path.join(entry.folder, "onnxruntime", "capi")
    text = beginning(os.path.join(own, "build_and_package_info.py"))
    names, folders = needs(os.path.join(own, "libonnxruntime_providers_cuda.so"))
    named = assigned(text, "package_name")
    entry = installed.get(named or "", entry)  # of two the one that was installed last owns the files
    cuda = assigned(text, "cuda_version")
    cuda = cuda if cuda and NUMBER.match(cuda) else next((NUMBER.findall(name)[0] for name in names if "cudart.so" in name), None)
    kind = "cuda" if names else "cpu" if named == "onnxruntime" and not cuda else None
    cudnn = pinned(entry) if names else None
    sonames = names + (["libcudnn.so." + cudnn.partition(".")[0]] if cudnn else [])
    return said(entry, "onnxruntime", kind, cuda if kind == "cuda" else None, loader.found(sonames, own, *folders), cudnn=cudnn)


def of_bitsandbytes(entry: Any, installed: dict[str, Any], loader: Loader) -> Said:
    """It brings a library for each CUDA version and takes the one that PyTorch was built with."""
    files = listing(os.path.join(entry.folder, "bitsandbytes"))
    numbers = [found.group(1) for found in (re.match(r"libbitsandbytes_cuda(\d{3})\.", file) for file in files) if found]
    builds = [number[:2] + "." + number[2] for number in numbers]
    return said(entry, "bitsandbytes", "cuda" if builds else "cpu" if files else None, None, {}, builds=builds)


SOURCES: tuple[tuple[Callable[[Any, dict[str, Any], Loader], Said], tuple[str, ...]], ...] = (
    (of_torch, ("torch",)),
    (of_tensorflow, ("tensorflow", "tensorflow-gpu", "tensorflow-cpu", "tensorflow-intel")),
    (of_jax, ("jax", "jaxlib")),
    (of_cupy, (CUPY,)),
    (of_pycuda, ("pycuda",)),
    (of_onnxruntime, ("onnxruntime-gpu", "onnxruntime")),
    (of_bitsandbytes, ("bitsandbytes",)),
)


def pinned(entry: Any) -> str | None:
    """The oldest cuDNN that a distribution's metadata accepts."""
    texts = [text for text in entry.requires() if text.startswith("nvidia-cudnn")]
    # `nvidia-cudnn-cu12<10.0,>=9.8`: of two bounds the lower one
    found = (PIN.match(re.sub(r"<[^,;]{0,80},", "", text).replace("(", "")) for text in texts)
    return next((match.group(2) for match in found if match), None)


def said(entry: Any, name: str, kind: str | None, cuda: str | None, libraries: dict[str, str | None], **more: Any) -> Said:
    fields: Said = {"name": name, "package": entry.name, "version": entry.version, "kind": kind, "cuda": cuda, "libraries": libraries}
    fields.update({"cudnn": None, "architectures": [], "builds": []})
    fields.update(more)
    return fields
