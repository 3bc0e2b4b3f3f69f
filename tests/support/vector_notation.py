"""The notation of the recorded vectors: what is not plain JSON in them, and the refusal of what is not known."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mastra_py.scoring import not_scorable
from support.vector_retry import UnknownNotationError

CONFORMANCE = Path(__file__).parent.parent / "conformance"


NAN = float("nan")
"""The only one, so that lists and dicts that hold it are equal."""


def load_vectors(kind: str) -> list[dict[str, Any]]:
    """Return the vectors of a kind, those of the folder ``extra`` last."""
    files = [CONFORMANCE / f"{kind}.json", CONFORMANCE / "extra" / f"{kind}.json"]
    return [vector for file in files for vector in json.loads(file.read_text(encoding="utf-8"))]


def refuse_unknown(where: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    """Fail, naming them, where ``given`` has keys that the reader does not know."""
    if unknown := sorted(set(given) - set(known)):
        msg = f"{where} has unknown keys: {', '.join(unknown)}"
        raise UnknownNotationError(msg)


def read_value(value: Any) -> Any:
    """Return a recorded value as Python has it."""
    if isinstance(value, list):
        return [read_value(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "$js" not in value:
        return {key: read_value(item) for key, item in value.items()}
    match value["$js"]:
        case "undefined":
            return None
        case "NaN":
            return NAN
        case "Infinity" | "-Infinity" as number:
            return float(number)
        case "bigint":
            return int(value["value"])
        case "not_scorable":
            return not_scorable(value.get("reason"))
        case other:
            msg = f"unknown $js value {other!r}"
            raise UnknownNotationError(msg)
