"""Packages that hold the driver's module ready-made for one kernel, or for one kind of kernel: whether that is the running one.

https://wiki.manjaro.org/index.php/Configure_Graphics_Cards (linuxNN-nvidia), https://wiki.archlinux.org/title/NVIDIA (nvidia-open is
for the kernel `linux`, nvidia-lts-open for `linux-lts`), https://packages.cachyos.org (linux-cachyos-lts-nvidia-open),
https://en.opensuse.org/Kernel_module_packages (a KMP is of one flavour, and linked to each kernel of it)
"""

from __future__ import annotations

from cudadoctor.model.pattern import lazy

BUILDER = lazy(r"dkms|nvidia-kernel-source")
# kmod-nvidia-6.15.10-200.fc42.x86_64 (akmods), kmod-nvidia-570.124.06-5.14.0-503.26.1 (NVIDIA), linux-modules-nvidia-580-6.8.0-45-generic
_OF_ONE = lazy(
    r"(?:kmod-nvidia(?:-open)?(?:-\d{3}\.[\d.]{1,9})?|linux-(?:modules|objects)-nvidia-\d{3}(?:-server)?(?:-open)?)"
    r"-(?P<kernel>\d\.\d{1,2}\.\d{1,3}-\S{1,60})$"
)
_SUSE = lazy(r"(?P<stem>nvidia-\S{1,40}-kmp-)(?P<kind>[a-z0-9]{2,12})$")
_SUSE_KERNEL = lazy(r"\d\S{3,40}-(?P<kind>default|azure|rt|64kb|longterm|preempt)$")
_MANJARO = lazy(r"(?P<kind>linux\d{2,4})(?P<rest>-nvidia(?:-[\w-]{1,12})?)$")
_MANJARO_KERNEL = lazy(r"(\d{1,2})\.(\d{1,2})\.\d{1,3}-\d{1,3}-MANJARO$")
_CACHYOS = lazy(r"linux-cachyos(?:-[a-z0-9]{2,8}){0,2}?(?P<rest>-nvidia(?:-open)?)$")
_CACHYOS_KERNEL = lazy(r"\d\S{2,40}?-cachyos(?P<kind>(?:-[a-z0-9]{2,8}){0,2})$")
_ARCH = lazy(r"nvidia(?:-open)?(?P<kind>-lts)?(?:-open)?$")
_ARCH_KERNEL = lazy(r"\d\S{2,40}-(?P<kind>arch\d{1,2}-\d{1,2}|lts|zen|hardened)$")


def fits(name: str, release: str) -> bool | None:
    """Whether the module of this package is for the running kernel; None where the names do not say."""
    one, arch, arch_kernel = _OF_ONE.match(name), _ARCH.match(name), _ARCH_KERNEL.match(release)
    if one is not None:
        return f"{release}.".startswith(f"{one['kernel']}.")
    if arch is not None and arch_kernel is not None:
        return arch_kernel["kind"].startswith("lts" if arch["kind"] else "arch")
    other = for_kernel(name, release)
    return None if other is None else other == name


def for_kernel(name: str, release: str) -> str | None:
    """The package of the same driver for the running kernel, where one of the same form holds it."""
    suse, suse_kernel = _SUSE.match(name), _SUSE_KERNEL.match(release)
    if suse is not None and suse_kernel is not None:
        return f"{suse['stem']}{suse_kernel['kind']}"
    manjaro, manjaro_kernel = _MANJARO.match(name), _MANJARO_KERNEL.match(release)
    if manjaro is not None and manjaro_kernel is not None:
        return f"linux{manjaro_kernel[1]}{manjaro_kernel[2]}{manjaro['rest']}"
    cachyos, cachyos_kernel = _CACHYOS.match(name), _CACHYOS_KERNEL.match(release)
    if cachyos is not None and cachyos_kernel is not None:
        return f"linux-cachyos{cachyos_kernel['kind']}{cachyos['rest']}"
    return None
