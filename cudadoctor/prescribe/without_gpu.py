"""What a machine without an NVIDIA GPU has instead, and where a GPU is to be had from there: conditions and values of one recipe."""

from __future__ import annotations

from cudadoctor.model.values import ENVIRONMENT, SLURM_CLIENT
from cudadoctor.prescribe.case import Case, Condition
from cudadoctor.prescribe.places import SLURM_WORDS, evidence
from cudadoctor.prescribe.shellwords import Found

_COLAB = ("COLAB_GPU", "COLAB_RELEASE_TAG", "COLAB_BACKEND_VERSION")
_KAGGLE = ("KAGGLE_KERNEL_RUN_TYPE", "KAGGLE_URL_BASE", "KAGGLE_CONTAINER_NAME")
_SPEAKS_OF_COLAB, _SPEAKS_OF_KAGGLE = evidence(r"google\.colab|(?<!\w)/content/"), evidence(r"/kaggle/")
_MAC = evidence(r"macOS|Darwin|MacBook|\bMac OS\b|Apple M\d|/Users/")


def other_gpus(case: Case) -> str | None:
    """GPUs of other makers: as the bus shows them, else as the finding's own lines name them."""
    makers = case.knowledge.makers
    gpus = [maker.name for maker in makers if maker.kind == "gpu"]
    if case.values.get("adapters"):
        return case.values["adapters"] if set((case.value("makers") or "").split(",")) & set(gpus) else None
    named = [maker.name for maker in makers if maker.kind == "gpu" and any(word in case.words for word in maker.words)]
    if _MAC(case) and "Apple" not in named:
        named.append("Apple")
    return f"GPUs of {' and '.join(named)}" if named else None


def values(case: Case) -> Found:
    yield "other_gpus", other_gpus(case)


def _slurm(case: Case) -> bool:
    """Slurm's programs are here, or its variables: a login node, or a node whose jobs get no GPU."""
    environment = case.get(ENVIRONMENT)
    variables = environment.variables if environment is not None else {}
    return case.get(SLURM_CLIENT) is not None or any(name.startswith("SLURM_") for name in variables) or SLURM_WORDS(case)


WITHOUT_GPU: dict[str, Condition] = {
    "other-gpus": lambda case: other_gpus(case) is not None,
    "slurm-client": _slurm,
    "colab": lambda case: any(case.variable(name) is not None for name in _COLAB) or _SPEAKS_OF_COLAB(case),
    "kaggle": lambda case: any(case.variable(name) is not None for name in _KAGGLE) or _SPEAKS_OF_KAGGLE(case),
}
