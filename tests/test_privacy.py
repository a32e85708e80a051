"""A redacted recording holds no name of a person or a machine and no secret; nor does any report that is made of it."""

from __future__ import annotations

import json
import re
import tarfile
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from cudadoctor.judge.stages import judge
from cudadoctor.model.evidence import Evidence, Item
from cudadoctor.report.formats import FORMATS
from cudadoctor.report.page import Style
from cudadoctor.sources import pasted, recording
from cudadoctor.sources.names_in_evidence import Names, keeps
from cudadoctor.sources.redact import Redactor, redact, redacted
from cudadoctor.sources.sensitive import Pseudonyms
from tests.cases import every
from tests.command_line import HEALTHY, evidence_of, lines, run
from tests.judging import KNOWLEDGE

REPORTS = Path(__file__).resolve().parent.parent / "fixtures" / "reports"
CARRIERS = (
    "h200-healthy", "h200x2-default-gpu-full", "h200-in-use", "h200-memory-held-by-orphan", "shared-default-gpu-full", "gpu-fell-off-bus",
    "seed-mx250-python3-process", "no-gpu-slurm-login", "mig-slice-healthy", "wsl2-healthy", "windows-healthy-rtx3060", "h200-two-cupys",
    "framework-cpu-build", "container-no-gpu-access", "jetson-orin-healthy", "driver-hung",
)  # fmt: skip


class Plant(NamedTuple):
    """A secret, and the lines by item in which it stands. `text` is what a user gave with --log, `*.err` an item's standard error."""

    secret: str
    where: dict[str, str]


def _event(**fields: object) -> str:
    return lines([fields])


def _framework_error(words: str) -> str:
    return _event(event="error", step="import", error=words)


def _env(line: str) -> dict[str, str]:
    """What `env` prints, pasted into a text."""
    return {"text": f"CUDA_HOME=/usr/local/cuda\nSLURM_JOB_ID=77\n{line}\n"}


PLANTS = (
    # -- people
    Plant("zebulon", {"user": "uid=1001(zebulon) gid=1001(zebulon) groups=1001(zebulon)\n", "text": "zebulon started it again\n"}),
    Plant("Quentinius", {"environment": "LD_LIBRARY_PATH=/home/Quentinius/lib\n", "python-env": _framework_error("denied to Quentinius\nat once")}),
    Plant("marguerite", {"text": "(base) marguerite@lab-box9:~/proj$ python train.py\nTraceback of marguerite's run\n"}),
    Plant("lab-box9", {"text": "lab-box9 is slow\n", "nvidia-smi.err": "nvidia-smi on lab-box9: broken\n"}),
    Plant("oswaldo", {"processes": _event(event="process", pid=4242, ppid=1, user="oswaldo", state="running", own=False)}),
    Plant("thaddeus", {"text": "USER         PID %CPU %MEM\nthaddeus    7711  0.0  0.1 python\n\nkilled by thaddeus\n"}),
    Plant("perpetua", {"text": "Nov 21 10:00:00 box sshd[99]: Accepted publickey for perpetua from 10.9.8.7 port 2222 ssh2\n"}),
    Plant("leopoldine", {"environment": "PYTHONPATH=/Users/leopoldine/src\n", "ladder": _framework_error("/Users/leopoldine/src/numba.py")}),
    Plant("Hieronymus", {"text": 'File "C:\\Users\\Hieronymus Bosch\\env\\lib\\x.py", line 3\n'}),
    Plant("gwendolyn", {"dev": "crw-rw---- 1 gwendolyn chemlab-q4 195, 9 /dev/nvidia9\n"}),
    Plant("hildegard", {"dev": "crw-rw----? 1 hildegard chemlab-q4 195, 9 /dev/nvidia9\n"}),  # nobody may say whether it has an access list
    Plant("chemlab-q4", {"user": "groups=1001(chemlab-q4)\n"}),
    Plant("rosalind", {"kernel-log": "[    9.1] Linux version 6.8.0 (rosalind@forge17) (gcc 13) #1\n"}),
    # -- machines
    Plant("crunchbox77", {"uname": "Linux crunchbox77.deep.thoughtlab.de 6.8.0-40-generic #1 SMP x86_64 GNU/Linux\n"}),
    Plant("thoughtlab.de", {"text": "ssh: connect to host login2.deep.thoughtlab.de port 22: refused\n"}),
    Plant("forge17", {"driver-version": "NVRM version: NVIDIA UNIX x86_64 (root2@forge17)\n"}),
    Plant("node-kappa-3", {"environment": "SLURMD_NODENAME=node-kappa-3\n", "text": "task 0: node-kappa-3: killed\n"}),
    Plant("gpunode042", {"text": "slurmstepd: error: *** JOB 77 ON gpunode042 CANCELLED AT 2026-11-21T10:00:00 ***\n"}),
    Plant("raven-compute", {"text": "Nov 21 10:00:00 raven-compute kernel: NVRM: Xid (PCI:0000:01:00): 13, pid=7\n"}),
    Plant("nas5.corp", {"text": "OSError: cannot reach nas5.corp for the data\n"}),
    # -- addresses
    Plant("ada.l@analytic.org", {"text": "mail ada.l@analytic.org about it\n", "dkms.err": "signed by ada.l@analytic.org\n"}),
    Plant("10.20.30.40", {"text": "NCCL could not reach 10.20.30.40:29500\n", "kernel-log": "[ 1.0] nvidia: nfs at 10.20.30.40\n"}),
    Plant("192.168.77.5", {"environment": "CUDA_MPS_SERVER=192.168.77.5\n", "framework-torch": _framework_error("socket 192.168.77.5 refused")}),
    Plant("203.0.113.99", {"text": "listening on 203.0.113.99\n"}),
    Plant("fe80::1c2d:3eff:fe4f:5a6b", {"text": "inet6 fe80::1c2d:3eff:fe4f:5a6b scope link\n"}),
    Plant("2001:db8:85a3:8d3:1319:8a2e:370:7348", {"kernel-log": "[ 1.0] module nfs: 2001:db8:85a3:8d3:1319:8a2e:370:7348\n"}),
    Plant("3c:ec:ef:12:34:56", {"kernel-log": "[ 1.0] mlx5: module eth0 3c:ec:ef:12:34:56\n", "text": "ether 3c:ec:ef:12:34:56\n"}),
    # -- numbers of devices
    Plant("1650522003820", {"nvidia-smi": "    Serial Number                         : 1650522003820\n"}),
    Plant("VMW-77-a1-B2", {"lshw": "       serial: VMW-77-a1-B2\n"}),
    Plant("0324718054731", {"nvml": _event(event="board", serial="0324718054731")}),
    Plant("GPU-7f3c9a10-22bb-4c1d-9e8f-aabbccddeeff", {"nvidia-smi": "GPU 0: NVIDIA H200 (UUID: GPU-7f3c9a10-22bb-4c1d-9e8f-aabbccddeeff)\n"}),
    Plant("MIG-1b2c3d4e-5f60-5718-9a0b-c1d2e3f40516", {"environment": "CUDA_MODULE=MIG-1b2c3d4e-5f60-5718-9a0b-c1d2e3f40516\n"}),
    Plant("4C4C4544-0042-3510-8052-B4C04F4A4E32", {"text": "System UUID: 4C4C4544-0042-3510-8052-B4C04F4A4E32\n"}),
    Plant("0c1d2e3f405162738495a6b7c8d9eafb", {"text": "machine-id 0c1d2e3f405162738495a6b7c8d9eafb\n"}),
    # -- values of variables
    Plant("correct-horse-7", {"environment": "MY_DB_PASSWORD=correct-horse-7\n", "text": "login with correct-horse-7 failed\n"}),
    Plant("blue-whale-project", {"environment": "COMPANY_PROJECT=blue-whale-project\n"}),
    Plant("innermost-line", {"environment": "MULTI=first\ninnermost-line of a value\n"}),
    Plant("AKIAIOSFODNN7EXAMPLQ", {"environment": "AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLQ\n", "text": "aws: AKIAIOSFODNN7EXAMPLQ denied\n"}),
    Plant("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", {"text": "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\n"}),
    Plant("ghp_16C7e42F292c6912E7710c838347Ae178B4a", {"text": "remote: ghp_16C7e42F292c6912E7710c838347Ae178B4a is revoked\n"}),
    Plant("hf_AbCdEfGhIjKlMnOpQrStUvWxYz012345", {"framework-torch": _framework_error("401 for\nhf_AbCdEfGhIjKlMnOpQrStUvWxYz012345")}),
    # -- tokens in addresses and in command lines
    Plant("s3cr3tindex", {"text": "Looking in indexes: https://bob:s3cr3tindex@pypi.thoughtlab.de/simple\n"}),
    Plant("pypi.thoughtlab.de", {"text": "ERROR: index https://pypi.thoughtlab.de/simple has no torch\n"}),
    Plant("an-4d5e6f70-aa", {"text": "channel https://conda.anaconda.org/t/an-4d5e6f70-aa/private\n"}),
    Plant("sigABCdef123", {"text": "GET https://x.blob.core.windows.net/m.bin?sv=2021&sig=sigABCdef123&se=1\n"}),
    Plant("jup-tok-991", {"processes": _event(event="process", pid=99, ppid=1, user="root", own=False, state="running", devices=["/dev/nvidia0"],
                                              command="/usr/bin/python3 -m jupyter --token=jup-tok-991")}),
    Plant(
        "plain-argument-77",
        {"processes": _event(event="process", pid=98, ppid=1, user="root", own=False, state="running", command="/usr/bin/python3 x.py plain-argument-77")},
    ),
    Plant("spoken-pw-4711", {"text": "login with password spoken-pw-4711 failed\n"}),
    Plant("1322521045678", {"text": "board serial 1322521045678\n"}),
    Plant("10.8.0.9", {"text": "SSH_CLIENT=10.8.0.9 51234 22\n"}),
    Plant("fileserver09", {"text": "at \\\\fileserver09\\models\\x\n"}),
    Plant("node-kappa-11", {"text": "rank 3 on node-kappa-11 is gone\n"}),
    Plant("4c4c4544_0042_3510_8052_b4c04f4a4e99", {"cgroup": "0::/kubepods/pod4c4c4544_0042_3510_8052_b4c04f4a4e99/x.scope\n"}),
    Plant("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", {"cgroup": "1:x:/docker-9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08.scope\n"}),
    Plant("smi-arg-secret", {"nvidia-smi": "|    0   N/A  N/A           9911      C   python3 serve.py smi-arg-secret         300MiB |\n"}),
    Plant("hunter2hunter2", {"text": "$ python serve.py --api-key hunter2hunter2 --port 80\n"}),
    Plant("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl", {"text": "Authorization: Bearer eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl\n"}),
    Plant("kernelkey99", {"kernel-log": "[    0.0] Command line: BOOT_IMAGE=/vmlinuz root=/dev/sda1 ks=http://h/k?x=kernelkey99 nouveau.modeset=0\n"}),
    Plant("registry-pass-1", {"container-stack": '/etc/docker/daemon.json:{"runtimes": {"nvidia": {"args": ["--token", "registry-pass-1"]}}}\n'}),
    Plant("harbor.thoughtlab.de", {"container-stack": '/etc/docker/daemon.json:  "nvidia-mirror": "https://harbor.thoughtlab.de:5000"\n'}),
    Plant("astro-grant-55", {"text": "sbatch: error: --account=astro-grant-55 is not valid\n", "environment": "SLURM_JOB_ACCOUNT=astro-grant-55\n"}),
    # -- variables that a text shows
    Plant("hunter3xx", _env("SLURM_DB_PASS=hunter3xx")),
    Plant("gardenpath4", _env("TF_VAR_github_pat=gardenpath4")),
    Plant("bluemoon5", _env("CONDA_AUTH=bluemoon5")),
    Plant("crumbly6", _env("PBS_SIGNING_COOKIE=crumbly6")),
    Plant("postbox7", _env("TF_VAR_dsn=postbox7")),
    Plant("lowercase8", _env("db_pass=lowercase8")),
    # -- addresses behind words that begin as packages do
    Plant("192.168.122.1", {"text": "libvirt 192.168.122.1 is up\n"}),
    Plant("192.168.1.20", {"text": "cudabox 192.168.1.20\n"}),
    Plant("192.168.10.7", {"text": "cudaserver: 192.168.10.7\n"}),
    Plant("172.17.0.1", {"text": "nvidia-docker 172.17.0.1\n"}),
    Plant("10.20.31.41", {"text": "torchrun 10.20.31.41\n"}),
    Plant("10.20.32.42", {"text": "10.20.32.42-gpu7 is gone\n"}),
    Plant("203.0.113.98", {"text": "203.0.113.98-gpu7 is gone, torchrun 203.0.113.98, from <203.0.113.98>, a -> 203.0.113.98\n"}),
    Plant("192.168.7.70", {"text": '{"current_ip": "192.168.7.70", "driver_host": "192.168.7.70"}\n'}),
    Plant("10.20.33.43", {"text": '{"current_ip": "10.20.33.43"}\n'}),
    # -- numbers, and blanks between quotes
    Plant("48151623", {"text": "password: 48151623\n"}),
    Plant("31415926", {"text": '{"db_password": 31415926}\n'}),
    Plant("23421508", {"text": "$ serve --password 23421508\nDB_PASSWORD=23421508\n"}),
    Plant("words secret", {"text": "password = 'two words secret'\n"}),
    Plant("wider words", {"text": 'args: ["--token", "my wider words"] and --token "my wider words"\n'}),
    Plant("abz dez", {"text": "OPENAI_API_KEY = 'abz dez'\n"}),
    Plant("here now", {"text": "password = 'it\\'s here now' and\n", "framework-torch": _framework_error('password = "it\'s here now"\nx')}),
    Plant("MIIEpAIBAAKCAQEA", {"text": "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIBAAKCAQEA75\n-----END RSA PRIVATE KEY-----\n"}),
)  # fmt: skip
KINDS = {"environment": "environment", "text": "text", "processes": "worker", "python-env": "worker", "nvml": "worker", "ladder": "worker"}


def planted(name: str) -> Evidence:
    """A recorded host with every secret in it: behind the lines that it has, in pieces of evidence that it lacks."""
    evidence = evidence_of(name)
    more: dict[str, str] = {}
    for plant in PLANTS:
        for where, words in plant.where.items():
            more[where] = more.get(where, "") + words
    items = []
    for item in evidence.items:
        out, err = more.pop(item.id, ""), more.pop(f"{item.id}.err", "")
        known = item.stdout or ("" if out else None)
        text = (
            out + (known or "") if item.id == "uname" else f"{known}\n{out}" if known and not known.endswith("\n") else (known or "") + out
        )
        status = "ok" if out and item.status not in ("ok", "failed") else item.status
        items.append(
            msgspec.structs.replace(
                item, stdout=text if known is not None else None, stderr=(item.stderr or "") + err or None, status=status
            )
        )
    for where, words in more.items():
        if not where.endswith(".err"):
            kind = "worker" if where.startswith("framework-") else KINDS.get(where, "command")
            origin = "text" if where == "text" else "recording"
            items.append(Item(id=where, kind=kind, what=where, status="ok", stdout=words, origin=origin))  # type: ignore[arg-type]
    python = "/home/Quentinius/env/bin/python"
    return msgspec.structs.replace(
        evidence, items=tuple(items), python=python, python_why="VIRTUAL_ENV of zebulon", remarks=("made on crunchbox77",)
    )


@cache
def taken(name: str) -> Evidence:
    return redact(planted(name))


def _found(text: str) -> list[str]:
    lower = text.lower()
    return [plant.secret for plant in PLANTS if plant.secret.lower() in lower]


def test_there_are_fifty_and_each_is_in_the_evidence_before() -> None:
    assert len({plant.secret for plant in PLANTS}) >= 50
    whole = "\n".join(part for item in planted("h200-healthy").items for part in (item.stdout, item.stderr) if part)
    absent = {plant.secret for plant in PLANTS} - set(_found(whole))
    assert not {secret for secret in absent if "dkms.err" not in str([plant.where for plant in PLANTS if plant.secret == secret])}


def _members(path: Path) -> Iterator[bytes]:
    with tarfile.open(path) as archive:
        for member in archive:
            yield f"{member.name} {member.uname} {member.gname} {member.pax_headers}".encode()
            stream = archive.extractfile(member)
            yield stream.read() if stream is not None else b""


@pytest.mark.parametrize("name", CARRIERS)
def test_none_of_them_is_in_the_recording_or_in_a_report(name: str, tmp_path: Path) -> None:
    evidence = taken(name)
    recording.write(evidence, str(tmp_path / "folder"))
    recording.write(evidence, str(tmp_path / "file.tar.gz"))
    files = [path for path in (tmp_path / "folder").rglob("*") if path.is_file()]
    assert _found("\n".join(f"{path.name}\n{path.read_text('utf-8')}" for path in files)) == []
    assert _found(b"\n".join(_members(tmp_path / "file.tar.gz")).decode()) == []
    report = judge(recording.read(str(tmp_path / "file.tar.gz")), KNOWLEDGE)
    assert report.diagnosis.crashes == ()
    for form, known in FORMATS.items():
        assert _found(known.render(report, KNOWLEDGE, Style(verbose=True))) == [], form


# ---------------------------------------------------------------- what stays
def items_of(**texts: str) -> Evidence:
    items = []
    for key, body in texts.items():
        name = key.replace("_", "-")
        items.append(Item(id=name, kind=KINDS.get(name, "command"), what=name, status="ok", stdout=body))  # type: ignore[arg-type]
    return Evidence(items=tuple(items))


def out(evidence: Evidence, name: str) -> str:
    item = evidence.get(name)
    assert item is not None
    return item.stdout or ""


def test_equal_things_stay_equal_and_different_ones_differ() -> None:
    evidence = redact(
        items_of(
            user="uid=1000(ada) gid=1000(ada) groups=1000(ada)\n",
            text="ada@box1:~$ ls /home/ada /home/bob\n/mnt/nfs/ada/x\nfrom 10.1.1.1 to 10.1.1.2\nmail a@b.org, c@d.org, a@b.org\n",
            processes=lines([{"event": "process", "pid": 1, "user": "ada"}, {"event": "process", "pid": 2, "user": "bob"}]),
            python_env=lines([{"event": "error", "error": "not writable for\nada on box1"}]),
        )
    )
    (ada,) = set(re.findall(r"uid=1000\((user-\w+)\)", out(evidence, "user")))
    text = out(evidence, "text")
    homes = re.findall(r"/home/(user-\w+)", text)
    assert homes[0] == ada
    assert homes[1] != ada
    assert f"/mnt/nfs/{ada}/x" in text
    assert re.search(rf"^{ada}@host-\w+:~\$ ls ", text) is not None, "still a prompt"
    assert f'"{ada}"' in out(evidence, "processes")
    assert f'"{homes[1]}"' in out(evidence, "processes")
    assert ada in out(evidence, "python-env")
    first, second = re.search(r"from (ip-\w+) to (ip-\w+)", text).groups()  # type: ignore[union-attr]
    assert first != second
    a, c, again = re.findall(r"address-\w+", text)
    assert a == again != c


@pytest.mark.parametrize(
    "line",
    [
        "nvidia-cublas-cu12        12.1.3.1", "numba==0.60.0 nvidia-cudnn-cu12==9.1.0.70", "ii  libcublas-12-0  12.0.2.224-1  amd64", "Version: 8.9.2.26",
        "ii  libcurand-12-6  10.3.7.77-1  amd64", "tensorrt_cu12_libs 10.8.0.43", "nvidia-curand (>=10.1.0.2,<10.4.0.0)", "nvidia-cufft-cu12==10.9.0.58",
        "libnvinfer-vc-plugin8:amd64 8.6.1.6-1+cuda12.0", "Linux PC 5.15.153.1-microsoft-standard-WSL2", '"version": "10.3.10.19"',
        '{"eos_token": 2, "verbose": true}', '{"cudnn": "9.10.2.21", "libcublas": "10.2.2.89"}', "libcublas 12.1.0.26 0 nvidia", "cudnn-linux-x86_64-8.9.7.29_cuda12-archive", "| nvidia-cufft-cu12 | 11.0.2.54 |", "0000:00:06.0 3D controller",
        "c10::cuda::CUDAError at::native::add std::bad_alloc", "memcpy@GLIBC_2.14 cuInit@libcuda.so.1", "[10de:2335] 10DE:1EB8:10DE:12A2",
        "See https://docs.nvidia.com/deploy and https://numba.readthedocs.io/en/stable/", "pip install torch --index-url https://download.pytorch.org/whl/cu121",
        "max_new_tokens=128 tokenizer: fast pad_token: None", "eos_token='</s>' max_tokens: \"128\" token: '512'", "password: 'required'", "SyntaxError: unexpected token: }", "0::/user.slice/user-1000.slice/user@1000.service",
        "_ZN3c104cuda20CUDACachingAllocator9allocatorE", "/usr/local/cuda-12.4/nvvm/lib64/libnvvm.so.4.0.0 at 10:00:00", "@cuda.jit(device=True)",
        "prompt tokens: 12, completion tokens: 34.5k, tokens: [1, 2, 3]", "PASS: deviceQuery in 3 s", "PyJWT    2.8.0", "passlib==1.7.4 PyJWT==2.8.0",
        "ii  passwd 1:4.13+dfsg1-4ubuntu3 amd64", "HF_TOKEN environment variable is not set", "Signing key: /var/lib/dkms/mok.key",
        "docker run --gpus all -p 8888:8888 -u 1000 nvidia/cuda:12.4.1-base nvidia-smi", "undefined symbol: _ZNKSt10moneypunctIcLb0EE16do_x",
        "wget -c https://developer.download.nvidia.com/compute/cuda/12.4.1/local_installers/cuda_12.4.1_550.54.15_linux.run",
        "auth: pam_unix(sudo:auth): authentication failure; logname=", "module verification failed: signature and/or required key missing",
        r"PCI\VEN_10DE HKLM\SOFTWARE\NVIDIA NT AUTHORITY\SYSTEM BUILTIN\Users ROOT\CIMV2", r'{"msg":"ERROR\nnvidia-container-cli: initialization error"}', r"Driver Model WDDM\TCC, VIDEO\nvlddmkm",
        "Connected to NVML (550.54.15)", r"C:\Windows\System32\nvcuda.dll",
        "driver 580.159.04, CUDA 13.0, 2026-11-21 10:00:00.123456", "bind 127.0.0.1:8080", "RuntimeError: CUDA error: invalid device ordinal",
    ],
)  # fmt: skip
def test_what_only_looks_like_a_secret_stays(line: str) -> None:
    assert out(redact(items_of(text=f"{line}\n")), "text") == f"{line}\n"


@pytest.mark.parametrize(
    ("line", "private"),
    [
        (r"schtasks /create /ru ACME\karla.b /tn x", "karla.b"),
        (r"Owner : ACME\hmeier", "hmeier"),
        ("Account Name:\t\thmeier", "hmeier"),
        ("Account Domain:\t\tACMECORP", "ACMECORP"),
        ("Computer Name:   DESKTOP-KBRANDT7", "DESKTOP-KBRANDT7"),
        ("<Computer>DESKTOP-KBRANDT7</Computer>", "DESKTOP-KBRANDT7"),
        ("<Data Name='WorkstationName'>WS-HMEIER</Data>", "WS-HMEIER"),
        (r"LOGONSERVER=\\DC-ACME1", "DC-ACME1"),
        ("Connected to dgxacme07 (10.1.2.3) port 22", "dgxacme07"),
        ("nodeName: dgxacme07", "dgxacme07"),
        ("git config user.name 'Hans Meier'", "Hans Meier"),
        ("Chassis Serial Number   XYZABCDEF", "XYZABCDEF"),
        ("ID_SERIAL_SHORT=SNABCDEFGH", "SNABCDEFGH"),
        ("stripe sk_live_51HabcdEFGHijkl", "51HabcdEFGHijkl"),
    ],
)
def test_where_windows_and_services_print_a_name_or_a_key(line: str, private: str) -> None:
    assert private not in out(redact(items_of(text=f"{line}\n")), "text")


def test_the_variables_of_a_build_stay_in_a_text() -> None:
    """Also those whose names only hold the letters of a secret's."""
    text = "TF_XLA_FLAGS=--x\nSLURM_JOB_PARTITION=gpu\nCONDA_PATH=/opt/conda\nTORCH_AUTHOR=x\nCUDA_PATH=/usr/local/cuda\n"
    assert out(redact(items_of(text=text)), "text") == text


@pytest.mark.parametrize(
    "name", ["device", "memory", "torch", "nvidia", "cuda", "kernel", "max", "no", "H200", "libcuda", "running", "numba-cuda"]
)
def test_a_user_or_a_host_called_like_a_thing_takes_no_evidence_away(name: str) -> None:
    evidence = evidence_of("h200-healthy")
    items = {item.id: item for item in evidence.items}
    user = msgspec.structs.replace(items["user"], stdout=f"uid=1000({name}) gid=1000({name}) groups=1000({name})\n")
    uname = msgspec.structs.replace(items["uname"], stdout=f"Linux {name} 6.18.44-gpu #1 SMP x86_64 GNU/Linux\n")
    odd = msgspec.structs.replace(evidence, items=tuple({**items, "user": user, "uname": uname}.values()))
    before, after = judge(odd, KNOWLEDGE), judge(redact(odd), KNOWLEDGE)
    assert [(row.id, row.status, row.summary) for row in after.checks if row.id != "gpu"] == [
        (row.id, row.status, row.summary) for row in before.checks if row.id != "gpu"
    ]
    assert after.machine.gpus[0].name == before.machine.gpus[0].name
    assert after.machine.python.packages == before.machine.python.packages


def test_boot_parameters_that_concern_a_gpu_stay() -> None:
    log = "[    0.0] Command line: BOOT_IMAGE=/vmlinuz root=UUID=0c1d2e3f-4051-6273-8495-a6b7c8d9eafb nouveau.modeset=0 ip=10.0.0.7 pci=realloc\n"
    assert out(redact(items_of(kernel_log=log)), "kernel-log") == "[    0.0] Command line: nouveau.modeset=0 pci=realloc <redacted>\n"


@every("name", sorted(path.parent.name for path in REPORTS.glob("*/report.txt")), share=16)
def test_a_text_is_judged_alike_without_what_names_anybody(name: str) -> None:
    evidence = pasted.evidence_of((REPORTS / name / "report.txt").read_bytes())
    before, after = (judge(one, KNOWLEDGE) for one in (evidence, redact(evidence)))
    assert (after.verdict, after.diagnosis.root and after.diagnosis.root.cause) == (
        before.verdict,
        before.diagnosis.root and before.diagnosis.root.cause,
    )


def test_an_escaped_line_break_hides_no_name() -> None:
    """In half a line of JSON, which a worker that was killed leaves, a line break is a backslash and an n."""
    whole = lines([{"event": "error", "error": "for\nzebulon\tgwen: token=abcdef99\nnext"}])
    for text in (whole, whole[:-3]):
        redacted_text = out(redact(items_of(user="uid=1000(zebulon) groups=5(x)\n", python_env=text)), "python-env")
        assert "zebulon" not in redacted_text
        assert "abcdef99" not in redacted_text
        assert "\\nnext" in redacted_text


# ---------------------------------------------------------------- what is told
def test_the_account_counts_different_things() -> None:
    account = redacted(
        items_of(
            environment="A=x\nB=y\nCUDA_HOME=/home/ada/cuda\nEMPTY=\n",
            text="/home/ada /home/ada /home/bob 10.0.0.1:80 GPU-5b1e0c7a-90ab-4d12-8f3e-1c2d3e4f5a6b\n",
        )
    )
    assert account.replaced == {"UUID": 1, "ip": 1, "user": 2}
    assert (account.withheld, account.variables) == (2, 4)


def test_record_prints_what_it_kept(tmp_path: Path) -> None:
    result = run("record", "-o", str(tmp_path / "a"), "--quick", variables={"SOME_TOKEN": "abcdefgh99"})
    assert result.code == 0
    assert re.match(rf"\d+ pieces of evidence written to {re.escape(str(tmp_path / 'a'))}, redacted\n", result.out)
    assert re.search(r"^Replaced: .*\d+ host name", result.out, re.MULTILINE)
    assert re.search(r"^\d+ of \d+ environment variables kept only their name\.$", result.out, re.MULTILINE)
    assert "abcdefgh99" not in "".join(path.read_text("utf-8") for path in (tmp_path / "a").rglob("*.*") if path.is_file())
    plain = run("record", "-o", str(tmp_path / "b"), "--quick", "--no-redact", variables={"SOME_TOKEN": "abcdefgh99"})
    assert plain.code == 0
    assert "not redacted" in plain.out
    assert "abcdefgh99" in (tmp_path / "b" / "evidence" / "environment.out.txt").read_text("utf-8")


@pytest.mark.parametrize(
    "line",
    ["password: |\n  {}", "<password>{}</password>", "echo {} | sudo -S ls", "TOKEN=\\\n{}", 'password: Some("{}")', "7z x -p{} a.7z",
     "+wandb.key={}", "Passwort: {}", "rocommunity {}"],
)  # fmt: skip
def test_letters_and_digits_by_turns_are_no_word_wherever_they_stand(line: str) -> None:
    assert "Vx2LmP9tKc4" not in Pseudonyms().text(line.format("Zq7Vx2LmP9tKc4RbN1wE8sYd"))


@pytest.mark.parametrize("scheme", ["ApiKey ", "Splunk ", "Bearer ", ""])
def test_a_header_that_authorizes_loses_its_value_whatever_its_scheme(scheme: str) -> None:
    assert "s3cr3tvalue99" not in Pseudonyms().text(f"Authorization: {scheme}s3cr3tvalue99")


@pytest.mark.parametrize(("name", "value", "kept"), [
    ("LC_ALL", "de_DE.UTF-8", True), ("LC_TELEPHONE", "+49 151 2345678", False), ("CUDA_LICENSE", "ABCD-1234", False),
    ("CUDA_PROXY_HOST", "crunch7", False), ("CUDA_OF_OURS", "kranich", False), ("CUDA_DEVICE_ORDER", "FASTEST_FIRST", True), ("CUDA_VISIBLE_DEVICES", "0;1", True), ("CUDA_HOME", "/opt/cuda", True),
])  # fmt: skip
def test_a_variable_keeps_its_value_where_a_diagnosis_reads_it(name: str, value: str, kept: bool) -> None:
    assert keeps(name, value) == kept
    other = Item(id="ladder", kind="worker", what=("python", "ladder.py"), status="ok", stdout=lines([
        {"event": "start", "given": {name: value}}, {"event": "changed", "name": name, "value": value},
    ]))  # fmt: skip
    environment = Item(id="environment", kind="environment", what="environment", status="ok", stdout=f"{name}={value}\n")
    pasted_too = pasted.output_of(f"CUDA_HOME=/usr/local/cuda\nCUDA_CACHE_DISABLE=1\n{name}={value}\n".encode())
    shown = [item.stdout or "" for item in redact(Evidence(items=(environment, other, pasted_too))).items]
    assert [value in text for text in (shown[0], *shown[1].splitlines(), shown[2])] == [kept] * 4, "one rule, wherever a variable stands"


@pytest.mark.parametrize(
    "line",
    ["$ ssh -l bobqz crunchqz", "$ whoami\nbobqz", "$ hostname\ncrunchqz", "torchrun --master_addr crunchqz", "sudo chown bobqz:bobqz x",
     "Job <1> is submitted by user <bobqz>.", "git@github.com:bobqz/x.git", "/workspace/bobqz/x.py", "/dev/shm/bobqz/x.py", "[rank0]: crunchqz:22:22 [0] NCCL INFO Bootstrap",
     "[crunchqz:12345] *** Process received signal ***", "process rank 1 with PID 12 on node crunchqz exited on signal 11",
     "HTTPConnectionPool(host='crunchqz', port=5000)",
     "Job <1>, Job Name <train>, User <bobqz>, Project <default>, Status <RUN>, Queue <gpu>", "Execution CWD </work/bobqz/llm>, Output File <o>",
     "Password for user bobqz: ", 'psql: FATAL:  password authentication failed for user "bobqz"', 'FATAL:  role "bobqz" does not exist',
     "chown: invalid user: ‘bobqz’", "wandb.init(project='x', entity='bobqz')", "slurmstepd-crunchqz: error: Unable to open CUDA",
     "  rdzv_endpoint    : crunchqz:29500", "  master_addr: crunchqz",
     "[W] The IPv6 network addresses of (crunchqz, 29500) cannot be retrieved", "https://dev.azure.com/bobqz/project"],
)  # fmt: skip
def test_names_whose_place_says_so(line: str) -> None:
    evidence = evidence_of(HEALTHY).completed((pasted.output_of(f"{line}\nCUDA error: out of memory\n".encode()),))
    (text,) = (item.stdout or "" for item in redact(evidence).items if item.id == "text")
    assert "bobqz" not in text
    assert "crunchqz" not in text


@pytest.mark.parametrize(
    ("said", "secret"),
    [
        ("key NRAK-{}", "A1B2C3D4E5F6G7H8J9K0LMNOPQR"),
        ("SQUARE=sq0atp-{}", "Ab3dEf6hIj9lMn2pQr5tUv"),
        ("token dt0c01.{}", "ST2EY72KQINMH574WMNVI7YN.G3DFPBEJYMODIDAEX454M7YWBUVEFOWKPRVMWFASS64NFH52PX6BNDVFFM572RZM"),
        ("pul-{} is mine", "4f2a9c1e8b7d6a5f4e3d2c1b0a9f8e7d6c5b4a39"),
        ("modal token as-{}", "q9Zx3LmN7pR2sT5vW8yA1b"),
        ("podman login -u ada -p {} quay.io", "hunter22"),
        ("helm registry login -u ada -p {} r.io", "hunter22"),
        ("twine upload -u ada -p {} dist/x.whl", "hunter22"),
        ("skopeo copy --src-creds ada:{} docker://a docker://b", "hunter22"),
        ("sqlplus scott/{}@db", "tiger99"),
        ("7z x -p{} model.7z", "hunter22"),
        ("htpasswd -bB users.htp ada {}", "hunter22"),
        ("echo {} | sudo -S modprobe nvidia", "hunter22"),
        ("snmpwalk -v2c -c {} 10.0.0.1", "comm0nity"),
        ("mount -t cifs //srv/x /mnt -o user=ada,pass={}", "hunter22"),
        ("[remote]\npass = {}\n", "hunter22obscured"),
    ],
)
def test_a_secret_that_a_seventh_reader_found_is_gone(said: str, secret: str) -> None:
    out = redact(pasted.evidence_of(said.format(secret).encode())).items[0].stdout or ""
    assert secret not in out
    assert "<redacted>" in out


@pytest.mark.parametrize(
    "said",
    [
        "requests.get(url, auth=('ada', '{}'))", "    auth=HTTPBasicAuth('ada', '{}'),", 'auth = ("ada", "{}")', "CREATE USER ada IDENTIFIED BY '{}'",
        "ALTER USER ada WITH PASSWORD '{}'", "SET PASSWORD FOR 'ada'@'%' = '{}'", "$pw = ConvertTo-SecureString '{}' -AsPlainText -Force",
        "openssl rsa -passin pass:{} -in key.pem", "gpg --passphrase-fd 0 <<< {}", "kinit ada@REALM <<< {}", "unzip -P {} x.zip", "mosquitto_pub -u ada -P {} -t x",
        "ssh-keygen -N {} -f id", "rclone config create x s3 secret_access_key {}", "vault kv put secret/x value={}", "vault kv put secret/x pin={} b=c",
        "VAULT_DEV_ROOT_TOKEN_ID={}", "aws s3 cp a s3://b/c --sse-c-key {}",
        "SLURM_JWT: {}", 'expect "password:"\nsend "{}\\r"',
    ],
)  # fmt: skip
def test_a_secret_that_an_eighth_reader_found_is_gone(said: str) -> None:
    for secret in ("hunterhorse", "hunter22"):
        out = redact(pasted.evidence_of(said.replace("{}", secret).encode())).items[0].stdout or ""
        assert secret not in out
        assert "<redacted>" in out


@pytest.mark.parametrize("on", ["\x1b[1;31m", "\x1b(B\x1b[m", "\x9b33m", "^[[31m", "#033[31m", "\\x1b[1m", "\\u001b[35m", "\x1b]8;;x\x07"])
@pytest.mark.parametrize("line", ["password={}hunter22", "DB_PW{}: hunter22", "{}api_key{}={}hunter22", "--to{}ken hunter22"])
def test_colours_hide_no_secret(line: str, on: str) -> None:
    out = redact(pasted.evidence_of(line.replace("{}", on).encode())).items[0].stdout or ""
    assert "hunter22" not in out


@pytest.mark.parametrize(
    ("line", "kept"),
    [
        ("PATH=/usr/bin:acmeworks/bin:bin:../acmeworks", "PATH=/usr/bin:"),
        ("CONDA_DEFAULT_ENV=acmeworks", "CONDA_DEFAULT_ENV="),
        ("CONDA_DEFAULT_ENV=base", "CONDA_DEFAULT_ENV=base"),
        ("JOB_ID=acmeworks-17", "JOB_ID="),
        ("JOB_ID=12345", "JOB_ID=12345"),
        ("WSLENV=ACMEWORKS/p:PATH/l", "WSLENV="),
        ("LD_PRELOAD=libcuda.so.1:acmeworks.so", "LD_PRELOAD=libcuda.so.1:"),
        ("PATH=C:\\Windows\\system32;D:\\acmeworks\\bin", "PATH=C:\\Windows\\system32;"),
        ("CUDA_VISIBLE_DEVICES=bash", "CUDA_VISIBLE_DEVICES=bash"),
    ],
)
def test_of_variables_that_are_places_and_names_the_known_words_stay(line: str, kept: str) -> None:
    value = out(redact(items_of(environment=f"{line}\n")), "environment")
    assert "acmeworks" not in value.lower()
    assert value.startswith(kept)


def test_a_machine_without_a_number_of_its_start_is_not_found_by_guessing() -> None:
    machine = Evidence(items=(), host="crunchbox77")
    assert redact(machine).host != redact(machine).host
    again = msgspec.structs.replace(machine, boot_id="c0ffee")
    assert redact(again).host == redact(again).host


def test_encoded_paths_are_read_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each was a text of its own, through all expressions: 1 MB of them took twenty seconds."""
    texts: list[str] = []
    plain = Redactor.text
    monkeypatch.setattr(Redactor, "text", lambda self, text, **how: texts.append(text) or plain(self, text, **how))
    out = redact(pasted.evidence_of(b"%2Fhome%2Fzebulon%2Fx\n%2Fdata%2F%0Ay\n%2F%2Fhome%2Fzebulon%2Fy\n" * 50)).items[0].stdout
    assert out is not None
    assert "zebulon" not in out
    assert out.count("%2Fhome%2Fuser-") == 100
    assert out.count("\n") == 150
    assert len(texts) < 10


@pytest.mark.parametrize(
    "line",
    [
        "runas /user:ACMEQZ\\bobqz cmd", "cmdkey /add:crunchqz /user:bobqz /pass:x", 'type=USER_CMD msg=audit(1.1:1): acct="bobqz" hostname=crunchqz',
        "Benutzer: bobqz", "^8f3c2d1 (Bobqz Bobqz 2024-01-02 10:00:00 +0100 12) import torch", "srun -A bobqz -p gpu -w crunchqz nvidia-smi",
        "mpirun -H crunchqz:4,crunchqz:4 -np 8 ./a", "crunchqz slots=8", "crunchqz:~ # nvidia-smi", "SlurmctldHost=crunchqz(10.1.2.3)", "PBS_JOBID=4711.crunchqz", "node/crunchqz cordoned",
        "dcgmi: hostengine crunchqz:5555", "crunchqz | UNREACHABLE! => {", "Host key for crunchqz has changed", "//crunchqz/data on /mnt/d type cifs",
        "signer:         crunchqz Secure Boot Module Signature key", "[0] NVIDIA A10 | 45'C, 98 % | 100 / 200 MB | bobqz:python/4711(90M)",
        "Session 7 of user bobqz logged out.", "Disk quotas for user bobqz (uid 1001):", 'AUID="bobqz" UID="root"', "sshd(bobqz)---bash",
        "17 * * * * bobqz /opt/run.sh", "runner /user:ACME\\bobqz", "qsub -P bobqz -N acmeqz job.sh", "bsub -P acmeqz -J acmeqz -u bobqz",
        "redis-cli -h crunchqz ping", "machine crunchqz login bobqz password x", "//crunchqz/share /mnt/x cifs username=bobqz,domain=ACMEQZ 0 0",
        "dn: uid=bobqz,ou=people,dc=acmeqz,dc=edu", "kubectl -n acmeqz get nodes", "gcloud compute ssh crunchqz --project acmeqz --zone x",
        "arn:aws:iam::123456789012:role/acmeqz", "123456789012.dkr.ecr.eu-west-1.amazonaws.com/x", "wandb: View run at https://wandb.ai/bobqz/acmeqz/runs/x",
        "train.py --wandb-entity acmeqz", "ssid=AcmeqzNet", "--password \\\n  bobqzbobqz", "read -s PW <<< bobqzbobqz",
        "Incorrect API key provided: sk-bobq*****************mbqz.", "|1|F1E1KeoE/eEWhi10WpGv4OdiO6Y=|3988QV0VE8wmZL7suNrYQLITLCg=",
        "pdsh -S -w crunchqz,crunchqz uptime", "horovodrun -np 4 -H crunchqz:2 python t.py", "dcgmi discovery --host crunchqz -l", "NODELIST=crunchqz[01-04,07]",
        "Warning: Permanently added 'crunchqz,10.1.1.9' (ED25519) to the list of known hosts.", "mount.nfs: access denied by server while mounting crunchqz:/vol",
        "smbclient //crunchqz/x", "ray.exceptions.RayActorError: ip=10.1.1.9, node name: crunchqz", "setfacl -m u:bobqz:rw /dev/nvidia0",
        "Job 7741 submitted by user bobqz to queue long", "Namespace(api_key=['first-key-1', 'bobqz-key-2'], port=1)",
        "  hf_token ........ bobqzbattery", 'api_key: Some(\n    "bobqz-meadow",\n),', "{'hf_token':\n     'bobqz-meadow'}", '"passwords": [\n "bobqz-meadow"\n]',
        'password: bobqzmeadow\n"x"', 'export DB_PASSWORD=bobqzmeadow\n"python" train.py', "user_password: !!str bobqzmeadow", "input password again: bobqzmeadow", "+secrets.hf=bobqzmeadow", "storage_options={'key': 'bobqzmeadow', 'anon': False}", "--admin-key=bobqzmeadow",
        "file:///zfs/bobqz/x.ipynb", "vscode-remote://ssh-remote+crunchqz/zfs/bobqz/x", "Started on <4*crunchqz>, host(s) <8*crunchqz>, in cluster <acmeqz>;",
        "Job <9> was submitted from host <crunchqz> by user <bobqz>", "    exec_host = crunchqz/0*8", "addresses of (crunchqz, 29500)",
        "[crunchqz:4412 :0:4412] Caught signal 11", "[crunchqz:00012] mca_base", "distributed.scheduler - INFO -   dashboard at:  crunchqz:8787",
        "Your hostname, crunchqz, resolves to a loopback address", "ServerArgs(dist_init_addr='crunchqz:5000', nnodes=2)", 'node_uname_info{nodename="crunchqz"} 1',
        "trainer-0   0/1   CrashLoopBackOff   7 (2m ago)   19m   10.2.3.4   crunchqz   <none>   <none>", "$ ssh crunchqz nvidia-smi", "scp x.py crunchqz:/tmp",
        "debug1: Authenticating to crunchqz:22 as 'bobqz'", "     Machine name: CRUNCHQZ", "Logon Server:              \\\\CRUNCHQZ", "ServerAddress=crunchqz",
        "           UID: 4021 (bobqz)", "Data Source=x;User ID=bobqz;", "nmcli dev wifi connect AcmeqzNet password x", "mpirun --host crunchaa:8,crunchqz:8 -np 16 ./a",
    ],
)  # fmt: skip
def test_what_an_attackers_list_found_is_gone(line: str) -> None:
    text = redact(pasted.evidence_of(f"$ python train.py\n{line}\nCUDA error: out of memory\n".encode())).items[0].stdout or ""
    assert not re.search(r"(?i)bobq|crunchqz|acmeqz|123456789012|F1E1KeoE", text)


@pytest.mark.parametrize(
    "table",
    [
        "Job id            Name             User              Time Use S Queue\n----------------  ---------------- ----------------  -------- - -----\n"
        "12345.crunchqz    train_llm        crunchqz          01:02:03 R gpuq\n",
        "Job ID          Username Queue    Jobname    SessID NDS TSK Memory Time  S Time\n--------------- -------- -------- ---------- ------\n"
        "12345.crunchqz  crunchqz gpuq     train_llm   12345   1   8   64gb 24:00 R 01:02\n",
        "job-ID  prior   name       user         state submit/start at     queue      slots\n  12345 0.55500 train.sh   crunchqz     r     11/30/2026 10:00:00 gpu.q  1\n",
        "│ GPU     PID      USER  GPU-MEM %SM  TIME  COMMAND   │\n│   0 1234567 C crunchqz 1024MiB   0  10:00  python train.py │\n",
        "NAMESPACE      NAME                READY   STATUS    RESTARTS   AGE\ncrunchqz-lab   crunchqz-train-0    0/1     Pending   0          5m\n",
        "NAME      READY   STATUS    RESTARTS   AGE   IP         NODE       NOMINATED NODE\ntrain-0   1/1     Running   0          5m    10.0.3.4   crunchqz   <none>\n",
        'CONTAINER ID   IMAGE           COMMAND   CREATED      STATUS      PORTS     NAMES\nabcdef123456   ubuntu:24.04    "bash"    1 hour ago   Up 1 hour             crunchqz_train\n',
        "# conda environments:\n#\nbase                  *  /opt/conda\ncrunchqz                 /opt/conda/envs/crunchqz\n",
        "crunchqz\n     Mom = crunchqz.cluster\n     ntype = PBS\n",
    ],
)
def test_names_below_the_headings_of_a_table_are_gone(table: str) -> None:
    assert "crunchqz" not in (redact(pasted.evidence_of(table.encode())).items[0].stdout or "crunchqz")


def test_a_container_that_is_called_like_a_framework_takes_nothing_away() -> None:
    said = "CONTAINER ID   IMAGE           STATUS       NAMES\nabcdef123456   ubuntu:24.04    Up 1 hour    pytorch\nThe pytorch build is for CPU: pytorch 2.9.1\n"
    assert "pytorch 2.9.1" in (redact(pasted.evidence_of(said.encode())).items[0].stdout or "")


def test_of_a_sentence_with_such_a_word_nothing_goes() -> None:
    said = "The user node ran the job twice\nand the second time CUDA found no device\n"
    assert redact(pasted.evidence_of(said.encode())).items[0].stdout == said


@pytest.mark.parametrize(
    "line",
    [
        "kubectl -n kube-system delete pod -l name=nvidia-device-plugin-ds", "kubectl -n gpu-operator get pods", "srun -N 2 --gpus=1 python train.py",
        "sbatch -N 1 -n 8 job.sh", "mpirun -np 8 ./a", "nvidia-smi -i 0 -q", "arn:aws:s3:::x", "dc=edu",
        "Linux host 5.15.167.4-microsoft-standard-WSL2 #1 SMP x86_64 GNU/Linux", "User=ollama", "systemctl show ollama -p User",
        "setfacl -m u:1000:rw /dev/nvidia0", "Loading token ... done", "tokens: ['hello', 'world']", "pad_token ....... 128009", "GPU 0: [10de:2204] at 0000:01:00.0", "i-th row of vol-2",
        "srun -w /dev/null x", "mount: mounting /dev/sda1 on /mnt failed",
    ],
)  # fmt: skip
def test_what_names_nobody_stays(line: str) -> None:
    text = redact(pasted.evidence_of(f"$ python train.py\n{line}\nCUDA error: out of memory\n".encode())).items[0].stdout or ""
    assert line in text


@pytest.mark.parametrize("unit", ["cookie=~/", "authorization: /usr/ ", "ipa-"])
def test_what_is_no_value_after_all_is_not_read_to_the_end_of_the_line_at_each_name(unit: str) -> None:
    """The time grew with the square: 70 s for 720 KB."""

    def taken(count: int) -> float:
        began = time.thread_time()
        Pseudonyms().text(unit * count)
        return time.thread_time() - began

    taken(100)
    assert taken(80_000 // len(unit)) < 3 * taken(40_000 // len(unit)) + 0.05


def test_a_whole_line_is_gone_however_long_it_is() -> None:
    assert "kranich" not in Pseudonyms().text(f"Cookie: a=b; {'c=d; ' * 400}session=kranich\n")


def test_what_takes_too_long_is_left_out_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cudadoctor.sources.redact._LEAST_TIME", -1.0)
    taken = redact(items_of(text="for zebulon\n", kernel_log="NVRM: x\n"))
    assert [(item.stdout, item.dropped_bytes > 0) for item in taken.items] == [(None, True)] * 2
    assert sum("was left out" in remark for remark in taken.remarks) == 2


def test_json_deeper_than_any_program_writes_is_redacted_as_words() -> None:
    """It ended the recording: RecursionError."""
    deep = '{"a":' + "[" * 900 + '"token=abcdef99"' + "]" * 900 + "}\n"
    assert "abcdef99" not in out(redact(items_of(text=deep)), "text")


def test_many_secrets_are_not_each_looked_for_in_all_that_a_machine_says() -> None:
    """2 MB and 40,000 variables took a minute: a search for each."""
    names = Names("a-a-a-" * 400_000)
    began = time.thread_time()
    assert not any(names.is_technical(f"a-a-a-{number}") for number in range(40_000))
    assert not names.is_technical("a-a-b")
    assert [names.is_technical("a-a-a") for _ in range(200)][::199] == [True, False]
    assert time.thread_time() - began < 10


@pytest.mark.parametrize(
    "line",
    [
        "python\0train.py\0--password\0ouzelsiskin", '~ password = "sedgewarbler" -> "whimbrelturnstone"', "password: &pw kestrelbittern",
        "<property value='knotplover' name='password'/>", '["password","hoopoeoriole"]', "<td>Password</td><td>puffinhoopoe</td>",
        "&quot;password&quot;: &quot;murreswift&quot;", "password:\r\nternpuffin", "(Pdb) p password\n'merlinkestrel'",
        "In [3]: password\nOut[3]: 'harrierbittern'", "singularity remote login -u ml -p lapwingskua docker://r.acme.io",
        "ctr images pull --user ml:puffinswift img", "mokutil --generate-hash=gannetspoonbill", "signtool sign /f x.pfx /p divershag y",
        "d-i passwd/user-password password egretcorncrake", "[info]   - Using password from config: godwitsnipe",
        "USER   PASSWORD\nml     choughredstart", "password............: wrenouzel", "my password (turnstoneshoveler) does not work",
        "The admin password is marblecake, please change it after login", "Das Passwort lautet lapwingtern",
    ],
)  # fmt: skip
def test_a_word_that_nobody_says_of_passwords_is_one(line: str) -> None:
    """Wherever it stands beside the name, and though its letters make a word."""
    shown = out(redact(pasted.evidence_of(f"{line}\n".encode())), "text")
    assert not PLANTED & set(re.findall("[a-z]+", shown))
    assert "<redacted>" in shown


PLANTED = frozenset(
    [
        "ouzelsiskin",
        "sedgewarbler",
        "whimbrelturnstone",
        "kestrelbittern",
        "knotplover",
        "hoopoeoriole",
        "puffinhoopoe",
        "murreswift",
        "ternpuffin",
        "merlinkestrel",
        "harrierbittern",
        "lapwingskua",
        "puffinswift",
        "gannetspoonbill",
        "divershag",
        "egretcorncrake",
        "godwitsnipe",
        "choughredstart",
        "wrenouzel",
        "turnstoneshoveler",
        "marblecake",
        "lapwingtern",
    ]
)


@pytest.mark.parametrize(
    "line",
    [
        "[sudo] password for root:\nNVRM: API mismatch: the client has the version 580.105.08", "sudo: a password is required",
        "Enter your password:\nKilled", "password authentication failed for user root", "mokutil asks for a password twice, then reboot",
    ],
)  # fmt: skip
def test_what_is_said_of_passwords_stays(line: str) -> None:
    assert out(redact(pasted.evidence_of(f"{line}\n".encode())), "text") == f"{line}\n"


def test_settings_of_a_unit_that_a_diagnosis_reads_stay() -> None:
    unit = '[Service]\nUser=ada\nEnvironment=CUDA_VISIBLE_DEVICES=1\nEnvironment="CUDA_HOME=/usr/local/cuda" "MODEL_KEY=sparrowhawk"\n'
    shown = out(redact(pasted.evidence_of(unit.encode())), "text")
    assert "Environment=CUDA_VISIBLE_DEVICES=1\n" in shown
    assert '"CUDA_HOME=/usr/local/cuda" "MODEL_KEY=<redacted>"' in shown


def redacted_text(text: str) -> str:
    return out(redact(pasted.evidence_of(text.encode())), "text")


TABLE = """             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)
             81234       gpu  drachenf fuerchte  R    1:00:00      1 barsch07
"""


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "UserWarning: NVIDIA GB10 with CUDA capability sm_121 is not compatible with the current PyTorch installation.",
        "NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:1bb3) installed in this system is not supported",
    ],
)
def test_a_table_ends_with_its_last_row(line: str) -> None:
    """What a program says below it would lose the words that stand under a heading, wherever they stand."""
    shown = redacted_text(f"$ squeue --me\n{TABLE}{line}\n")
    assert line in shown
    assert not re.search("drachenf|fuerchte|barsch07", shown)


def test_a_line_of_json_changes_nothing_for_the_lines_around_it() -> None:
    shown = redacted_text('{"event": "start"}\nC:\\Users\\torsten\\miniconda3\\python.exe\nnet use Z: \\\\nas\\ds Feldlerche\n')
    assert not re.search("torsten|Feldlerche", shown)


@pytest.mark.parametrize(
    "words",
    [
        ["sshpass", "-p", "Sommerhit", "ssh", "node7"],
        ["docker", "login", "-u", "x", "-p", "Sommerhit"],
        ["train.py", "--password", "Sommerhit"],
    ],
)
@pytest.mark.parametrize("written", ["python", "json", "pretty", "yaml", "audit"])
def test_a_command_as_a_list_loses_the_same_words(words: list[str], written: str) -> None:
    text = {
        "python": f"Command '{words}' returned non-zero exit status 5.",
        "json": json.dumps({"cmd": words}),
        "pretty": json.dumps({"cmd": words}, indent=2),
        "yaml": "command:\n" + "\n".join(f"  - {word}" for word in words),
        "audit": "type=EXECVE msg=audit(1.0:1): argc=5 " + " ".join(f'a{place}="{word}"' for place, word in enumerate(words)),
    }[written]
    shown = redacted_text(text + "\n")
    assert "Sommerhit" not in shown
    assert words[0] in shown


def test_every_one_of_very_many_names_goes() -> None:
    rows = "".join(
        f"u{number:04}x   {1000 + number}  0.0  0.1  12345  4567 ?        Ss   10:00   0:00 python t.py\n" for number in range(700)
    )
    shown = redacted_text(f"USER       PID %CPU %MEM    VSZ   RSS TTY      STAT START   TIME COMMAND\n{rows}")
    assert not re.search(r"u\d{4}x", shown)


@pytest.mark.parametrize(
    "value",
    [
        {"Name": "DB_PASSWORD", "Value": "Feldlerche"}, {"key": "DB_PASSWORD", "value": "Feldlerche"}, {"type": "password", "default": "Feldlerche"},
        {"password": {"value": "Feldlerche"}}, {"secrets": {"db": "Feldlerche"}}, {"kind": "Secret", "data": {"alpha": "Feldlerche"}},
    ],
)  # fmt: skip
def test_a_value_is_known_by_the_name_that_another_field_gives_it(value: dict[str, object]) -> None:
    assert "Feldlerche" not in redacted_text(json.dumps(value) + "\n")


def test_a_kubernetes_secret_is_gone_to_its_last_line() -> None:
    long = "QUFB" * 2000
    shown = redacted_text(f"kind: Secret\ndata:\n  a: {long}\n  # ours\n  'b': Feldlerche\n  c: |\n    Heidelerche\ntype: Opaque\n")
    assert not re.search("QUFB|lerche", shown)
    assert "type: Opaque" in shown


@pytest.mark.parametrize("text", ["echo $DB_PASSWORD\r\nFeldlerche\r\n", "$ hostname\r\nFeldlerche\r\n", "api_key: |\r\n  Feldlerche\r\n"])
def test_line_ends_of_windows_hide_nothing(text: str) -> None:
    assert "Feldlerche" not in redacted_text(text)


def test_who_is_called_like_a_framework_takes_nothing_away() -> None:
    line = "UserWarning: sm_121 is not compatible with the current PyTorch installation. See vllm/worker.py"
    assert line in redacted_text(f"pytorch@pod7:~$ python t.py\nvllm@pod8:~$ ls\n{line}\n")


@pytest.mark.parametrize("fence", ['"""', "'''"])
def test_a_long_string_is_gone_up_to_its_own_end(fence: str) -> None:
    """Quotation marks of both kinds may stand in it."""
    shown = redacted_text(f"PASSWORD = {fence}\nFeld\"erche, Feld'erche\n{fence}\nbatch = 8\n")
    assert "erche" not in shown
    assert "batch = 8" in shown
