"""The models of a vector in the order they are tried: scripted for a run, and at their places for the reckoning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mastra_py.models import FallbackModel
from mastra_py.models.base import Model, ModelRequest
from mastra_py.testing import FunctionModel
from support.vector_notation import refuse_unknown
from support.vector_retry import UnknownNotationError
from support.vector_turns import scripted_model

Facts = dict[str, Any]


class ScriptedModels:
    """The models that an agent is given; ``on_call`` gets each request, whichever of them it is for."""

    def __init__(self, given: Facts, on_call: Callable[[ModelRequest], None]) -> None:
        self._is_list = "models" in given
        self._models: list[FunctionModel] = [
            scripted_model(turns, id=id, on_call=on_call) for id, turns in _scripts(given).items()
        ]

    @property
    def model(self) -> Model:
        return self._models[0] if len(self._models) == 1 else FallbackModel(*self._models)

    def calls(self) -> Any:
        counts = {model.id: model.calls for model in self._models}
        return counts if self._is_list else sum(counts.values())


class ReckonedModels:
    """The models in a reckoning: which of them is asked, and where its script is.

    ``shown`` says whether anything was shown in this step, ``again`` whether a model was asked again in it.
    """

    def __init__(self, given: Facts) -> None:
        self._is_list = "models" in given
        self._scripts = _scripts(given)
        self._ids = list(self._scripts)
        self._counts = dict.fromkeys(self._ids, 0)
        self._at = 0
        self.switches = 0
        self.shown = False
        self.again = False

    def begin(self) -> None:
        """A step begins, with the first model."""
        self._at = 0
        self.shown = self.again = False

    def ask(self) -> Facts:
        """Return what the model in turn says."""
        id = self._ids[self._at]
        script = self._scripts[id]
        self._counts[id] += 1
        return script[min(self._counts[id], len(script)) - 1]

    @property
    def total(self) -> int:
        return sum(self._counts.values())

    def calls(self) -> Any:
        return dict(self._counts) if self._is_list else self.total

    @property
    def counts_anew(self) -> bool:
        """Whether the processors are asked with a lower count than one that all models share would have."""
        return self._at > 0 and self.again

    def departs_by_d31(self, turn: Facts) -> bool:
        """Return whether the next model is tried where theirs does not try it, or the other way round.

        Theirs tries it after errors before the first chunk, ours unless anything was shown.
        """
        is_early = turn.get("error_at", "before_first_chunk") == "before_first_chunk"
        return self._has_next and is_early == self.shown

    def fall_back(self) -> bool:
        """Go on to the next model where there is one to be tried."""
        if self.shown or not self._has_next:
            return False
        self._at += 1
        self.switches += 1
        return True

    @property
    def _has_next(self) -> bool:
        return self._at + 1 < len(self._ids)


def _scripts(given: Facts) -> dict[str, list[Facts]]:
    if "models" not in given:
        return {"scripted": given["model_turns"]}
    scripts: dict[str, list[Facts]] = {}
    for spec in given["models"]:
        refuse_unknown("a model", spec, ("id", "turns"))
        scripts[spec["id"]] = spec["turns"]
    if not scripts or len(scripts) < len(given["models"]) or "model_turns" in given:
        msg = "a vector has either model_turns, or models with an id each"
        raise UnknownNotationError(msg)
    return scripts
