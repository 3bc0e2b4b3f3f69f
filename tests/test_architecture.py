"""The house rules that no linter knows: layers, imports, what ``__all__`` says, and how long things may get."""

from __future__ import annotations

import ast
import importlib
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = "mastra_py"

# A module may import from a level below, or from its own level as long as no cycle comes of it. A new module gets its
# line here first. The __init__ of a package has no level: it gathers names for users, and nothing inside imports it.
LAYERS: tuple[tuple[str, ...], ...] = (
    # 0: words
    ("errors", "messages", "usage", "_checks", "_loop.budget", "_retry_after"),
    # 1: the contract of scorers; helpers that know nothing of runs
    (
        "scoring",
        "_jsonable",
        "_output",
        "_reply_json",
        "_schema",
        "_schema_walk",
        "_signature",
        "_loop.callbacks",
        "_loop.faults",
        "_loop.ledger",
    ),
    # 2: what happens, and what is done with it
    ("events", "tools", "_loop.accumulate", "_loop.channel", "_loop.host"),
    # 3: the port of model providers; what a run gives; the grammar of its events
    ("models.base", "models.profile", "models.settings", "results", "_grammar"),
    # 4: the port of processors; what the providers' adapters are made of
    (
        "models._anthropic_api",
        "models._anthropic_profiles",
        "models._anthropic_schema",
        "models._anthropic_settings",
        "models._anthropic_turns",
        "models._anthropic_wire",
        "models._clients",
        "models._error_body",
        "models._errors",
        "models._failures",
        "models._history",
        "models._json",
        "models._lessons",
        "models._open_call",
        "models._openai_api",
        "models._openai_chat_wire",
        "models._openai_model",
        "models._openai_profiles",
        "models._openai_schema",
        "models._output_words",
        "models._provider_api",
        "models._provider_model",
        "models._redact",
        "models._reducer",
        "models._reply",
        "models._responses_items",
        "models._responses_output",
        "models._responses_reply",
        "models._responses_wire",
        "models._sendable",
        "models._sse",
        "models._wire_names",
        "models._wire_stream",
        "models._wire_values",
        "models.resolve",
        "processors.base",
        "_loop.stop",
    ),
    # 5: providers, processors, options, and the parts of the loop
    (
        "models.anthropic",
        "models.fallback",
        "models.legacy",
        "models.local",
        "models.openai_chat",
        "models.openai_responses",
        "_read_options",
        "delegation",
        "options",
        "processors._failures",
        "processors.retry",
        "_loop.completion",
        "_loop.feedback",
        "_loop.processing",
        "_loop.step",
        "_loop.tools",
    ),
    # 6: a model step made into a value; the state of a run
    ("_loop.state", "_loop.structured"),
    # 7: the loop; the judge
    ("_loop.run", "scorers.judge"),
    # 8: what users hold: streams and scorers
    (
        "scorers._rubric_prompt",
        "scorers._rubric_reply",
        "scorers.agent_run",
        "scorers.builder",
        "scorers.context",
        "scorers.criteria",
        "scorers.filter_run",
        "scorers.play",
        "scorers.prompt_step",
        "scorers.rubric",
        "_delegates",
        "stream",
    ),
    # 9: agents, and the doubles for testing them
    ("agent", "testing"),
    # 10: what sits above agents
    ("live", "registry", "store.*", "traces", "workflow"),
)

# Imports inside functions: which module may import what late, and why it has to.
LATE_IMPORTS: dict[tuple[str, str], str] = {
    ("models.resolve", "mastra_py.models.*"): "a model string brings in its provider only, and with it that SDK",
    ("models.__init__", "importlib"): "its names come on first use, each with its SDK",
    ("models.*", "openai"): "0.3 s to import",
    ("models.*", "anthropic"): "0.7 s to import",
    ("models._clients", "httpx2"): "comes with the first client, as the SDK does",
    ("models.local", "xllamacpp"): "an extra",
    ("models.local", "importlib"): "the extra is imported by its name",
    ("_signature", "docstring_parser"): "31 ms to import, needed where a tool's docstring describes parameters",
    ("usage", "genai_prices"): "an extra, and 0.3 s to import",
    ("_output", "jsonschema"): "80 ms to import, needed where a type is given as JSON Schema",
    ("_schema", "jsonschema"): "80 ms to import, needed where a type is given as JSON Schema",
    ("_schema", "referencing*"): "part of jsonschema",
}

MAX_LINES_OF_A_FILE = 400
MAX_LINES_OF_A_FUNCTION = 60  # its docstring apart

# What silences a checker; after it a comment has to say why, behind two dashes.
SILENCER = re.compile(r"#\s*(noqa|type:\s*ignore|pyright:\s*ignore|pragma:)")


@dataclass(frozen=True)
class Import:
    """One import: ``target`` is the module it needs, dotted; ``late`` where it is not run with its module."""

    target: str
    line: int
    late: bool


@dataclass(frozen=True)
class Module:
    """A module of the package; its name leaves the package's own out (``models.base``, ``models.__init__``)."""

    name: str
    path: Path
    source: str = field(repr=False)
    tree: ast.Module = field(repr=False)
    imports: list[Import] = field(default_factory=list, repr=False)

    @property
    def dotted(self) -> str:
        return f"{PACKAGE}.{self.name}".removesuffix(".__init__")

    @property
    def is_init(self) -> bool:
        return self.name.rpartition(".")[2] == "__init__"

    @property
    def is_public(self) -> bool:
        return not re.search(r"(^|\.)_(?!_init__$)", self.name)


def read_package() -> dict[str, Module]:
    modules: dict[str, Module] = {}
    for path in sorted((ROOT / PACKAGE).rglob("*.py")):
        name = ".".join(path.relative_to(ROOT / PACKAGE).with_suffix("").parts)
        source = path.read_text(encoding="utf-8")
        modules[name] = Module(name, path, source, ast.parse(source, str(path)))
    for module in modules.values():
        module.imports.extend(imports_of(module.tree, modules))
    return modules


def imports_of(tree: ast.Module, modules: dict[str, Module]) -> Iterator[Import]:
    at_import = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        late = id(node) not in at_import
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, node.lineno, late) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                # `from package import module` needs the module, `from module import name` only the module it names.
                target = f"{node.module}.{alias.name}"
                is_module = target.removeprefix(f"{PACKAGE}.") in modules
                yield Import(target if is_module else str(node.module), node.lineno, late)
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in {"importlib.import_module", "__import__"}:
            yield Import("importlib", node.lineno, late=True)


MODULES = read_package()


def level_of(name: str) -> int | None:
    return next((level for level, names in enumerate(LAYERS) if any(fnmatch(name, known) for known in names)), None)


def inside(target: str) -> str | None:
    """Return the name of the package's module that ``target`` is; ``None`` for a foreign one."""
    if target == PACKAGE:
        return "__init__"
    name = target.removeprefix(f"{PACKAGE}.")
    if name == target:
        return None
    return f"{name}.__init__" if f"{name}.__init__" in MODULES else name


def refuse(wrong: Callable[[Module], Iterator[str]], hint: str = "") -> None:
    """Fail with all that is ``wrong`` in the modules, a line each."""
    found = [f"{module.name}: {each}" for module in MODULES.values() for each in wrong(module)]
    if found:
        pytest.fail("\n".join([*found, hint]), pytrace=False)


def missing_layer(module: Module) -> Iterator[str]:
    if not module.is_init and level_of(module.name) is None:
        yield "is in no layer"


def test_every_module_has_a_layer() -> None:
    refuse(missing_layer, "give each its line in LAYERS")


def upward_imports(module: Module) -> Iterator[str]:
    own = level_of(module.name)
    for each in module.imports:
        target = inside(each.target)
        level = level_of(target) if target else None
        if target is None or each.late:
            continue
        if target.endswith("__init__"):
            yield f"line {each.line} imports {each.target}: import from the module that owns the name"
        elif own is not None and level is not None and level > own:
            yield f"line {each.line} imports {each.target} of level {level} from level {own}"


def test_imports_go_downwards() -> None:
    refuse(upward_imports)


def needed_at_import(module: Module) -> set[str]:
    """Return the modules that run before ``module`` has: what it imports, and the packages these lie in.

    The outermost package is left out, as nothing runs before it.
    """
    needed: set[str] = set()
    for each in module.imports:
        target = inside(each.target)
        if target is None or each.late:
            continue
        needed.add(target)
        parts = target.split(".")
        for depth in range(1, len(parts)):
            package = ".".join(parts[:depth])
            if not module.name.startswith(f"{package}."):  # those of its own packages run already
                needed.add(f"{package}.__init__")
    return needed & set(MODULES)


def test_imports_have_no_cycle() -> None:
    left = {name: needed_at_import(module) for name, module in MODULES.items()}
    while ready := {name for name, needed in left.items() if not needed & set(left)}:
        left = {name: needed for name, needed in left.items() if name not in ready}
    # What is left lies on a cycle or needs one that does. Without the latter only the cycles remain.
    while unused := set(left) - {target for needed in left.values() for target in needed}:
        left = {name: needed for name, needed in left.items() if name not in unused}
    assert sorted(left) == [], "these import each other"


def late_imports(module: Module) -> Iterator[str]:
    for each in module.imports:
        known = any(fnmatch(module.name, where) and fnmatch(each.target, what) for where, what in LATE_IMPORTS)
        if each.late and not known:
            yield f"line {each.line} imports {each.target}"


def test_imports_stand_at_the_top() -> None:
    refuse(late_imports, "put each at the top, or name it in LATE_IMPORTS with the reason")


def type_checking_blocks(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Name | ast.Attribute | ast.alias) and ast.unparse(node).endswith("TYPE_CHECKING"):
            yield f"line {node.lineno}"


def test_nothing_is_imported_for_type_checkers_only() -> None:
    refuse(type_checking_blocks)


def loop_imports(module: Module) -> Iterator[str]:
    for each in module.imports:
        if each.target.partition(".")[0] in {"asyncio", "trio", "sniffio"}:
            yield f"line {each.line} imports {each.target}"


def test_anyio_is_the_only_way_to_an_event_loop() -> None:
    refuse(loop_imports)


def test_importing_the_package_brings_in_no_sdk() -> None:
    heavy = ["openai", "anthropic", "mcp", "xllamacpp"]
    code = f"import sys, {PACKAGE}; print(*[name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [], "")


def exports(module: Module) -> list[str]:
    """Return what the module's ``__all__`` lists; nothing where it has none."""
    if "__all__" not in module.source:
        return []
    return list(importlib.import_module(module.dotted).__all__)


def unlisted_names(module: Module) -> Iterator[str]:
    if module.is_init and module.is_public:
        for node in module.tree.body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == PACKAGE:
                names = {alias.asname or alias.name for alias in node.names}
                yield from sorted(name for name in names - set(exports(module)) if not name.startswith("_"))


def test_a_package_lists_all_names_it_gathers() -> None:
    refuse(unlisted_names, "list each in the __all__ of its package")


def untrue_exports(module: Module) -> Iterator[str]:
    names = exports(module)
    for name in names:
        if not hasattr(importlib.import_module(module.dotted), name):
            yield f"{name} is in __all__ and does not exist"
        if name.startswith("_") and name != "__version__":
            yield f"{name} is in __all__ and private"
        if names.count(name) > 1:
            yield f"{name} is in __all__ more than once"


def test_all_tells_the_truth() -> None:
    refuse(untrue_exports)


def long_files(module: Module) -> Iterator[str]:
    lines = len(module.source.splitlines())
    if lines > MAX_LINES_OF_A_FILE:
        yield f"has {lines} lines"


def test_files_are_short() -> None:
    refuse(long_files, f"{MAX_LINES_OF_A_FILE} are the most")


def long_functions(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        lines = lines_of(node) - (lines_of(node.body[0]) if ast.get_docstring(node) is not None else 0)
        if lines > MAX_LINES_OF_A_FUNCTION:
            yield f"{node.name} has {lines} lines"


def lines_of(node: ast.stmt) -> int:
    return (node.end_lineno or node.lineno) - node.lineno + 1


def test_functions_are_short() -> None:
    refuse(long_functions, f"{MAX_LINES_OF_A_FUNCTION} are the most")


def bare_silencers(module: Module) -> Iterator[str]:
    for token in tokenize.generate_tokens(io.StringIO(module.source).readline):
        if token.type == tokenize.COMMENT and SILENCER.search(token.string) and " -- " not in token.string:
            yield f"line {token.start[0]} {token.string}"


def test_a_checker_is_silenced_with_a_reason_only() -> None:
    refuse(bare_silencers, "write `# noqa: CODE -- why`, `# pyright: ignore[code] -- why`")


def test_tests_patch_nothing() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno} {ast.unparse(node)}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in {"monkeypatch.setattr", "monkeypatch.delattr"}
    ]
    assert found == [], "use mastra_py.testing, or a fake that has the port's methods"
