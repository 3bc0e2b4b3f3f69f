"""Every exception of the package, as one tree.

::

    MastraError
    ├── UserError                  the API was misused
    └── RunError                   a run could not go on
        ├── ModelError             a provider call failed
        │   ├── ModelConnectionError   the provider could not be reached
        │   ├── ModelTimeoutError      it did not answer in time
        │   ├── RateLimitError         too many requests for now
        │   ├── QuotaError             the account's credit is used up
        │   ├── OverloadedError        the provider has no capacity for now
        │   ├── ServerError            the provider failed inside
        │   ├── StreamError            the reply broke off or could not be read
        │   ├── AuthError              the key is missing, wrong or not allowed
        │   ├── RequestError           the provider rejected the request
        │   ├── ContextLengthError     the conversation does not fit the model
        │   └── ContentError           the provider's content policy refused it
        ├── OutputValidationError  the reply does not fit the wanted output type
        ├── ToolError              raised in a tool: its text is what the model reads
        ├── ScorerError            a scorer could not judge
        │   ├── JudgeError             the judge gave no usable verdict
        │   └── ScorerRunError         a step of a scorer failed
        ├── BudgetError            what a run may spend is used up
        └── TripWire               a processor stopped the run
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

ErrorKind = Literal[
    "connection",
    "timeout",
    "rate_limit",
    "quota",
    "overloaded",
    "server",
    "stream",
    "auth",
    "request",
    "context_length",
    "content",
    "other",
]
"""What kind of failure a :class:`ModelError` is; each kind but ``other`` has a class of its own."""


class MastraError(Exception):
    """Base of everything this package raises on purpose.

    One that ends an agent's run carries what the run had come to: its ``messages``, a valid history to go on from, its
    ``steps``, the scored ``attempts`` and the ``usage``, as on an :class:`~mastra_py.results.AgentResult`.
    """

    messages: tuple[Any, ...] = ()
    steps: tuple[Any, ...] = ()
    attempts: tuple[Any, ...] = ()
    usage: Any = None


class UserError(MastraError):
    """The API was misused; the message names the object and the way out.

    Raised before anything is sent, wherever that can be known: what a function of yours answers is known in the run.
    """


class RunError(MastraError):
    """A run, or a part of one, could not go on.

    ``partial_text`` is the text that had been shown when it failed, ``None`` where there was none.
    """

    partial_text: str | None = None


class ModelError(RunError):
    """A call of a model provider failed.

    Attributes:
        provider: name of the provider, e.g. ``"openai"``.
        model: name of the model.
        status: HTTP status, where there was a response.
        code: the provider's own error code.
        request_id: the provider's id of the request, to give to its support.
        retryable: whether the provider marks the failure as passing; ``None`` where it does not say.
        retry_after: seconds the provider asked to wait.
        headers: response headers, names in lower case.
        body: the decoded error body.
        partial_text: text that had come before the failure.
        learned: what the model object has learned that its model lacks, e.g. ``"the model takes no prefill"``. The
            call is then made again at once in another form, which spends no retry.

    The error of the provider's SDK is the ``__cause__``.
    """

    kind: ClassVar[ErrorKind] = "other"
    default_retryable: ClassVar[bool | None] = None

    def __init__(  # noqa: PLR0913 -- keyword-only facts, each optional
        self,
        message: str = "",
        *,
        provider: str | None = None,
        model: str | None = None,
        status: int | None = None,
        code: str | None = None,
        request_id: str | None = None,
        retryable: bool | None = None,
        retry_after: float | None = None,
        headers: Mapping[str, str] | None = None,
        body: Any = None,
        partial_text: str | None = None,
        learned: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.provider = provider
        self.model = model
        self.status = status
        self.code = code
        self.request_id = request_id
        self.retryable = self.default_retryable if retryable is None else retryable
        self.retry_after = retry_after
        self.headers: dict[str, str] = {k.lower(): v for k, v in headers.items()} if headers else {}
        self.body = body
        self.partial_text = partial_text
        self.learned = learned

    def __str__(self) -> str:
        where = "/".join(p for p in (self.provider, self.model) if p)
        facts = [f"status {self.status}"] if self.status is not None else []
        if self.code and self.code not in self.message:
            facts.append(self.code)
        text = self.message or f"{self.kind.replace('_', ' ')} error"
        text = f"{where}: {text}" if where else text
        return f"{text} ({', '.join(facts)})" if facts else text


class ModelConnectionError(ModelError):
    """The provider could not be reached, or the connection broke before a reply."""

    kind = "connection"
    default_retryable = True


class ModelTimeoutError(ModelError):
    """The provider did not answer within the timeout."""

    kind = "timeout"
    default_retryable = True


class RateLimitError(ModelError):
    """Too many requests for now; waiting helps."""

    kind = "rate_limit"
    default_retryable = True


class QuotaError(ModelError):
    """The account's credit or quota is used up; waiting does not help."""

    kind = "quota"
    default_retryable = False


class OverloadedError(ModelError):
    """The provider has no capacity for now."""

    kind = "overloaded"
    default_retryable = True


class ServerError(ModelError):
    """The provider failed inside."""

    kind = "server"
    default_retryable = True


class StreamError(ModelError):
    """The reply broke off before its end, or could not be read."""

    kind = "stream"
    default_retryable = True


class AuthError(ModelError):
    """The API key is missing, wrong, or not allowed to do this."""

    kind = "auth"
    default_retryable = False


class RequestError(ModelError):
    """The provider rejected the request as invalid."""

    kind = "request"
    default_retryable = False


class ContextLengthError(ModelError):
    """The conversation does not fit into the model's context."""

    kind = "context_length"
    default_retryable = False


class ContentError(ModelError):
    """The provider's content policy refused the request."""

    kind = "content"
    default_retryable = False


class OutputValidationError(RunError):
    """The reply does not validate as the wanted output type, also after the one re-ask. ``text`` is what it was."""

    def __init__(self, message: str = "", *, text: str = "") -> None:
        super().__init__(message)
        self.text = text


class ToolError(RunError):
    """Raise it in a tool to choose what the model reads.

    Any other exception of a tool reaches the model as its class and message.
    """


class ScorerError(RunError):
    """A scorer could not judge. Never taken for a verdict."""


class JudgeError(ScorerError):
    """A judge model gave no usable verdict, also after the one re-ask.

    ``raw_text`` is what it answered last.
    """

    def __init__(self, message: str = "", *, raw_text: str | None = None) -> None:
        super().__init__(message)
        self.raw_text = raw_text


class ScorerRunError(ScorerError):
    """A step of a scorer failed.

    Attributes:
        scorer_id: which scorer.
        failed_step: the step that failed, e.g. ``"generate_score"``.
        completed_steps: the steps that had finished before.
        result: the partial :class:`~mastra_py.scoring.ScorerResult`.

    What went wrong in the step is the ``__cause__``.
    """

    def __init__(
        self,
        message: str = "",
        *,
        scorer_id: str | None = None,
        failed_step: str | None = None,
        completed_steps: tuple[str, ...] = (),
        result: Any = None,
    ) -> None:
        super().__init__(message)
        self.scorer_id = scorer_id
        self.failed_step = failed_step
        self.completed_steps = completed_steps
        self.result = result


class BudgetError(RunError):
    """A request was not sent: what the run may spend is used up. The run ends with ``stop_reason="budget"``.

    ``limit`` is the name of the limit, see :class:`~mastra_py.Budget`.
    """

    def __init__(self, message: str = "", *, limit: str = "") -> None:
        super().__init__(message)
        self.limit = limit


class TripWire(RunError):
    """Raise it in a processor to end the run with ``stop_reason="tripwire"``."""

    def __init__(self, reason: str = "", *, processor_id: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.processor_id = processor_id
