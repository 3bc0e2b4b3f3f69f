"""From a verdict to the words that go back into the conversation, and the conversation as the model sees it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from mastra_py._jsonable import clean_text
from mastra_py.messages import FeedbackPart, Message
from mastra_py.scoring import ScorerVerdict, Verdict

KeepFeedback = Literal["latest", "all"]

REPLACED = "[Earlier feedback, since replaced by newer feedback.]"
"""Stands in the prompt for older feedback: the prompt does not grow with reasons and roles still alternate."""

NEUTRAL = "The answer could not be checked. Please go over it once more and give it again in full."
"""Said to the agent where a scorer failed and ``on_scorer_error="continue"``: nothing of the failure itself."""


def feedback_text(verdict: Verdict) -> str:
    """Return the feedback on a rejected draft: what is not met and why, what is and must stay, what is asked."""
    lines = ["Your answer was checked and is not accepted yet.", "", "Not met:"]
    lines += [_item(r) for r in verdict.with_status("failed")]
    if met := verdict.with_status("passed"):
        lines += ["", "Already met, keep it so:"]
        lines += [_item(r) for r in met]
    lines += ["", "Give the whole answer again, with what is not met put right and what is met kept."]
    return "\n".join(lines)


def _item(result: ScorerVerdict) -> str:
    reason = (result.reason or "").strip().replace("\n", "\n  ")
    if not reason and result.status == "failed":
        reason = f"not met (score {result.score:g})"
    return f"- {result.scorer_name}: {reason}" if reason else f"- {result.scorer_name}"


def feedback_message(text: str) -> Message:
    """Return ``text`` as a feedback message: user role, and never the user's own words."""
    return Message("user", (FeedbackPart(clean_text(text)),))


def prompt_view(messages: Sequence[Message], keep: KeepFeedback) -> list[Message]:
    """Return the conversation as the model sees it: with ``"latest"`` only the newest feedback in full."""
    if keep == "all":
        return list(messages)
    marks = [i for i, m in enumerate(messages) if m.role == "user" and m.is_feedback]
    view = list(messages)
    for i in marks[:-1]:
        view[i] = feedback_message(REPLACED)
    return view
