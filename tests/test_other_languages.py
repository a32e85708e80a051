"""That a program is not there, as shells say it in the languages of the users who paste it."""

from __future__ import annotations

import pytest

from cudadoctor.parsers.shell import not_found

SAID = (
    "bash: nvcc: Befehl nicht gefunden.",
    "Befehl »nvcc« nicht gefunden, kann aber installiert werden mit:",
    'Der Befehl "nvcc" ist entweder falsch geschrieben oder konnte nicht gefunden werden.',
    "bash: nvcc : commande introuvable",
    "bash: nvcc: commande introuvable",
    "La commande « nvcc » n'a pas été trouvée, mais peut être installée avec :",
    "'nvcc' n'est pas reconnu en tant que commande interne ou externe,",
    "bash: nvcc: orden no encontrada",
    "bash: nvcc: no se encontró la orden",
    "No se ha encontrado la orden «nvcc», pero se puede instalar con:",
    '"nvcc" no se reconoce como un comando interno o externo,',
    "bash: nvcc: comando não encontrado",
    "'nvcc' não é reconhecido como um comando interno",
    "bash: nvcc: comando non trovato",
    "bash: nvcc: команда не найдена",
    "Команда «nvcc» не найдена, но может быть установлена с помощью:",
    '"nvcc" не является внутренней или внешней',
    "bash: nvcc：未找到命令",
    "bash: nvcc: 未找到命令",
    "bash: nvcc: コマンドが見つかりません",
    "'nvcc' 不是内部或外部命令，也不是可运行的程序",
    "'nvcc' は、内部コマンドまたは外部コマンド、",
    "bash: nvcc: 명령어를 찾을 수 없음",
    "'nvcc'은(는) 내부 또는 외부 명령, 실행할 수 있는 프로그램, 또는",
    "bash: nvcc: nie znaleziono polecenia",
    "bash: nvcc: komut bulunamadı",
    "bash: /usr/bin/nvcc: Datei oder Verzeichnis nicht gefunden",
    "bash: /usr/bin/nvcc: No existe el archivo o el directorio",
    "bash: nvcc: command not found",
)


@pytest.mark.parametrize("line", SAID)
def test_it_is_not_there(line: str) -> None:
    assert not_found("nvcc").search(line)


@pytest.mark.parametrize("line", SAID)
def test_another_program_is_not_there(line: str) -> None:
    assert not not_found("nvcc").search(line.replace("nvcc", "nvcc-wrapper"))
    assert not not_found("nvcc").search(line.replace("nvcc", "my-nvcc")) or "/usr/bin" in line


@pytest.mark.parametrize(
    "line",
    ["nvcc: NVIDIA (R) Cuda compiler driver", "Der Befehl nvcc hat einen Fehler gefunden.", "未找到命令的说明在 nvcc 的手册里", "nvcc -V"],
)
def test_other_lines_say_nothing(line: str) -> None:
    assert not not_found("nvcc").search(line)
