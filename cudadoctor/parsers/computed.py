"""Signs in a text that a GPU computed: what programs print only after a kernel's result came back."""

from __future__ import annotations

from cudadoctor.model.pattern import lazy
from cudadoctor.model.values import COMPUTED
from cudadoctor.parsers.base import Output, Parser, Text

_SIGNS = (
    lazy(r"\bResult = PASS\b"),  # deviceQuery and bandwidthTest of the CUDA samples
    lazy(r"device='cuda(?::\d{1,2})?'\)"),  # a tensor of PyTorch with its values
    lazy(r"\boffloaded [1-9]\d{0,3}/\d{1,4} layers to GPU"),  # llama.cpp and what is built on it
    lazy(r"compared to CPU.{0,200}Test PASSED|CUDA.{0,200}Test PASSED|^Test PASSED$"),  # vectorAdd and other samples
)


def parse(text: Text) -> Output:
    """One fact: the words of the first sign."""
    for number, line in enumerate(text.lines, 1):
        for sign in _SIGNS:
            found = sign.search(line)
            if found is not None:
                yield text.fact(COMPUTED, found[0], text.quote(number))
                return


PARSER = Parser(
    name="computed", keys=(COMPUTED.name,), parse=parse, wakes=("Result = PASS", "device='cuda", "layers to GPU", "Test PASSED")
)
