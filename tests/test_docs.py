"""The README and the pages in docs/: their code runs, their tables are complete, their links lead somewhere.

A page is run as one session, from top to bottom: its ``python`` blocks share their names, may ``await`` at the top, and
each ``main`` or ``test_...`` function that a block defines is run after it. A block that prints says what, in lines
that begin with ``# >``.

Model strings such as ``"openai/gpt-5-mini"`` reach a server of this test, which answers ``Hello.``, or one after
another with what a comment right before the block lists, all of which has to be asked for::

    <!-- replies: [Turn(tool_calls=[("1", "weather", {"city": "Oslo"})]), "It rains."] -->

After ``<!-- local model -->`` a block asks the real local model, and what it prints differs from run to run.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import anyio
import pytest
from support.chat_reply import reply_to
from support.http_server import HTTPServer, Reply, Request

from mastra_py import (
    AgentResult,
    AgentRunInput,
    ApiErrorContext,
    Budget,
    Delegation,
    Judge,
    ModelSettings,
    PromptStep,
    RetryMatcher,
    RubricCriterion,
    RunOptions,
    ScorerRun,
    StreamErrorRetryProcessor,
    TaskCompletion,
    Tool,
    ToolContext,
    create_rubric_scorer,
    errors,
    filter_run,
)
from mastra_py.events import AgentEvent, StopReason
from mastra_py.models import ModelProfile
from mastra_py.processors import ProcessorContext
from mastra_py.scoring import JudgeRecord
from mastra_py.testing import Turn, api_error

ROOT = Path(__file__).parent.parent
PAGES = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8")
    for path in [*ROOT.glob("README.md"), *sorted((ROOT / "docs").glob("*.md"))]
}

FENCE = re.compile(
    r"""^(?:<!--\ replies:\ (?P<replies>(?:(?!-->)[\s\S])*?)\ -->\n|(?P<local><!--\ local\ model\ -->\n))?
        ```(?P<language>.*)\n
        (?P<code>[\s\S]*?)
        ^```$""",
    re.MULTILINE | re.VERBOSE,
)
LINK = re.compile(r"\]\((?P<target>[^)#:\s]*)(?:#(?P<anchor>[^)\s]*))?\)")


@dataclasses.dataclass(frozen=True)
class Block:
    """A block of Python on a page, from ``line`` on. ``replies`` are what the model says when it is asked."""

    page: str
    line: int
    code: str
    replies: str | None
    local: bool = False

    @property
    def printed(self) -> list[str]:
        """What the block says it prints."""
        return re.findall(r"^ *# > ?(.*)$", self.code, re.MULTILINE)


def blocks_of(page: str) -> Iterator[Block]:
    text = PAGES[page]
    for fence in FENCE.finditer(text):
        if fence["language"] == "python":
            yield Block(
                page,
                text.count("\n", 0, fence.start("code")) + 1,
                fence["code"],
                fence["replies"],
                bool(fence["local"]),
            )


class Session:
    """One page being run: its names, what it has printed, and what the model is asked and answers."""

    def __init__(self) -> None:
        self.printed = ""
        self.replies: list[str | Turn] | None = None
        self.asked = 0
        self.names: dict[str, Any] = {"__name__": "page", "print": self._print}

    def _print(self, *values: Any, sep: str = " ", end: str = "\n", flush: bool = False) -> None:
        self.printed += sep.join(map(str, values)) + end

    def reply(self, request: Request) -> Reply:
        """Say hello, or what is next in the list."""
        self.asked += 1
        turn = "Hello." if self.replies is None else self.replies[min(self.asked, len(self.replies)) - 1]
        return reply_to(request, turn)

    async def run(self, block: Block) -> None:
        self.printed, self.asked = "", 0
        self.replies = eval(block.replies, {"Turn": Turn, "api_error": api_error}) if block.replies else None  # noqa: S307 -- our own pages
        # The empty lines make line numbers in tracebacks those of the page.
        source, allow_await = "\n" * (block.line - 1) + block.code, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        code = compile(source, ROOT / block.page, "exec", flags=allow_await, dont_inherit=True)
        running = eval(code, self.names)  # noqa: S307 -- our own pages
        if inspect.isawaitable(running):
            await running
        for name in [name for name in self.names if name == "main" or name.startswith("test_")]:
            await self.names.pop(name)()
        if block.local:
            assert self.printed.rstrip()
        else:
            assert [line.rstrip() for line in self.printed.splitlines()] == block.printed
        if self.replies is not None:
            assert self.asked == len(self.replies), "the replies that the page lists are not those that it needs"


@pytest.mark.local_model
@pytest.mark.parametrize("page", PAGES)
async def test_the_code_of_a_page_runs(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    session = Session()
    async with HTTPServer(session.reply) as server:
        monkeypatch.setenv("OPENAI_API_KEY", "a key for the test's own server")
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        for block in blocks_of(page):
            with anyio.fail_after(110 if block.local else 5):
                await session.run(block)


@pytest.mark.parametrize("page", PAGES)
def test_all_code_of_a_page_is_found(page: str) -> None:
    text = PAGES[page]
    fences = list(FENCE.finditer(text))
    assert text.count("```") == 2 * len(fences), "a block is indented or not closed"
    assert {fence["language"] for fence in fences} <= {"python", "console", "text"}, "Python that is not run, or a typo"
    used = [block for block in blocks_of(page) if block.replies is not None]
    assert text.count("<!-- replies") == len(used), "replies that belong to no block"


# --- complete tables


def fields(cls: Any) -> set[str]:
    return {field.name for field in dataclasses.fields(cls)}


def properties(cls: type) -> set[str]:
    return {name for name, value in vars(cls).items() if isinstance(value, property)}


def parameters(function: Any) -> set[str]:
    return set(inspect.signature(function).parameters)


@pytest.mark.parametrize(
    ("page", "heading", "names"),
    [
        ("docs/loop.md", "How a run ends", set(get_args(StopReason))),
        ("docs/loop.md", "Options of a call", set(RunOptions.__annotations__)),
        ("docs/loop.md", "The result", fields(AgentResult) | properties(AgentResult)),
        ("docs/streaming.md", "Events", {event.__name__ for event in get_args(AgentEvent)}),
        ("docs/gate.md", "Options", fields(TaskCompletion)),
        ("docs/gate.md", "What a scorer sees", fields(AgentRunInput)),
        ("docs/scorers.md", "The run", fields(ScorerRun)),
        ("docs/scorers.md", "Giving a scorer less to read", parameters(filter_run)),
        ("docs/rubrics.md", "Criteria", fields(RubricCriterion)),
        ("docs/rubrics.md", "Options", parameters(create_rubric_scorer)),
        ("docs/judges.md", "The judge", fields(Judge)),
        ("docs/judges.md", "The prompt", fields(PromptStep)),
        ("docs/judges.md", "The evidence", fields(JudgeRecord) | properties(JudgeRecord)),
        ("docs/processors.md", "The context", fields(ProcessorContext)),
        ("docs/retries.md", "Options", parameters(StreamErrorRetryProcessor)),
        ("docs/retries.md", "Matchers", fields(RetryMatcher)),
        ("docs/retries.md", "A processor of your own", fields(ApiErrorContext)),
        ("docs/tools.md", "Options", parameters(Tool)),
        ("docs/tools.md", "What a tool may know", fields(ToolContext)),
        ("docs/settings.md", "All of them", fields(ModelSettings)),
        ("docs/compatible_servers.md", "What they may lack", fields(ModelProfile)),
        ("docs/budgets.md", "A budget", fields(Budget)),
        ("docs/supervisors.md", "Delegation", fields(Delegation)),
        ("docs/testing.md", "Turns", fields(Turn)),
    ],
)
def test_a_table_names_all_there_is_and_nothing_else(page: str, heading: str, names: set[str]) -> None:
    _, _, section = PAGES[page].partition(f"\n## {heading}\n")
    rows = re.findall(r"^\| `([^`]+)` \|", re.split(r"^## ", section, flags=re.MULTILINE)[0], re.MULTILINE)
    assert sorted(rows) == sorted(names)


def test_the_tree_of_errors_is_the_one_of_the_module() -> None:
    tree = (errors.__doc__ or "").partition("::")[2]
    shown = next(fence["code"] for fence in FENCE.finditer(PAGES["docs/errors.md"]) if "MastraError" in fence["code"])
    assert shown.split() == tree.split()


# --- links


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_somewhere(page: str) -> None:
    for link in LINK.finditer(FENCE.sub("", PAGES[page])):
        target = (ROOT / page).parent / link["target"] if link["target"] else ROOT / page
        assert target.exists(), link[0]
        if link["anchor"]:
            assert link["anchor"] in anchors(target.read_text(encoding="utf-8")), link[0]


def test_the_map_shows_every_page_and_every_example() -> None:
    shown = {link["target"] for link in LINK.finditer(PAGES["docs/index.md"])}
    pages = {page.removeprefix("docs/") for page in PAGES if page.startswith("docs/")} - {"index.md"}
    examples = {f"../examples/{path.name}" for path in (ROOT / "examples").glob("*.py")}
    assert pages | examples <= shown
