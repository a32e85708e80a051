"""That a program is not there, as shells say it in the languages of the users who paste it."""

from __future__ import annotations

import pytest

from cudadoctor.parsers.shell import not_found
from tests.cases import every

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
    "'nvcc' is not recognized as an internal or external command,",
    "nvcc : The term 'nvcc' is not recognized as the name of a cmdlet, function, script file, or operable program. Check the",
    "nvcc: The term 'nvcc' is not recognized as a name of a cmdlet, function, script file, or executable program.",
    'nvcc : Die Benennung "nvcc" wurde nicht als Name eines Cmdlet, einer Funktion, einer Skriptdatei oder eines ausführbaren',
    "nvcc : Le terme «nvcc» n'est pas reconnu comme nom d'applet de commande,",
    "nvcc : El término 'nvcc' no se reconoce como nombre de un cmdlet, función, archivo de script o programa ejecutable.",
    "'nvcc' non è riconosciuto come comando interno o esterno,",
    "nvcc : Termine 'nvcc' non riconosciuto come nome di cmdlet, funzione, programma eseguibile o file script.",
    "'nvcc' n\ufffdo \ufffd reconhecido como um comando interno",
    "nvcc : O termo 'nvcc' não é reconhecido como nome de cmdlet, função, arquivo de script ou programa operável.",
    "Nazwa 'nvcc' nie jest rozpoznawana jako polecenie wewnętrzne lub zewnętrzne,",
    "nvcc : Nazwa „nvcc” nie jest rozpoznawana jako nazwa polecenia cmdlet, funkcji, pliku skryptu lub programu wykonywalnego.",
    'nvcc : Имя "nvcc" не распознано как имя командлета, функции, файла сценария или выполняемой программы.',
    "nvcc : 无法将“nvcc”项识别为 cmdlet、函数、脚本文件或可运行程序的名称。请检查名称的拼写，如果包括路径，请确保路径正确，",
    "'nvcc' 不是內部或外部命令、可執行的程式或批次檔。",
    "nvcc : 無法辨識 'nvcc' 詞彙是否為 Cmdlet、函數、指令檔或可執行程式的名稱。",
    "nvcc : 用語 'nvcc' は、コマンドレット、関数、スクリプト ファイル、または操作可能なプログラムの名前として認識されません。",
    "nvcc : 'nvcc' 용어가 cmdlet, 함수, 스크립트 파일 또는 실행할 수 있는 프로그램 이름으로 인식되지 않습니다. 이",
    "'nvcc' iç ya da dış komut, çalıştırılabilir",
    "nvcc : 'nvcc' terimi cmdlet, işlev, betik dosyası veya çalıştırılabilir program adı olarak tanınmıyor.",
    "'nvcc' wordt niet herkend als een interne",
    "    + CategoryInfo          : ObjectNotFound: (nvcc:String) [], CommandNotFoundException",
    "    + CategoryInfo          : ObjectNotFound: (nvcc.exe:String) [], CommandNotFoundException",
    "bash: nvcc: nie znaleziono polecenia",
    "bash: nvcc: komut bulunamadı",
    "bash: /usr/bin/nvcc: Datei oder Verzeichnis nicht gefunden",
    "bash: /usr/bin/nvcc: No existe el archivo o el directorio",
    "bash: nvcc: command not found",
)


@every("line", SAID)
def test_it_is_not_there(line: str) -> None:
    assert not_found("nvcc").search(line)


@every("line", SAID)
def test_another_program_is_not_there(line: str) -> None:
    assert not not_found("nvcc").search(line.replace("nvcc", "nvcc-wrapper"))
    assert not not_found("nvcc").search(line.replace("nvcc", "my-nvcc")) or "/usr/bin" in line


@pytest.mark.parametrize(
    "line",
    ["nvcc: NVIDIA (R) Cuda compiler driver", "Der Befehl nvcc hat einen Fehler gefunden.", "未找到命令的说明在 nvcc 的手册里", "nvcc -V"],
)
def test_other_lines_say_nothing(line: str) -> None:
    assert not not_found("nvcc").search(line)
