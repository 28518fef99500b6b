"""Two directives that write reference pages from the code: ``commands`` and ``api``."""

import inspect
import re
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

from amaranth.hdl import Elaboratable
from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.parsing import nested_parse_to_nodes
from typer import Context
from typer.cli import get_docs_for_click
from typer.main import get_command

from seedbed.boards.cli.app import command_line
from seedbed.flow.emit.port_docs import FIELD

_FIELD = re.compile(r"\*{0,2}\w+(, \*{0,2}\w+)*( : .+)?")


def command_pages() -> str:
    """Return what typer writes of every command and its options, as Markdown."""
    command = get_command(command_line)
    text = get_docs_for_click(obj=command, ctx=Context(command), name="seedbed")
    # The page has a title of its own, and says what the command is.
    return text[re.search(r"^## ", text, re.MULTILINE).start() :]


def public(package: str) -> list[str]:
    """Return the modules in a package's folders that have public names (``__all__``), in order."""
    root = import_module(package)
    names = [m.name for m in walk_packages(root.__path__, f"{package}.") if not m.ispkg]
    return [name for name in names if getattr(import_module(name), "__all__", None)]


class Commands(SphinxDirective):
    """``commands``: the reference of the command line."""

    def run(self) -> list[nodes.Node]:
        return nested_parse_to_nodes(self.state, command_pages(), allow_section_headings=True)


class Api(SphinxDirective):
    """``api``: every module of a package, with the names in its ``__all__``."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        lines = []
        for module in public(self.arguments[0]):
            short = module.removeprefix("seedbed.")
            lines += [f"## `{short}`", "", "```{eval-rst}", f".. automodule:: {module}"]
            lines += ["   :members:", "```", ""]
        content = StringList(lines, source="api")
        return nested_parse_to_nodes(self.state, content, allow_section_headings=True)


def definitions(lines: list[str]) -> list[str]:
    """Return a docstring with the fields of ports as definition lists."""
    found: list[str] = []
    inside = False
    for line in lines:
        field = FIELD.fullmatch(line)
        if field and not inside:
            found.append("")
        inside = bool(field) or (inside and line.startswith(" " * 8))
        if field:
            name, number_format, text = field.groups()
            found += [f"    {name} : {number_format}" if number_format else f"    {name}"]
            line = f"{' ' * 8}{text}"
        found.append(line)
    return found


def sections(lines: list[str]) -> list[str]:
    """Return a docstring as numpydoc reads it.

    Ports (``Members``) are called attributes. Sentences after the fields of a section would be
    read as further fields: they become notes at the end.
    """
    found: list[str] = []
    notes: list[str] = []
    fields = prose = False
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        if below and set(below) == {"-"}:
            fields, prose = True, False
            line = "Attributes" if line == "Members" else line
        elif set(line) == {"-"}:
            line = "-" * len(found[-1])
        elif fields and line and not line.startswith(" "):
            # A field is a name, or several, with " : " and a type; or has a text below it.
            prose = not (_FIELD.fullmatch(line) or below.startswith(" "))
        (notes if prose else found).append(line)
    return [*found, "", "Notes", "-----", *notes] if notes else found


def tidy(app: Sphinx, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Change a docstring before numpydoc reads it."""
    lines[:] = sections(definitions(lines))


def signature(
    app: Sphinx, what: str, name: str, obj: Any, options: Any, own: str | None, result: str | None
) -> tuple[str, None] | None:
    """Show what a component's own ``__init__`` takes, where Amaranth's base hides it."""
    if what != "class" or not issubclass(obj, Elaboratable):
        return None
    parameters = list(inspect.signature(obj.__init__).parameters.values())[1:]
    plain = [each.replace(annotation=inspect.Parameter.empty) for each in parameters]
    return str(inspect.Signature(plain)), None


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directives."""
    # numpydoc does its part at 500.
    app.connect("autodoc-process-docstring", tidy, priority=400)
    app.connect("autodoc-process-signature", signature)
    app.add_directive("commands", Commands)
    app.add_directive("api", Api)
    return {"parallel_read_safe": True}
