"""Async agents whose answers have been checked.

An agent answers, async scorers judge the answer, and the reason they give goes back into the conversation until the
work is accepted or the steps run out.
"""

from __future__ import annotations

from mastra_py._loop.budget import Budget
from mastra_py._loop.completion import TaskCompletion
from mastra_py._loop.stop import has_tool_call
from mastra_py.agent import Agent
from mastra_py.delegation import (
    Delegation,
    DelegationContext,
    DelegationError,
    DelegationOutcome,
    Proceed,
    Reject,
    Replace,
    Stop,
)
from mastra_py.errors import (
    AuthError,
    BudgetError,
    ContentError,
    ContextLengthError,
    JudgeError,
    MastraError,
    ModelConnectionError,
    ModelError,
    ModelTimeoutError,
    OutputValidationError,
    OverloadedError,
    QuotaError,
    RateLimitError,
    RequestError,
    RunError,
    ScorerError,
    ScorerRunError,
    ServerError,
    StreamError,
    ToolError,
    TripWire,
    UserError,
)
from mastra_py.messages import (
    DataPart,
    FeedbackPart,
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
    dump_messages,
    load_messages,
)
from mastra_py.models.legacy import LegacyModel
from mastra_py.models.settings import ModelSettings
from mastra_py.options import RunOptions
from mastra_py.processors.base import ApiErrorContext, Retry
from mastra_py.processors.retry import RetryMatcher, StreamErrorRetryProcessor
from mastra_py.results import AgentResult, Attempt, StepResult
from mastra_py.scorers.builder import create_scorer
from mastra_py.scorers.criteria import RubricCriterion, parse_rubric
from mastra_py.scorers.filter_run import filter_run
from mastra_py.scorers.judge import Judge
from mastra_py.scorers.prompt_step import PromptStep
from mastra_py.scorers.rubric import create_rubric_scorer
from mastra_py.scoring import (
    AgentRunInput,
    AgentRunOutput,
    CriterionVerdict,
    NotScorable,
    Score,
    Scorer,
    ScorerResult,
    ScorerRun,
    ScorerVerdict,
    Verdict,
    not_scorable,
)
from mastra_py.stream import AgentStream
from mastra_py.tools import Tool, ToolContext, tool
from mastra_py.usage import Cost, Price, RunUsage

__all__ = [
    "Agent",
    "AgentResult",
    "AgentRunInput",
    "AgentRunOutput",
    "AgentStream",
    "ApiErrorContext",
    "Attempt",
    "AuthError",
    "Budget",
    "BudgetError",
    "ContentError",
    "ContextLengthError",
    "Cost",
    "CriterionVerdict",
    "DataPart",
    "Delegation",
    "DelegationContext",
    "DelegationError",
    "DelegationOutcome",
    "FeedbackPart",
    "FilePart",
    "ImagePart",
    "Judge",
    "JudgeError",
    "LegacyModel",
    "MastraError",
    "Message",
    "ModelConnectionError",
    "ModelError",
    "ModelSettings",
    "ModelTimeoutError",
    "NotScorable",
    "OutputValidationError",
    "OverloadedError",
    "Price",
    "Proceed",
    "PromptStep",
    "QuotaError",
    "RateLimitError",
    "ReasoningPart",
    "Reject",
    "Replace",
    "RequestError",
    "Retry",
    "RetryMatcher",
    "RubricCriterion",
    "RunError",
    "RunOptions",
    "RunUsage",
    "Score",
    "Scorer",
    "ScorerError",
    "ScorerResult",
    "ScorerRun",
    "ScorerRunError",
    "ScorerVerdict",
    "ServerError",
    "StepResult",
    "Stop",
    "StreamError",
    "StreamErrorRetryProcessor",
    "TaskCompletion",
    "TextPart",
    "Tool",
    "ToolCallPart",
    "ToolContext",
    "ToolError",
    "ToolResultPart",
    "TripWire",
    "Usage",
    "UserError",
    "Verdict",
    "create_rubric_scorer",
    "create_scorer",
    "dump_messages",
    "filter_run",
    "has_tool_call",
    "load_messages",
    "not_scorable",
    "parse_rubric",
    "tool",
]
