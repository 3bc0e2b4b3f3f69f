"""Taking secrets out of what is shown: texts, headers, bodies, URLs. Pure.

Two kinds of secrets are known: the very ones that a request carried, which are replaced wherever they stand and however
they are written, and what looks like one, such as ``Bearer ...``, ``sk-...`` or the value of an ``api_key``.
"""

from __future__ import annotations

import base64
import binascii
import html
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, cast
from urllib.parse import parse_qsl, quote, quote_plus, unquote, urlsplit

REDACTED = "[redacted]"

_SHORT = 8  # characters; a shorter secret is replaced only where it stands alone: it may be a word as well
_SHORTEST = 4  # and one that is shorter still is none
_NO_SECRETS = frozenset(
    {"none", "no-key", "local", "dummy", "test", "empty", "ollama", "lm-studio", "sk-no-key-required"}
)
_OURS = frozenset({"provider", "model"})  # attributes of errors that hold what we call things ourselves
_DEEPEST = 100  # levels of a body; whatever lies deeper is left out
_LONGEST = 256 * 1024  # characters of a text or a body; what follows is cut off

_SECRET_NAME = re.compile(
    r"(?:^|[-_])(?:auth|authorization|authentication|cookie2?|credentials?|pass|passwd|password|secret|session|sig"
    r"|signature|token|jwt|key)(?:$|[-_](?:id|value)$)"
    r"|(?:api|access|private|secret|client|auth|id)(?:key|token|secret)$",
    re.IGNORECASE,
)
"""Names of headers, of query parameters and of keys of a body whose value is a secret."""

_PLAIN_NAMES = frozenset({"idempotency-key", "key", "pass", "token", "session", "signature"})
"""Names that are plain words within a body, where their value is a secret only if it looks like one."""

_VALUE = r"[^\s\"'\\,;&<>]"
_RICH = rf"(?={_VALUE}{{0,512}}\d|{_VALUE}{{20}})"  # a secret has a digit, or is long: "Bearer authentication" is none

_LOOKS_SECRET: tuple[tuple[tuple[str, ...], re.Pattern[str], str], ...] = (
    # https://user:password@host
    (("://",), re.compile(r"(?<=://)[^/\s@\"'<>]{1,512}@"), f"{REDACTED}@"),
    # An authorization, its scheme kept.
    (
        ("bearer", "basic", "digest", "token", "apikey"),
        re.compile(rf"\b((?:Bearer|Basic|Digest|Token|ApiKey)\s+){_RICH}{_VALUE}{{8,}}", re.IGNORECASE),
        rf"\1{REDACTED}",
    ),
    # Keys of providers, also those that they have masked with asterisks themselves.
    (("sk-",), re.compile(r"(?<![\w-])sk-[\w*.-]{8,}"), REDACTED),
    (
        ("-", "_", "aiza", "akia", "asia", "eyj"),
        re.compile(
            r"(?<![\w-])(?:rk|pk|gsk|xai|hf|nvapi|csk|pplx|r8|sess|glpat)[-_](?=[\w*.-]{0,512}[\d*])[\w*.-]{8,}"
            r"|(?<![\w-])(?:AIza[\w-]{30,}|(?:AKIA|ASIA)[A-Z0-9]{16}|(?:gh[pousr]|github_pat)_\w{20,})"
            r"|(?<![\w-])eyJ[\w-]{8,}\.[\w-]{4,}(?:\.[\w-]*)?"
        ),
        REDACTED,
    ),
    # name: value, name=value and "name": "value", also with the quotes escaped.
    (
        ("key", "token", "secret", "passw", "authorization"),
        re.compile(
            r"((?<![\w-])(?:[\w-]{0,64}(?:api|access|auth|secret|private|client|security|id)[-_]?(?:key|token|secret)"
            r"|password|passwd|(?:proxy-)?authorization)"
            rf"[\"'\\]{{0,4}}\s{{0,4}}[:=]\s{{0,4}}[\"'\\]{{0,4}}){_RICH}{_VALUE}{{8,}}",
            re.IGNORECASE,
        ),
        rf"\1{REDACTED}",
    ),
    (
        ("?", "&"),
        re.compile(rf"([?&](?:key|token|sig|signature|auth|secret)=){_VALUE}{{8,}}", re.IGNORECASE),
        rf"\1{REDACTED}",
    ),
    (
        ("cookie",),
        re.compile(
            r"((?<![\w-])(?:set-)?cookie[\"'\\]{0,4}\s{0,4}[:=]\s{0,4}[\"'\\]{0,4})(?=[^\s=]{1,256}=)[^\r\n\"'\\]+",
            re.IGNORECASE,
        ),
        rf"\1{REDACTED}",
    ),
)
"""What looks like a secret, after the words of which one is in it, and what stands in its place."""


class Redactor:
    """Replaces the secrets of one request, and what looks like a secret."""

    __slots__ = ("_known", "_left", "_secrets")

    def __init__(self, secrets: Iterable[str] = ()) -> None:
        self._left = 0  # how many characters of a body may still come
        self._secrets = sorted(
            {s for s in map(str.strip, secrets) if len(s) >= _SHORTEST and s.lower() not in _NO_SECRETS},
            key=len,
            reverse=True,
        )
        patterns = [_pattern(form) for secret in self._secrets for form in _forms(secret)]
        self._known = re.compile("|".join(patterns)) if patterns else None

    def text(self, text: str) -> str:
        """Return ``text`` without secrets, cut off where it is very long."""
        text = text[:_LONGEST]
        if self._known is not None:
            text = self._cut_tail(self._known.sub(REDACTED, text))
        lower = text.lower()
        for words, pattern, replacement in _LOOKS_SECRET:
            if any(word in lower for word in words):
                text = pattern.sub(replacement, text)
        return text

    def headers(self, headers: Mapping[str, str]) -> dict[str, str]:
        """Return ``headers`` with the values of those replaced that hold secrets."""
        return {name: REDACTED if is_secret_name(name) else self.text(value) for name, value in headers.items()}

    def value(self, value: Any, level: int = 0) -> Any:
        """Return a JSON value without secrets, also where one stands in a key."""
        if level == 0:
            self._left = _LONGEST
        if isinstance(value, str):
            if self._left <= 0:
                return "[left out: too long]"
            self._left -= len(value)
            return self.text(value)
        if not isinstance(value, Mapping | list | tuple):
            return value
        if level >= _DEEPEST:
            return "[left out: nested too deeply]"
        if isinstance(value, Mapping):
            fields = cast("Mapping[object, object]", value)
            return {self.value(name, level + 1): self._field(name, item, level) for name, item in fields.items()}
        return [self.value(item, level + 1) for item in cast("list[object]", value)]

    def _field(self, name: object, value: object, level: int) -> Any:
        if isinstance(value, str) and isinstance(name, str) and value:
            plain = name.lower() in _PLAIN_NAMES
            return REDACTED if is_secret_name(name) and not plain else self.value(value, level + 1)
        return self.value(value, level + 1)

    def _cut_tail(self, text: str) -> str:
        # A text that was cut off may end within a secret.
        for secret in self._secrets:
            if len(secret) < _SHORT:
                break
            for size in range(min(len(secret) - 1, len(text)), _SHORT - 1, -1):
                if text.endswith(secret[:size]):
                    return text[:-size] + REDACTED
        return text


def is_secret_name(name: str) -> bool:
    """Whether a header, query parameter or key of this name holds a secret."""
    return _SECRET_NAME.search(name) is not None


def secrets_of(headers: Mapping[str, str], url: str = "") -> set[str]:
    """Return the secrets that a request carries in its headers and its URL, as they are and in their parts."""
    found: set[str] = set()
    for name, value in headers.items():
        if is_secret_name(name):
            found |= _parts(value, is_cookie="cookie" in name.lower())
    try:
        parts = urlsplit(url)
        userinfo = parts.netloc.rpartition("@")[0]
    except ValueError:
        return found
    if userinfo:
        name, _, password = userinfo.partition(":")
        found |= {userinfo, password or name, unquote(password or name)}
    found |= {value for name, value in parse_qsl(parts.query) if is_secret_name(name)}
    return found


def redact_url(url: str) -> str:
    """Return ``url`` without user name, password and query, each of which may hold a secret."""
    try:
        parts = urlsplit(url)
        netloc = parts.netloc.rpartition("@")[2]
    except ValueError:
        return Redactor().text(url)
    return parts._replace(netloc=netloc, query="", fragment="").geturl()


def secrets_in(exc: BaseException) -> set[str]:
    """Return the secrets of the requests that ``exc`` and what led to it hold."""
    found: set[str] = set()
    for each in chain_of(exc):
        for value in vars(each).values():
            if _is_message(value):
                request = getattr(value, "_request", None) if hasattr(value, "status_code") else value
                if request is not None:
                    found |= secrets_of(request.headers, str(request.url))
    return found


def clean_exception(exc: BaseException, redactor: Redactor) -> None:
    """Take the secrets out of ``exc`` and of what led to it, in place: they keep their type and their place."""
    for each in chain_of(exc):
        each.args = tuple(redactor.value(arg) if isinstance(arg, str | dict | list) else arg for arg in each.args)
        for name, value in list(vars(each).items()):
            if name in _OURS:
                continue
            if isinstance(value, str | dict | list):
                vars(each)[name] = redactor.value(value)
            elif _is_message(value):
                vars(each)[name] = _clean_message(value, redactor)


def chain_of(exc: BaseException) -> list[BaseException]:
    """Return ``exc``, and each exception that it came from or gathers."""
    found: list[BaseException] = []
    waiting: list[BaseException | None] = [exc]
    while waiting:
        each = waiting.pop()
        if each is None or any(each is known for known in found):
            continue
        found.append(each)
        waiting += [each.__cause__, each.__context__]
        if isinstance(each, BaseExceptionGroup):
            waiting += cast("tuple[BaseException, ...]", each.exceptions)
    return found


def _is_message(value: object) -> bool:
    # The requests and responses of every HTTP library that stands under an SDK.
    return (
        hasattr(value, "headers")
        and hasattr(value, "extensions")
        and (hasattr(value, "status_code") or hasattr(value, "method"))
    )


def _clean_message(message: Any, redactor: Redactor) -> Any:
    headers = redactor.headers(message.headers)
    for name in ("content-encoding", "content-length", "transfer-encoding"):
        headers.pop(name, None)
    if not hasattr(message, "status_code"):
        return type(message)(message.method, redactor.text(str(message.url)), headers=headers)
    content: bytes = getattr(message, "_content", b"")  # absent as long as the body is not read
    request = getattr(message, "_request", None)
    return type(message)(
        message.status_code,
        headers=headers,
        content=redactor.text(content[:_LONGEST].decode("utf-8", "replace")).encode(),
        request=None if request is None else _clean_message(request, redactor),
    )


def _parts(value: str, *, is_cookie: bool) -> set[str]:
    if is_cookie:
        pairs = (pair.partition("=")[2] for pair in value.split(";"))
        return {value, *(text for text in map(str.strip, pairs) if len(text) >= _SHORT)}
    scheme, _, token = value.strip().partition(" ")
    if not token:
        return {value}
    found = {value, token.strip()}
    if scheme.lower() == "basic":
        try:
            userinfo = base64.b64decode(token, validate=True).decode()
        except (binascii.Error, ValueError):
            return found
        found |= {userinfo, userinfo.partition(":")[2] or userinfo}
    return found


def _forms(secret: str) -> set[str]:
    """Return the ways in which a secret is written: as it is, within JSON, a URL, HTML and ``repr``."""
    escaped = json.dumps(secret)[1:-1]
    return {
        secret,
        escaped,
        json.dumps(escaped)[1:-1],
        repr(secret)[1:-1],
        quote(secret, safe=""),
        quote_plus(secret),
        html.escape(secret),
    }


def _pattern(secret: str) -> str:
    words = re.escape(secret)
    return words if len(secret) >= _SHORT else rf"(?<![\w-]){words}(?![\w-])"
