"""Names and ids of calls as every provider takes them. Pure, and the same text always gives the same name.

Histories hold names that models of other providers made up and ids that only other servers allow; names of tools may
be derived from texts of any kind. What has to change ends in a digest of what it was: distinct texts stay apart.
"""

from __future__ import annotations

import hashlib
import re

NAME_LIMIT = 64
"""So long a tool's name may be, in characters, on every wire."""

_NAME = re.compile(r"[a-zA-Z0-9_-]+")
_UNFIT = re.compile(r"[^a-zA-Z0-9_-]")
_UNFIT_RUN = re.compile(r"[^a-zA-Z0-9_-]+")

_DIGEST = 16
"""Length of a digest: 64 bits, in hex."""

_MAPPED = re.compile(rf"_[0-9a-f]{{{_DIGEST}}}\Z")
"""The end of what was changed here."""


def wire_name(name: str, limit: int = NAME_LIMIT) -> str:
    """Return ``name`` as the name of a tool: 1 to ``limit`` ASCII letters, digits, ``_`` and ``-``.

    A name that is one stays as it is, so naming twice is naming once. ``limit`` is at least 18, which leaves one
    character beside the digest.
    """
    if len(name) <= limit and _NAME.fullmatch(name):
        return name
    stem = _UNFIT_RUN.sub("_", name)[: limit - _DIGEST - 1].strip("_")
    return f"{stem or 'x'}_{_digest(name)}"


def wire_id(call_id: str, limit: int | None = None) -> str:
    """Return ``call_id`` as the id of a call: ASCII letters, digits, ``_`` and ``-``, at most ``limit`` of them.

    An id that looks as if it came from here gets a digest too, or else it could be taken for the id that it looks
    like. So an id must go through here once only, from the one that the conversation holds.
    """
    clean = _UNFIT.sub("_", call_id)
    if clean == call_id and clean and not _MAPPED.search(clean) and (limit is None or len(clean) <= limit):
        return clean
    stem = clean if limit is None else clean[: limit - _DIGEST - 1]
    return f"{stem}_{_digest(call_id)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
