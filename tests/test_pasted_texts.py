"""What the text parsers take from a user's paste: environment, device nodes, libraries, kernel, compiler."""

from __future__ import annotations

import pytest

from cudadoctor.model.evidence import Item
from cudadoctor.model.facts import Fact
from cudadoctor.model.values import DeviceNodes, Environment
from cudadoctor.parsers import booted, dev, driver_libraries, environment, nvcc, surroundings
from cudadoctor.parsers.base import Parser, Text


def facts(parser: Parser, body: str, item: str | None = None) -> list[Fact[object]]:
    evidence = None if item is None else Item(id=item, kind="file", what=item, status="ok", stdout=body)
    text = Text(body, source="text", origin="live" if item else "text", whole=item is not None, item=evidence)
    return [entry for entry in parser.parse(text) if isinstance(entry, Fact)]


def variables(body: str) -> dict[str, str]:
    found = facts(environment.PARSERS[0], body)
    assert all(not fact.whole and fact.quotes for fact in found)
    value = found[0].value if found else None
    return value.variables if isinstance(value, Environment) else {}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("export CUDA_HOME=/usr/local/cuda\n", {"CUDA_HOME": "/usr/local/cuda"}),
        ("user@box:~$ export CUDA_HOME=$CUDA_HOME:/usr/local/cuda\n", {"CUDA_HOME": "$CUDA_HOME:/usr/local/cuda"}),
        ("$ CUDA_VISIBLE_DEVICES='5' python train.py\n", {"CUDA_VISIBLE_DEVICES": "5"}),
        ("$ CUDA_VISIBLE_DEVICES= python train.py\n", {"CUDA_VISIBLE_DEVICES": ""}),
        ("$ CUDA_VISIBLE_DEVICES=0 NUMBA_ENABLE_CUDASIM=1 python x.py\n", {"CUDA_VISIBLE_DEVICES": "0", "NUMBA_ENABLE_CUDASIM": "1"}),
        ("CUDA_VISIBLE_DEVICES=-1\n", {"CUDA_VISIBLE_DEVICES": "-1"}),
        ("NVIDIA_REQUIRE_CUDA=cuda>=12.0 brand=tesla,driver>=470\n", {"NVIDIA_REQUIRE_CUDA": "cuda>=12.0 brand=tesla,driver>=470"}),
        ("$ echo $CUDA_HOME\n/usr/local/cuda-11\n$ \n", {"CUDA_HOME": "/usr/local/cuda-11"}),
        ("$ echo ${CUDA_VISIBLE_DEVICES}\n0,1\n", {"CUDA_VISIBLE_DEVICES": "0,1"}),
        ("$ echo $CUDA_HOME\n\n$ nvidia-smi\n", {}),
        ("$ echo $CUDA_HOME\nuser@box:~$ nvidia-smi\n", {}),
        ("user@box:~$ echo $CUDA_HOME\nuser@box:~$\n", {}),
        ("echo $CUDA_HOME # show the variable\n# then the GPUs\n", {}),
        ('os.environ["CUDA_VISIBLE_DEVICES"] = "-1"\n', {"CUDA_VISIBLE_DEVICES": "-1"}),
        ("setenv CUDA_HOME /usr/local/cuda\n", {"CUDA_HOME": "/usr/local/cuda"}),
        ('declare -x CUDA_HOME="/opt/cuda"\n', {"CUDA_HOME": "/opt/cuda"}),
        ("export CUDA_HOME=/a\nexport CUDA_HOME=/b\n", {"CUDA_HOME": "/b"}),
        ("SET NUMBA_ENABLE_CUDASIM = 1\n", {}),
        ("learning_rate=0.1\nn=1\nHOME=/root\n", {}),
        ("Please set CUDA_HOME=/usr/local/cuda first.\n", {}),
    ],
)
def test_variables_of_a_paste(body: str, expected: dict[str, str]) -> None:
    assert variables(body) == expected


def nodes(body: str) -> Fact[object]:
    (fact,) = facts(dev.PARSERS[0], body)
    assert not fact.whole
    return fact


def test_a_listing_that_finds_nothing_is_known_absence() -> None:
    fact = nodes("$ ls -l /dev/nvidia*\nls: cannot access '/dev/nvidia*': No such file or directory\n$ \n")
    assert fact.value is None
    assert fact.quotes[0].first == 2


def test_one_missing_node_among_others() -> None:
    value = nodes(
        "$ ls -l /dev/nvidia0 /dev/nvidia-uvm\nls: cannot access '/dev/nvidia-uvm': No such file or directory\n"
        "crw-rw-rw- 1 root root 195, 0 Jul 29 23:08 /dev/nvidia0\n"
    ).value
    assert isinstance(value, DeviceNodes)
    assert value.said_absent("/dev/nvidia-uvm")
    assert not value.said_absent("/dev/nvidiactl")
    assert value.find("/dev/nvidia0") is not None


def test_a_node_that_was_made_later_is_there() -> None:
    value = nodes(
        "ls: cannot access '/dev/nvidia-uvm': No such file or directory\n$ sudo nvidia-modprobe -u\n$ ls -l /dev/nvidia-uvm\n"
        "crw-rw-rw- 1 root root 511, 0 Jul 29 23:08 /dev/nvidia-uvm\n"
    ).value
    assert isinstance(value, DeviceNodes)
    assert not value.said_absent("/dev/nvidia-uvm")
    assert value.find("/dev/nvidia-uvm") is not None


def test_denied_is_not_absent() -> None:
    assert facts(dev.PARSERS[0], "ls: cannot access '/dev/nvidia0': Permission denied\n") == []


def test_the_driver_libraries_of_a_listing_by_find_and_by_ls() -> None:
    (fact,) = facts(
        driver_libraries.PARSERS[0],
        "$ find / -name 'libcuda.so*'\n/usr/lib/libcuda.so.1\nerror: libcuda.so: cannot open shared object file\n"
        "lrwxrwxrwx 1 root root 20 Aug  9 18:25 /usr/lib64/libnvidia-ml.so.1 -> libnvidia-ml.so.535.54\n",
    )
    assert not fact.whole
    assert [(file.path, file.target) for file in fact.value.files] == [  # type: ignore[attr-defined]
        ("/usr/lib/libcuda.so.1", None),
        ("/usr/lib64/libnvidia-ml.so.1", "libnvidia-ml.so.535.54"),
    ]


def test_an_empty_grep_of_the_loader_cache_says_nothing() -> None:
    assert facts(driver_libraries.PARSERS[2], "$ ldconfig -p | grep libcuda\n$ \n") == []
    assert facts(driver_libraries.PARSERS[2], "10 libs found in cache `/etc/ld.so.cache'\n") == []


def test_kernel_release_by_its_answer() -> None:
    (fact,) = facts(booted.PARSERS[0], "root@box:~# uname -r\n5.15.0-91-generic\n")
    assert fact.value.release == "5.15.0-91-generic"  # type: ignore[attr-defined]
    assert facts(booted.PARSERS[0], "apt install linux-headers-$(uname -r)\n5.15.0-91-generic\n") == []


def test_a_missing_compiler_and_a_found_one() -> None:
    found = facts(nvcc.PARSERS[0], "$ nvcc -V\nbash: nvcc: command not found\n$ nvcc -V\nCuda compilation tools, release 9.1, V9.1.85\n")
    assert [fact.value is None for fact in found] == [True, False]
    assert found[1].value.version.text == "9.1.85"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("name", "item", "body", "value"),
    [
        ("dockerenv", "dockerenv", "", ("/.dockerenv",)),
        ("containerenv", "containerenv", 'engine="podman-4.9"\n', ("/run/.containerenv",)),
        ("container_variable", "environment", "HOME=/root\ncontainer=podman\n", ("container=podman",)),
        ("dmi", "dmi", "KVM\n", "KVM"),
        ("dmi", "dmi", "VMware Virtual Platform\n", "VMware"),
        ("dmi", "dmi", "Standard PC (Q35 + ICH9, 2009)\n", "QEMU"),
        ("dmi", "dmi", "g5.xlarge\n", "Amazon EC2"),
        ("dmi", "dmi", "g4dn.metal\n", None),
        ("dmi", "dmi", "PowerEdge R740\n", None),
    ],
)
def test_marks_of_the_surroundings(name: str, item: str, body: str, value: object) -> None:
    parser = next(entry for entry in surroundings.PARSERS if entry.name == name)
    (fact,) = facts(parser, body, item)
    assert fact.value == value
    assert fact.quotes


def test_a_namespaced_control_group_says_nothing_about_containers() -> None:
    parser = next(entry for entry in surroundings.PARSERS if entry.name == "cgroup")
    assert facts(parser, "0::/\n", "cgroup") == []


def test_names_in_the_folder_that_windows_lends() -> None:
    parser = driver_libraries.PARSERS[1]
    (fact,) = facts(parser, "libcuda.so\nlibcuda.so.1\nlibd3d12.so\nnvidia-smi\n", "wsl-lib")
    assert [file.path for file in fact.value.files][:2] == ["/usr/lib/wsl/lib/libcuda.so", "/usr/lib/wsl/lib/libcuda.so.1"]  # type: ignore[attr-defined]
    assert not parser.wakes, "names alone, without their folder, mean nothing in a paste"
