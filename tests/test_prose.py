"""What people write and no message shows raises a suspicion of the likeliest cause, and states nothing; so do circumstances alone."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import cudadoctor
from cudadoctor.parsers import prose
from tests.cases import every
from tests.judging import KNOWLEDGE
from tests.pasted import first, root, suspects

PACKAGE = Path(cudadoctor.__file__).parent

SAID = {
    "container-lost-devices": (
        "The GPU is gone after a while; restarting the container helps.",
        "CUDA stops after some days, so I restart the docker automatically every night.",
        "nvidia: после docker compose restart всё снова работает.",
        "容器里 nvidia-smi 报错,重启容器后恢复。",
    ),
    "uvm-unavailable": (
        "nvidia-smi works, and yet I don't have /dev/nvidia-uvm here.",
        "On this host /dev/nvidia-uvm is missing.",
        "ls /dev/nvidia* -> /dev/nvidia0 /dev/nvidiactl",
    ),
    "numba-cuda-disabled": (
        "ENV NUMBA_CACHE_DIR=/tmp NUMBA_DISABLE_CUDA=1 OMP_NUM_THREADS=8",
        "$ cat .numba_config.yaml\ndisable_cuda: 1\n# for numba.cuda",
    ),
    "wsl-linux-driver-installed": ("There is a libcuda.so.535 in /lib/x86_64-linux-gnu beside the one in /usr/lib/wsl/lib.",),
    "peer-access-broken": (
        "What goes from one GPU to the other comes out damaged, CUDA says nothing.",
        "Silent corruption in GPU-to-GPU copies with CUDA.",
        "Started with GGML_CUDA_P2P=1 the nvidia cards answer with wrong tokens.",
        "Copies with peer access on are silently dropped by CUDA.",
    ),
    "device-permission-denied": (
        "CUDA: si lo ejecuto con sudo aparece la tarjeta nvidia.",
        "nvidia-smi geht, CUDA funktioniert nur mit sudo.",
        "nvidia: CUDA работает только с sudo.",
        "nvidia 显卡用 root 就可以。",
        "In the container CUDA works as root and not as my user.",
        "nvidia: CUDA finds no device; with `sudo python train.py` it works.",
    ),
    "device-nodes-missing": (
        "The service can't find /dev/nvidia0 after a boot.",
        "-rwxr-xr-x 1 root root 36944 Aug 16  2018 /usr/bin/nvidia-modprobe",
        "There is no /dev/nvidiactl on this machine.",
    ),
    "driver-hung": (
        "gpustat is in D (disk sleep) and kill -9 does not end it.",
        " 10834     1 D     1-03:11:20 os_acquire_mutex                 nvidia-smi --query-gpu=utilization.gpu --format=csv",
        "   3391 Dsl  02:13:40 nvidia-container-cli",
        "gpu01 nvidia-smi -L    rc=124",
        'openat(AT_FDCWD, "/dev/nvidia0", O_RDWR|O_CLOEXEC',
        "La commande nvidia-smi n'affiche rien du tout.",
        "nvidia-smi kehrt seit heute nicht zurück.",
        "nvidia-smi зависает.",
        "nvidia-smi を打つと固まります。",
    ),
    "driver-not-loaded": (
        "A file of the tool blacklists the nvidia modules.",
        "After a restart the nvidia kernel modules cannot be loaded.",
        "After each boot I have to type `sudo modprobe nvidia` before CUDA finds the card.",
    ),
    "driver-module-missing-for-kernel": (
        "nvidia-smi fails since the update; booted into the previous kernel (6.5.0-14) CUDA works.",
        "Mit dem alten Kernel funktioniert CUDA mit nvidia wie immer.",
    ),
    "gpu-fell-off-bus": (
        "While I play, the nvidia gpu falls off the bus.",
        'Under load my nvidia card fails: the log calls it "fallen off the bus".',
        "NVIDIA GPU in an external case drops off bus under load",
    ),
    "open-module-required": (
        "My 5080 does not start: the nvidia installer took the proprietary modules, and the card needs the open kernel modules.",
        "nvidia-smi fails on our Blackwell cards, dmesg says that the open kernel modules are required.",
    ),
    "framework-cpu-build": (
        "pip installs a CPU-only version of torch here, and CUDA is not available.",
        "uv resolves to the cpu build of torch on Windows, so CUDA does not work.",
    ),
    "framework-cuda-libs-missing": (
        "CUDA does not work in my program: cublasLt64_13.dll is missing.",
        "The provider fails on this box, it cannot find cudart64_12.dll for CUDA.",
    ),
    "framework-lacks-gpu-arch": (
        "My GTX 1080 fails: the PyTorch for CUDA 13 dropped Pascal.",
        "torch prints an error about Blackwell being incompatible with this CUDA build.",
    ),
    "toolkit-newer-than-driver": ("The numba tests fail on my nvidia card with a PTX version mismatch.",),
    "pcie-link-degraded": ("Under load the GPU sits at Gen2 x16.", "The NVIDIA card runs at 2.5 GT/s."),
    "thermal-or-power-throttling": (
        "nvidia-smi gives SW Thermal Slowdown as the reason.",
        "| 105 s | **thermal slowdown active** | 87 °C | GPU0 |",
        "hashcat, nvidia driver 418: after 40 seconds the card collapses to 139 MHz.",
        "The GPU is slow, and the fan of the card stands still.",
    ),
    "gpu-computes-wrong": (
        "[selftest] matmul cuda:1 vs cpu: 4096 mismatches, pass 1",
        "CUDA sums, run 2: cpu 3355443200  gpu 3355447296  DIFF",
        "Which flag of nvcc, the NVIDIA compiler, makes card 1 non-deterministic?",
    ),
    "libcuda-stub-loaded": ("I added /usr/local/cuda/lib64/stubs to LD_LIBRARY_PATH, since then CUDA fails.",),
    "library-path-conflict": ("CUBLAS breaks as soon as the system-wide CUDA is in LD_LIBRARY_PATH.",),
    "vfio-bound": ('supergfxctl: "mode": "Vfio", nvidia is not there',),
    "scheduler-gave-no-gpu": ("In the job CUDA_VISIBLE_DEVICES has the value NoDevFiles.",),
    "process-limits": ("Beyond virtual memory limits on Yarn (GPU)", "CUDA fails where I set ulimit -v 8000000."),
}
OTHERWISE = (
    "The container was restarted yesterday by the host's update, nvidia-smi works.",
    "ls /dev/nvidia0 shows the node.",
    "ls /dev/nvidia* -> /dev/nvidia0 /dev/nvidiactl /dev/nvidia-uvm",
    "-rwsr-xr-x 1 root root 36944 Aug 16  2018 /usr/bin/nvidia-modprobe",
    "With sudo apt install of the nvidia driver it works.",
    " 10834     1 S     1-03:11:20 poll_schedule_timeout            nvidia-smi dmon",
    "nvidia-smi -L    rc=0",
    'openat(AT_FDCWD, "/dev/nvidia0", O_RDWR|O_CLOEXEC) = 4',
    "I added the nvidia runtime to /etc/docker/daemon.json.",
    "Instalé el driver de nvidia con sudo apt install y ahora funciona.",
    "nvidia-smi does not hang here.",
    "SW Thermal Slowdown                           : Not Active",
    "Secure Boot is enabled here, and the nvidia driver works.",
    "The link runs at Gen4 x16.",
    "[selftest] matmul cuda:1 vs cpu: 0 mismatches, pass 1",
    "CUDA sums, run 2: cpu 3355443200  gpu 3355443200  no diff",
    'I read of "the GPU has fallen off the bus" and wonder why people buy such cards.',
    "Suppose the GPU falls off the bus and CUDA fails: what would the scheduler do?",
    "The fan of the GPU turns, the clock is 1905 MHz.",
)


@pytest.mark.parametrize(("cause", "text"), [(cause, text) for cause, texts in SAID.items() for text in texts])
def test_it_is_the_first_suspect_and_no_more(cause: str, text: str) -> None:
    assert root(text) is None
    assert suspects(text)[:1] == [cause]


@every("text", OTHERWISE)
def test_what_is_no_complaint_raises_no_suspicion(text: str) -> None:
    assert not set(suspects(text)) & set(SAID)


# Messages of several causes with what their reporter adds: the rules put one first, and state nothing on the strength of prose.
DECIDED = {
    "uvm-unavailable": ("cuInit returned 999\nIt broke after the laptop resumed from suspend.",),
    "toolkit-libraries-mixed": (
        "ImportError: /srv/v/lib/python3.12/site-packages/nvidia/cu13/lib/libcusparse.so.12: undefined symbol: "
        "__nvJitLinkGetErrorLogSize_13_0, version libnvJitLink.so.13\nLD_LIBRARY_PATH is empty.",
    ),
    "cudnn-missing-or-mismatched": (
        '[E:onnxruntime:Default, provider_bridge_ort.cc:1992] LoadLibrary failed with error 126 "" when trying to load '
        '"C:\\py\\onnxruntime\\capi\\onnxruntime_providers_cuda.dll"\nDependencies shows as missing: cudnn64_9.dll.',
    ),
    "program-launch-timeout": ('CUDA error at r.cu:2 code=999(cudaErrorUnknown) "cudaDeviceSynchronize()"\nthe screen goes black',),
    "no-nvidia-gpu": ("My laptop does not have an NVIDIA card.\nfailed call to cuInit: CUDA_ERROR_NO_DEVICE",),
}


@pytest.mark.parametrize(("cause", "text"), [(cause, text) for cause, texts in DECIDED.items() for text in texts])
def test_prose_puts_a_cause_first_and_rests_no_verdict(cause: str, text: str) -> None:
    assert root(text) is None
    assert first(text) == cause


def test_a_complaint_that_is_denied_is_none() -> None:
    assert "driver-module-missing-for-kernel" in suspects("nvidia-smi fails. The previous kernel (6.5) works.")
    assert "driver-module-missing-for-kernel" not in suspects("nvidia-smi fails. The previous kernel does not work either.")
    assert "driver-module-missing-for-kernel" not in suspects("nvidia-smi: Со старым ядром CUDA не работает.")


def test_a_subject_and_a_complaint_of_two_sentences_do_not_meet() -> None:
    assert "driver-hung" in suspects("CUDA fails: nvidia-smi just hangs")
    assert "driver-hung" not in suspects("CUDA fails, nvidia-smi shows the table. The desktop hangs.")


def test_long_logs_hold_no_prose() -> None:
    assert suspects("step: error\n" * 4000 + "nvidia-smi just hangs") == []


def test_the_lexicon_is_in_lower_case_and_every_list_is_used() -> None:
    lexicon = KNOWLEDGE.lexicon
    lists = [listed for entry in lexicon.says for listed in (entry.subject, entry.complaint, entry.also, entry.unless)]
    assert [word for listed in lists for word in lexicon.listed(listed) if word != word.lower()] == []
    assert {listed for listed in lists if isinstance(listed, str)} | {"denials"} == set(lexicon.words)
    assert [word for words in KNOWLEDGE.discourse.words.values() for word in words if word != word.lower()] == []


def test_every_kind_is_a_cause_or_one_that_a_rule_asks_for() -> None:
    asked = "\n".join(path.read_text("utf-8") for room in ("texts", "checks", "prescribe") for path in (PACKAGE / room).rglob("*.py"))
    kinds = {kind for entry in KNOWLEDGE.lexicon.says for kind in entry.kinds} | {entry.kind for entry in KNOWLEDGE.circumstances}
    assert {kind for kind in kinds - set(KNOWLEDGE.causes) if f'"{kind}"' not in asked} == set()


def test_a_message_that_states_its_cause_is_not_outdone() -> None:
    assert (
        root("With secure boot disabled it is the same.\nFailed to initialize NVML: Driver/library version mismatch")
        == "driver-version-mismatch"
    )


def test_which_words_are_near_is_found_without_a_look_at_each_pair() -> None:
    """A sentence of thousands of subjects and complaints took minutes; what is found is what a look at each pair finds."""
    dice = random.Random(7)
    for _ in range(300):
        words = [prose._Place(start, start + dice.randint(1, 9), 0) for start in dice.sample(range(120), 8)]
        place, reach = prose._Place(at := dice.randint(0, 120), at + dice.randint(1, 9), 0), dice.randint(0, 30)
        gaps = [max(one.start, place.start) - min(one.end, place.end) for one in words]
        assert prose._Edges.of(words).near(place, reach) is any(0 <= gap <= reach for gap in gaps)
