"""What pages say of the tree and of the program's output: files, names, commands, transcripts."""

import json
import re
import runpy
import shlex
import shutil
from pathlib import Path

import pytest
import typer

from seedbed.boards import apps, virtual
from seedbed.boards.cli.app import command_line
from seedbed.boards.registers import addresses
from seedbed.flow.cores.registry import CORES, WRAPPERS
from seedbed.sim import tools
from seedbed.sim.ports import ports

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "examples" / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]
CODE = (
    "spec", "hw", "golden", "sim", "flow", "boards", "drivers", "studies", "main", "examples",
    "tests", "docs", ".ci",
)  # fmt: skip
#: Files of the project that pages name without a folder; others are written by commands.
SOURCES = (".py", ".toml", ".vlt", ".cpp", ".h", ".j2")
#: A stem that a page writes for any core, and one that is there.
STEMS = {"NAME": "skid_buffer", "CORE": "skid_buffer", "FAMILY": "parts"}
#: Identifiers of other programs.
FOREIGN = {"litedram", "litex", "migen", "queue_occupancy_limit", "sim_build", "tkeep"}


def ident(page):
    return str(page.relative_to(ROOT))


def code_spans(text):
    """Return what is in backticks outside of blocks, generated ones among them."""
    written = re.sub(r"^```.*?^```$|^<!-- generated:.*?^<!-- end -->$", "", text, flags=re.S | re.M)
    return re.findall(r"`([^`\n]+)`", written)


def missing_files(page, text):
    """Return the paths and source files in backticks that are not in the tree."""
    names = {path.name for folder in CODE for path in (ROOT / folder).rglob("*")}
    names |= {path.name for path in ROOT.iterdir()}
    found = []
    for span in code_spans(text):
        if not re.fullmatch(r"[\w./*-]+", span):
            continue
        path = span
        for stem, known in STEMS.items():
            path = path.replace(stem, known)
        inside = path.partition("/")[0] in CODE and "/" in path
        exists = any(ROOT.glob(path)) if inside else Path(path).name in names
        if not exists and (inside or path.endswith(SOURCES)):
            found.append(span)
    return found


@pytest.mark.parametrize("page", PAGES, ids=ident)
def test_files_that_a_page_names_are_there(page):
    assert missing_files(page, page.read_text()) == []


def test_a_file_that_is_not_there_is_found():
    text = "`hw/parts/gf2.py` `hw/FAMILY/NAME.py` `hw/none.py` `none.py` `lfsr.py` `rtl/lfsr.v`\n"
    assert missing_files(ROOT / "README.md", text) == ["hw/none.py", "none.py"]


@pytest.fixture(scope="module")
def words():
    """The words of the code, of the ports of all cores, and of the registers of boards."""
    found = set(FOREIGN)
    for folder in CODE[:-2]:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in {".py", ".toml", ".cpp", ".h", ".j2", ".vlt", ".v"}:
                found |= set(re.findall(r"\w+", path.read_text()))
    for name in ("Makefile", "pyproject.toml"):
        found |= set(re.findall(r"\w+", (ROOT / name).read_text()))
    for core in (CORES | WRAPPERS).values():
        for port in ports(core.signature(core.configure({}))):
            found |= {port.name, *re.findall(r"\w+", port.signal)}
    for name in apps.APPS:
        for design in apps.designs(name):
            found |= set(addresses(design.REGISTERS))
    return found


@pytest.mark.parametrize("page", PAGES, ids=ident)
def test_names_on_a_page_are_in_the_code(page, words):
    spans = code_spans(page.read_text())
    names = [span for span in spans if re.fullmatch(r"[a-z_]\w*(\.[a-z_]\w*)*(\(\))?", span)]
    assert [name for name in names if not set(re.findall(r"\w+", name)) <= words] == []


def test_signals_on_the_page_of_proofs_are_declared():
    """A word that is elsewhere in the code may be the name of a signal of old."""
    declared = {*CORES, "valid", "ready", "rst", "last"}
    for path in (ROOT / "hw").rglob("*.py"):
        lines = re.findall(r"self\.(\w+)|(\w+) = Signal|\"(\w+)\": (?:In|Out)", path.read_text())
        declared |= {name for names in lines for name in names}
    spans = code_spans((ROOT / "docs/formal.md").read_text())
    names = {span for span in spans if re.fullmatch(r"[a-z_]\w*", span)}
    assert (
        names - declared - {"compact", "published", "plain", "queue", "lut4", "trellis", "classes"}
        == set()
    )


def commands(text):
    """Return the words of every ``seedbed`` command in the blocks of a page."""
    for block in re.findall(r"^```(?:sh|console)\n(.*?)^```$", text, re.S | re.M):
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r"&&|\|\|?|;", line.partition(" #")[0].removeprefix("$ ")):
                found = part.split()
                if found and found[0].endswith("seedbed"):
                    yield [word.strip("[]") for word in found[1:]]


#: The command line, which takes long to make.
COMMAND_LINE = typer.main.get_command(command_line)


def unknown(words):
    """Return the first word that is no command, or the options that the command has not."""
    here = COMMAND_LINE
    for word in words:
        children = getattr(here, "commands", None)
        if children is None and not hasattr(here, "get_command"):
            break
        try:
            child = here.get_command(None, word)
        except ValueError:
            child = None
        if child is None:
            return [word] if not word.startswith("-") and word != "..." else []
        here = child
    options = {option for p in here.params for option in (*p.opts, *p.secondary_opts)}
    given = [word for word in words if re.match(r"--?[a-z]", word)]
    names = [re.match(r"-[-\w]*", word)[0] for word in given]
    return [name for name in names if name not in options | {"-h", "--help", "--version"}]


@pytest.mark.parametrize("page", PAGES, ids=ident)
def test_commands_on_a_page_are_known(page):
    assert [found for words in commands(page.read_text()) for found in unknown(words)] == []


@pytest.mark.parametrize("path", sorted((ROOT / "docs/figures").glob("*.json")), ids=ident)
def test_commands_of_published_rows_are_known(path):
    rows = json.loads(path.read_text())["rows"]
    block = "\n".join(["```sh", *dict.fromkeys(row["command"] for row in rows), "```", ""])
    assert [(words, unknown(words)) for words in commands(block) if unknown(words)] == []


def test_a_command_that_is_unknown_is_found():
    assert unknown(["sim", "lfsr", "--vdc", "a.vcd"]) == ["--vdc"]
    assert unknown(["board", "run", "noise", "--port", "p", "--polt", "a.png"]) == ["--polt"]
    assert unknown(["simulate", "lfsr"]) == ["simulate"]
    assert unknown(["board", "start"]) == ["start"]


# Transcripts: a block of output after a block of commands. Three dots stand for anything within a
# line, and alone for any lines. A comment before the block names the numbers that vary.

#: Pages whose output is not compared, and why.
NOT_RUN = {
    "docs/howto/target.md": "is no output",
    "docs/demo_lm.md": "takes minutes, or a model that is not in the repository",
    "docs/programs.md": "has a model that is not in the repository",
    "docs/boards/gemv.md": "builds a large virtual board",
    "docs/boards/instantft.md": "takes a minute; tests/boards/test_board_instantft.py runs the job",
    "docs/tune.md": "has data of a user; tests/boards/test_tune.py has the commands",
    "docs/boards/lm.md": "takes minutes; tests/boards/test_board_lm.py runs the job",
    "docs/boards/sentence.md": "takes a minute; tests/boards/test_board_sentence.py has it",
    "docs/boards/zo_trainer.md": "takes a minute; tests/boards/test_board_zo_trainer.py has it",
}
RUN = ["docs/tutorial.md", "docs/export.md", "docs/boards.md", "docs/boards/link.md"]
BLOCK = r"(?:^<!-- varies: (?P<varies>.*?) -->\n+)?^```(?P<language>\w*)\n(?P<body>.*?)^```$"


def transcripts(text):
    """Yield the commands, the output, and the numbers that vary, of each transcript of a page."""
    script = ""
    for block in re.finditer(BLOCK, text, re.S | re.M):
        if block["language"] == "sh":
            script = block["body"]
        if block["language"] == "console":
            script = "".join(re.findall(r"^\$ (.*\n)", block["body"], re.M))
        if block["language"] in {"text", "console"}:
            output = re.sub(r"^\$ .*\n", "", block["body"], flags=re.M)
            yield script, output, (block["varies"] or "").split("; ")


def expression(output, varies=()):
    """Return the regular expression of a transcript's output."""
    found = ""
    for line in output.splitlines(keepends=True):
        if line.strip() == "...":
            found += r"(?:.*\n)*?"
            continue
        found += re.escape(line).replace(r"\.\.\.", ".*")
    for number in filter(None, varies):
        found = found.replace(re.escape(number), r"[\d,.]+")
    return found


@pytest.mark.parametrize("page", PAGES, ids=ident)
def test_every_transcript_is_run_or_not_for_a_reason(page):
    if list(transcripts(page.read_text())):
        assert (ident(page) in RUN) != (ident(page) in NOT_RUN)


def test_what_an_expression_of_output_matches():
    output = "cycles: 12\n...\nend ... 3\n"
    assert re.fullmatch(expression(output), "cycles: 12\nany\nline\nend of 3\n")
    assert not re.fullmatch(expression(output), "cycles: 13\nend of 3\n")
    assert re.fullmatch(expression(output, ["12"]), "cycles: 13\nend of 3\n")


def are_printed(shown, tmp_path, called):
    """Run the commands of transcripts, and compare what they print."""
    for script, output, varies in shown:
        if script.startswith("iverilog"):
            if not tools.there("IVERILOG"):
                continue
            compiled, _, run = script.partition("&&")
            tools.run("IVERILOG", *shlex.split(compiled)[1:], cwd=tmp_path)
            printed = tools.run("VVP", *shlex.split(run)[1:], cwd=tmp_path)
        else:
            results = [called(shlex.split(line)[1:], tmp_path) for line in script.splitlines()]
            assert [status for status, _, _ in results] == [0] * len(results)
            printed = "".join(out for _, out, _ in results)
        match = re.fullmatch(expression(output, varies), printed)
        assert match, f"{script} prints\n{printed}"


def test_the_tutorial_prints_what_its_page_shows(tmp_path, called):
    """Its first text is the head of a file, the others are outputs."""
    text = (ROOT / "docs" / "tutorial.md").read_text()
    for language, name in (("verilog", "top.v"), ("systemverilog", "top_tb.v")):
        [source] = re.findall(rf"^```{language}\n(.*?)^```$", text, re.S | re.M)
        (tmp_path / name).write_text(source)
    head, *shown = transcripts(text)
    status, out, err = called(shlex.split(head[0])[1:], tmp_path)
    assert (status, out, err) == (0, "rtl/urng_array.v\n", "")
    assert re.search(expression(head[1]), (tmp_path / "rtl/urng_array.v").read_text())
    are_printed(shown, tmp_path, called)


def test_the_page_of_exports_prints_what_it_shows(tmp_path, monkeypatch, called):
    """From a checkpoint to a bench in plain Verilog."""
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / "checkpoint.py"))
    shutil.copy(ROOT / "examples" / "gemv_tb.v", tmp_path)
    shown = list(transcripts((ROOT / "docs" / "export.md").read_text()))
    assert [script.split()[:2] for script, *_ in shown] == [
        ["seedbed", "compress"], ["seedbed", "export"], ["seedbed", "verilog"],
        ["iverilog", "-g2005"],
    ]  # fmt: skip
    are_printed(shown, tmp_path, called)


@pytest.mark.parametrize(
    ("page", "name"), [("docs/boards.md", "noise"), ("docs/boards/link.md", "link")]
)
def test_a_board_prints_what_its_page_shows(page, name, tmp_path, kept, called):
    """Of the first transcript of ``seedbed board run``, on the virtual board."""
    text = (ROOT / page).read_text()
    [(script, output, varies), *_] = [
        shown for shown in transcripts(text) if shown[0].startswith("seedbed board run")
    ]
    program = virtual.executable(apps.find(name, None, "ulx3s-85f"), name, build=Path(kept))
    with virtual.start(program) as board:
        words = shlex.split(script.splitlines()[0].replace("/dev/pts/0", board.port))
        status, printed, _ = called([*words[1:], "--timeout", "2"], tmp_path)
    assert status == 0
    assert re.fullmatch(expression(output, varies), printed), printed
