"""Packages of other distributions, empty, with the names and relations of the real ones.

Where the names were read, in October and November 2026, beside the recipes that name them:

rpm-fusion    rpmfusion/xorg-x11-drv-nvidia: xorg-x11-drv-nvidia.spec, of 595.71.05: each branch conflicts with all others, -cuda-libs is
              recommended alone; the branches 580xx to 340xx from dnf commands in public notes
nvidia-rhel   NVIDIA/yum-packaging-nvidia-driver: nvidia-driver.spec; the streams and nvidia-open from NVIDIA's driver installation guide 620;
              Fabric Manager's two names from its user guide; nvlsm from the guide for HGX B200
nvidia-suse   openSUSE/nvidia-driver-G06: nvidia-video-G06.spec, preamble of the kernel modules; NVIDIA/zypper-packaging-nvidia-driver:
              nvidia-gfxG05.spec, x11-video-nvidiaG05.spec (before it G04's); the -meta packages and group G07 from `zypper search` in public notes
arch          package lists of Arch installations in public notes: nvidia-open (one kernel's modules), nvidia-open-dkms, nvidia-utils,
              opencl-nvidia, lib32-nvidia-utils, libnvidia-container under nvidia-container-toolkit; the AUR's are in no repository
amazon        kernel6.12, its -devel and -modules-extra: AWS's own installation scripts, AL2023's release notes; docker: Amazon's repository
"""

from __future__ import annotations

import io
import subprocess
import tarfile
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path

import msgspec


class Stub(msgspec.Struct, frozen=True, kw_only=True):
    """A package; each relation is written as in a spec file, several with commas between."""

    name: str
    version: str = "1.0"
    release: str = "1"
    epoch: int = 0
    arch: str = "noarch"
    requires: str = ""
    recommends: str = ""
    provides: str = ""
    conflicts: str = ""
    obsoletes: str = ""
    files: dict[str, str] = {}


class Stream(msgspec.Struct, frozen=True, kw_only=True):
    """A module stream of NVIDIA's repositories: its packages, and those of its default profile."""

    name: str
    packages: tuple[Stub, ...]
    profile: tuple[str, ...]


def plain(*names: str, version: str = "1.0", epoch: int = 0) -> tuple[Stub, ...]:
    return tuple(Stub(name=name, version=version, epoch=epoch) for name in names)


# ---------------------------------------------------------------- Fedora
FEDORA_KERNEL = "6.14.5-300.fc42.x86_64"
RPM_FUSION_BRANCHES = {"": "595.71.05", "-580xx": "580.95.05", "-470xx": "470.256.02", "-390xx": "390.157", "-340xx": "340.108"}


def _rpm_fusion() -> tuple[Stub, ...]:
    found: list[Stub] = [*plain("libva-nvidia-driver")]
    for end, version in RPM_FUSION_BRANCHES.items():
        name, others = f"xorg-x11-drv-nvidia{end}", [f"xorg-x11-drv-nvidia{other}" for other in RPM_FUSION_BRANCHES if other != end]
        new = partial(Stub, epoch=3, version=version)
        same = f"= 3:{version}"
        found += [
            new(name=f"akmod-nvidia{end}", requires="akmods", provides=f"nvidia{end}-kmod {same}"),
            new(
                name=name,
                requires=f"nvidia{end}-kmod {same}, {name}-libs {same}, nvidia-settings{end} {same}, nvidia-modprobe{end} {same}",
                recommends=f"{name}-cuda-libs {same}", conflicts=", ".join(others),
            ),
            new(name=f"{name}-libs"),
            new(name=f"{name}-cuda-libs"),
            new(
                name=f"{name}-cuda", requires=f"nvidia{end}-kmod {same}, {name}-cuda-libs {same}, nvidia-persistenced{end} {same}",
                conflicts=", ".join(f"{other}-cuda" for other in others),
            ),
            *(new(name=f"nvidia-{part}{end}") for part in ("settings", "modprobe", "persistenced")),
        ]  # fmt: skip
    return tuple(found)


RPM_FUSION = _rpm_fusion()
FOR_PYTHON = ("gcc", "make", "libffi-devel", "xz-devel", "bzip2-devel", "openssl-devel", "zlib-devel", "sqlite-devel")
FEDORA = (
    *plain("akmods", "kmodtool", "mokutil", "openssl", "moby-engine", "gcc-c++", "python3-devel", "dkms", "infiniband-diags"),
    *plain(*FOR_PYTHON),
    Stub(name="kernel-devel", version="6.14.5", release="300.fc42", arch="x86_64"),
    Stub(name="kernel-devel", version="6.15.3", release="200.fc42", arch="x86_64"),
    Stub(name="kernel", version="6.15.3", release="200.fc42", arch="x86_64"),
)
# NVIDIA's own repository for Fedora has these; the recipes say which repository that is.
OF_NVIDIA = (
    *plain("nvlsm", "nvidia-container-toolkit", "cuda-compat-13-0", "cuda-toolkit-13-0"),
    Stub(name="nvidia-fabricmanager", version="580.95.05"),
    Stub(name="nvidia-fabricmanager", version="595.71.05"),
    Stub(name="nvidia-fabric-manager", version="570.195.03"),
)


# ---------------------------------------------------------------- RHEL and its like
def _driver(version: str, *kmods: str) -> tuple[Stub, ...]:
    """NVIDIA's packages for RHEL of one version. `kmods`: of the kernel module, each excludes the other."""
    new = partial(Stub, epoch=3, version=version)
    same = f"= 3:{version}"
    return (
        new(name="nvidia-driver", requires=f"nvidia-driver-libs {same}, nvidia-kmod-common {same}", conflicts="xorg-x11-drv-nvidia"),
        new(name="nvidia-driver-libs", requires=f"libnvidia-ml {same}"),
        new(name="nvidia-driver-cuda", requires=f"nvidia-driver-cuda-libs {same}, nvidia-kmod-common {same}, nvidia-persistenced {same}"),
        new(name="nvidia-driver-cuda-libs", requires=f"libnvidia-ml {same}, libnvidia-cfg {same}"),
        new(name="nvidia-kmod-common", requires=f"nvidia-kmod {same}"),
        *(new(name=name, requires="dkms", provides=f"nvidia-kmod {same}", conflicts=", ".join(set(kmods) - {name})) for name in kmods),
        *(new(name=name) for name in ("libnvidia-ml", "libnvidia-cfg", "libnvidia-fbc", "nvidia-modprobe", "nvidia-persistenced", "nvidia-settings")),
    )  # fmt: skip


def _metas(version: str, *, open_: bool, closed: bool) -> tuple[Stub, ...]:
    same = f"= 3:{version}"
    both = f"nvidia-driver {same}, nvidia-driver-cuda {same}"
    opened = Stub(name="nvidia-open", epoch=3, version=version, requires=f"{both}, kmod-nvidia-open-dkms {same}", conflicts="cuda-drivers")
    proprietary = Stub(name="cuda-drivers", epoch=3, version=version, requires=f"{both}, kmod-nvidia-latest-dkms {same}")
    return (*((opened,) if open_ else ()), *((proprietary,) if closed else ()))


LATEST, OPEN = "kmod-nvidia-latest-dkms", "kmod-nvidia-open-dkms"
_PROFILE = ("nvidia-driver", "nvidia-driver-cuda", "nvidia-settings", "nvidia-modprobe")
STREAMS = (
    Stream(name="latest-dkms", packages=(*_driver("595.71.05", LATEST), *_metas("595.71.05", open_=False, closed=True)), profile=_PROFILE),
    Stream(name="open-dkms", packages=(*_driver("595.71.05", OPEN), *_metas("595.71.05", open_=True, closed=False)), profile=_PROFILE),
    Stream(name="580-dkms", packages=(*_driver("580.95.05", LATEST), *_metas("580.95.05", open_=False, closed=True)), profile=_PROFILE),
    Stream(name="580-open", packages=(*_driver("580.95.05", OPEN), *_metas("580.95.05", open_=True, closed=False)), profile=_PROFILE),
    Stream(name="470-dkms", packages=_driver("470.256.02", LATEST), profile=_PROFILE),
)
WITHOUT_STREAMS = tuple(
    stub for version in ("580.95.05", "595.71.05") for stub in (*_driver(version, LATEST, OPEN), *_metas(version, open_=True, closed=True))
)
RHEL_KERNELS = {
    "rhel-8.10": "4.18.0-553.el8_10.x86_64", "rhel-9.4": "5.14.0-427.13.1.el9_4.x86_64", "rocky-10": "6.12.0-55.el10_0.x86_64",
    "ol-9": "5.15.0-200.131.27.el9uek.x86_64", "amzn-2023": "6.12.22-27.96.amzn2023.x86_64", "rhel": "5.14.0-427.13.1.el9_4.x86_64",
    "almalinux-9": "5.14.0-427.13.1.el9_4.x86_64+rt",
}  # fmt: skip


_KERNELS = {"ol-9": "kernel-uek", "amzn-2023": "kernel6.12", "almalinux-9": "kernel-rt"}


def _rhel_kernels() -> Iterable[Stub]:
    for word, kernel in RHEL_KERNELS.items():
        version, _, rest = kernel.partition("-")
        release = rest.partition("+")[0].removesuffix(".x86_64")
        own = _KERNELS.get(word, "kernel")
        yield Stub(name=own, version=version, release=release, arch="x86_64")
        if word != "rhel":
            yield Stub(name=f"{own}-devel", version=version, release=release, arch="x86_64", provides=f"kernel-devel = {version}-{release}")
        if word == "amzn-2023":
            yield Stub(name="kernel6.12-modules-extra", version=version, release=release, arch="x86_64")


RHEL = (
    *plain("gcc-c++", "python3-devel", "infiniband-diags", "python3-dnf-plugin-versionlock", "dnf-plugins-core", *FOR_PYTHON),
    *_rhel_kernels(),
)
EPEL = plain("dkms")
DOCKER = plain("docker-ce", "docker-ce-cli", "containerd.io")
AMAZON = plain("docker", "dkms")


# ---------------------------------------------------------------- SUSE
def _group(group: str, version: str, *, closed: bool) -> tuple[Stub, ...]:
    new = partial(Stub, version=version)
    same = f"= {version}"
    kernel = "kernel-default-devel, make, gcc"
    kmps = [("nvidia-open-driver-{}-signed-kmp", "nvidia-driver-{}-kmp"), ("nvidia-driver-{}-kmp", "nvidia-open-driver-{}-signed-kmp")]
    others = "x11-video-nvidiaG04, x11-video-nvidiaG05"
    return (
        *(
            stub
            for kmp, other in ((kmp.format(group), other.format(group)) for kmp, other in kmps[: 2 if closed else 1])
            for stub in (
                new(name=f"{kmp}-default", requires=kernel, provides=f"{kmp} {same}", conflicts=f"nvidia-gfxG05-kmp, {other}"),
                new(name=f"{kmp}-meta", requires=f"{kmp} {same}, nvidia-userspace-meta-{group} {same}"),
            )
        ),
        new(name=f"nvidia-userspace-meta-{group}", requires=f"nvidia-compute-utils-{group} {same}", recommends=f"nvidia-video-{group} {same}"),
        new(name=f"nvidia-video-{group}", requires=f"nvidia-compute-{group} {same}", conflicts=others),
        new(name=f"nvidia-gl-{group}"),
        new(name=f"nvidia-common-{group}", requires="nvidia-modprobe"),
        new(name=f"nvidia-compute-{group}", requires=f"nvidia-common-{group} {same}, nvidia-persistenced", conflicts="nvidia-computeG05"),
        new(name=f"nvidia-compute-utils-{group}", requires=f"nvidia-compute-{group} {same}"),
    )  # fmt: skip


def _old_group(group: str, version: str) -> tuple[Stub, ...]:
    new = partial(Stub, version=version)
    same = f"= {version}"
    return (
        new(name=f"nvidia-gfx{group}-kmp-default", requires="kernel-default-devel", provides=f"nvidia-gfx{group}-kmp {same}"),
        new(name=f"x11-video-nvidia{group}", requires=f"nvidia-compute{group} {same}, nvidia-gfx{group}-kmp {same}"),
        new(name=f"nvidia-compute{group}", requires=f"nvidia-gfx{group}-kmp {same}"),
        new(name=f"nvidia-gl{group}", requires=f"nvidia-gfx{group}-kmp {same}"),
    )


NVIDIA_SUSE = (
    *_group("G07", "595.71.05", closed=False), *_group("G06", "580.95.05", closed=True), *_old_group("G05", "470.256.02"),
    *_old_group("G04", "390.157"), *plain("nvidia-modprobe", "nvidia-persistenced", "nvidia-settings"),
)  # fmt: skip
SUSE = plain(
    "kernel-default-devel", "make", "gcc", "gcc-c++", "python3-devel", "docker", "infiniband-diags",
    "libffi-devel", "xz-devel", "libbz2-devel", "libopenssl-devel", "zlib-devel", "sqlite3-devel",
)  # fmt: skip


# ---------------------------------------------------------------- Arch
NEW = "595.71.05"
ARCH = (
    *plain("dkms", "docker", "base-devel", "linux", "linux-headers", "linux-lts-headers", "linux-cachyos-headers", "linux612-headers"),
    Stub(name="nvidia-utils", version=NEW), Stub(name="nvidia-settings", version=NEW), Stub(name="nvidia-prime"),
    Stub(name="nvidia-open", version=NEW, requires=f"linux, nvidia-utils={NEW}", provides="NVIDIA-MODULE", conflicts="NVIDIA-MODULE"),
    Stub(name="nvidia-open-dkms", version=NEW, requires=f"dkms, nvidia-utils={NEW}", provides="NVIDIA-MODULE", conflicts="NVIDIA-MODULE"),
    Stub(name="opencl-nvidia", version=NEW), Stub(name="lib32-nvidia-utils", version=NEW, requires=f"nvidia-utils={NEW}"),
    Stub(name="libnvidia-container"), Stub(name="nvidia-container-toolkit", requires="libnvidia-container"),
    Stub(name="linux-firmware-nvidia"), *plain("libffi", "xz", "bzip2", "openssl", "zlib", "sqlite"),
)  # fmt: skip
# https://github.com/CachyOS/CachyOS-PKGBUILDS
CACHYOS = (
    Stub(name="nvidia-580xx-utils", version="580.119.02"),
    Stub(name="nvidia-580xx-dkms", version="580.119.02", requires="dkms, nvidia-580xx-utils=580.119.02"),
)


# ---------------------------------------------------------------- making them
_TAGS = {"requires": "Requires", "recommends": "Recommends", "provides": "Provides", "conflicts": "Conflicts", "obsoletes": "Obsoletes"}


def spec(stubs: Iterable[Stub]) -> str:
    """One spec file that makes all of them."""
    lines = ["Name: stubs", "Version: 1", "Release: 1", "Summary: stubs", "License: none", "%description", "None."]
    install, files = ["%install"], []
    for stub in stubs:
        lines += [f"%package -n {stub.name}", f"Version: {stub.version}", f"Release: {stub.release}", "Summary: a stub"]
        lines += [f"Epoch: {stub.epoch}"] if stub.epoch else []
        lines += ["BuildArch: noarch"] if stub.arch == "noarch" else []
        lines += [f"{tag}: {value}" for name, tag in _TAGS.items() if (value := getattr(stub, name))]
        lines += [f"%description -n {stub.name}", "None."]
        files.append(f"%files -n {stub.name}")
        for path, text in stub.files.items():
            install += [f"mkdir -p %{{buildroot}}{Path(path).parent}", f"cat > %{{buildroot}}{path} <<'END'", text, "END"]
            files.append(path)
    return "\n".join((*lines, *install, *files)) + "\n"


def batches(stubs: Iterable[Stub]) -> list[list[Stub]]:
    """A spec file names each package once: versions of one package go into several."""
    found: list[dict[str, Stub]] = []
    for stub in stubs:
        place = next((batch for batch in found if stub.name not in batch), None)
        if place is None:
            found.append(place := {})
        place[stub.name] = stub
    return [list(batch.values()) for batch in found]


def modules(streams: Sequence[Stream], platform: str) -> str:
    """The document that makes packages of a repository a module's."""
    documents = []
    for number, stream in enumerate(streams):
        names = "".join(f"\n        - {name}" for name in stream.profile)
        artifacts = "".join(
            f"\n      - {stub.name}-{stub.epoch}:{stub.version}-{stub.release}.noarch" for stub in stream.packages
        )  # fmt: skip
        documents.append(
            f"---\ndocument: modulemd\nversion: 2\ndata:\n  name: nvidia-driver\n  stream: {stream.name}\n  version: 2026110{number}\n"
            f"  context: ab{number}\n  arch: noarch\n  summary: Nvidia driver\n  description: >-\n    Nvidia driver\n  license:\n    module:\n"
            f"    - MIT\n  dependencies:\n  - requires:\n      platform: [{platform}]\n  profiles:\n    default:\n      rpms:{names}\n"
            f"  artifacts:\n    rpms:{artifacts}\n...\n"
        )
    usual = "".join(f"    {stream.name}: [default]\n" for stream in streams)
    documents.append(
        f"---\ndocument: modulemd-defaults\nversion: 1\ndata:\n  module: nvidia-driver\n  stream: latest-dkms\n  profiles:\n{usual}...\n"
    )
    return "".join(documents)


def for_pacman(stub: Stub, folder: Path) -> None:
    """A package as makepkg leaves it: a tar file with .PKGINFO in it."""
    split = lambda words: [word.strip() for word in words.split(",") if word.strip()]  # noqa: E731
    lines = [f"pkgname = {stub.name}", f"pkgver = {stub.version}-{stub.release}", "pkgdesc = a stub", "arch = any", "size = 0"]
    lines += [f"depend = {word}" for word in split(stub.requires)]
    lines += [f"provides = {word}" for word in split(stub.provides)] + [f"conflict = {word}" for word in split(stub.conflicts)]
    text = ("\n".join(lines) + "\n").encode()
    with tarfile.open(folder / f"{stub.name}-{stub.version}-{stub.release}-any.pkg.tar.gz", "w:gz") as archive:
        entry = tarfile.TarInfo(".PKGINFO")
        entry.size = len(text)
        archive.addfile(entry, io.BytesIO(text))


def must(*argv: str) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{argv}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
