"""What a Python function takes: its parameters with resolved annotations, and what its docstring says about them.

Plain functions, methods, ``functools.partial`` objects, decorated functions and objects with ``__call__`` are read
alike. Whoever asks names the owner ("tool 'add'"), and every error begins with it.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import types
import typing
from collections.abc import Callable
from inspect import Parameter
from typing import Annotated, Any, Union, cast, get_args, get_origin

from mastra_py.errors import UserError

_VARIADIC = {Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD}


class Signature:
    """The parameters of ``function``, apart from those that a partial has already filled.

    Attributes:
        parameters: by name, in order; annotations are resolved where they can be.
        injected: names of the parameters annotated with the type ``inject``, which the caller fills.
        takes_any: whether there is a ``**kwargs``.
        namespace: the names its annotations were resolved in.
    """

    __slots__ = ("_bound", "_owner", "_unresolved", "injected", "namespace", "parameters", "takes_any")

    def __init__(self, function: Callable[..., Any], *, owner: str, inject: type) -> None:
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError) as exc:
            msg = f"{owner}: the signature of {function!r} cannot be read; wrap it in a function of your own"
            raise UserError(msg) from exc
        inner = innermost(function)
        self._owner = owner
        self._bound = _bound_keywords(function)
        self._unresolved: dict[str, str] = {}
        self.namespace: dict[str, Any] = {**getattr(inner, "__globals__", {}), **_enclosing_names(inner)}
        self.parameters: dict[str, Parameter] = {
            p.name: self._resolved(p) for p in signature.parameters.values() if p.name not in self._bound
        }
        self.takes_any = any(p.kind is Parameter.VAR_KEYWORD for p in self.parameters.values())
        self.injected = tuple([p.name for p in self.parameters.values() if _mentions(p.annotation, inject)])

    def _resolved(self, parameter: Parameter) -> Parameter:
        if parameter.annotation is Parameter.empty:
            return parameter
        holder = types.SimpleNamespace(__annotations__={"it": parameter.annotation})
        try:
            found = typing.get_type_hints(holder, self.namespace, include_extras=True)["it"]
        except (NameError, AttributeError, TypeError, SyntaxError) as exc:
            self._unresolved[parameter.name] = str(exc)
            return parameter
        return parameter.replace(annotation=found)

    @property
    def given(self) -> list[Parameter]:
        """The parameters that are not injected."""
        return [p for p in self.parameters.values() if p.name not in self.injected]

    def accepts(self, name: str) -> bool:
        """Whether an argument ``name`` may be given from outside."""
        if name in self._bound or name in self.injected:
            return False
        return self.takes_any or (name in self.parameters and self.parameters[name].kind not in _VARIADIC)

    def check_named(self) -> None:
        """Check that every parameter is given by a name of its own, and has an annotation that says something.

        Raises:
            UserError: it is variadic, positional-only, the ``self`` of an unbound method, or cannot be resolved.
        """
        for parameter in self.parameters.values():
            self._check_kind(parameter)
            if parameter.name in {"self", "cls"} and parameter.annotation is Parameter.empty:
                msg = (
                    f"{self._owner}: parameter {parameter.name!r} shows a method that is bound to no object; "
                    "use the method of an object, e.g. tool(searcher.search)"
                )
                raise UserError(msg)
            if parameter.name in self._unresolved:
                msg = (
                    f"{self._owner}: the annotation of parameter {parameter.name!r} cannot be resolved "
                    f"({self._unresolved[parameter.name]}); define or import its types where they exist at run time"
                )
                raise UserError(msg)

    def _check_kind(self, parameter: Parameter) -> None:
        if parameter.kind in _VARIADIC:
            what = f"{'**' if parameter.kind is Parameter.VAR_KEYWORD else '*'}{parameter.name} has no schema"
        elif parameter.kind is Parameter.POSITIONAL_ONLY:
            what = f"parameter {parameter.name!r} is positional-only"
        else:
            return
        msg = (
            f"{self._owner}: {what}, and a model gives arguments by name; give every parameter a name of its own, or "
            "describe the arguments by a JSON Schema in parameters="
        )
        raise UserError(msg)

    def whole(self, properties: typing.Container[str]) -> str | None:
        """Return the one parameter that is none of ``properties`` and so takes all arguments as a dict, if any."""
        if len(self.given) != 1:
            return None
        (only,) = self.given
        by_name = only.kind in {Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY}
        return only.name if by_name and only.name not in properties and only.default is Parameter.empty else None

    def check_fits(self, schema: dict[str, Any]) -> None:
        """Check that arguments which fit the object ``schema`` can be given as keywords.

        Raises:
            UserError: the schema has a property without a parameter, or leaves out a parameter that needs a value.
        """
        for name in schema["properties"]:
            if not self.accepts(name):
                msg = f"{self._owner}: the schema has a property {name!r}, but the function has no parameter for it"
                raise UserError(msg)
        if any(key in schema for key in ("$ref", "allOf", "anyOf", "oneOf")):  # what they require is not seen here
            return
        for parameter in self.given:
            if parameter.kind in _VARIADIC:
                continue
            self._check_kind(parameter)
            if parameter.default is Parameter.empty and parameter.name not in schema.get("required", ()):
                msg = (
                    f"{self._owner}: parameter {parameter.name!r} of the function has no default, but the schema does "
                    "not require it; add it to required, or give it a default"
                )
                raise UserError(msg)


def read_docstring(function: Callable[..., Any]) -> tuple[str | None, dict[str, str]]:
    """Return what the docstring says about the function, and about each of its parameters.

    Google, numpy and reST styles are read.
    """
    inner = innermost(function)
    doc = inspect.getdoc(inner)
    if doc is None and getattr(inner, "__name__", "") == "__call__":  # an object, documented at its class
        doc = inspect.getdoc(type(function))
    if not doc:
        return None, {}
    if "\n" not in doc and not doc.startswith(":"):
        return doc, {}
    # Imported here: it takes 31 ms, which programs without such docstrings should not pay.
    import docstring_parser

    try:
        parsed = docstring_parser.parse(doc)
    except Exception:  # noqa: BLE001 -- it trips over odd text in ways of its own, and a docstring is only words
        return doc, {}
    described = {p.arg_name: p.description.strip() for p in parsed.params if p.description}
    return (parsed.description or "").strip() or None, described


def innermost(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that a partial, a method, a decorated function or an object with ``__call__`` ends in."""
    current: Any = function
    while True:
        if isinstance(current, functools.partial):
            current = cast("functools.partial[Any]", current).func
        elif inspect.ismethod(current):
            current = current.__func__
        elif hasattr(current, "__wrapped__"):
            current = current.__wrapped__
        elif inspect.isroutine(current) or isinstance(current, type):
            return cast("Callable[..., Any]", current)
        else:
            current = type(current).__call__


def _bound_keywords(function: Callable[..., Any]) -> set[str]:
    bound: set[str] = set()
    current: Any = function
    while isinstance(current, functools.partial):
        partial = cast("functools.partial[Any]", current)
        bound.update(partial.keywords)
        current = partial.func
    return bound


def _enclosing_names(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the local names of the functions round ``function``, as far as these are still running.

    Mostly a function is read right where it is defined, so a type defined beside it can be found in the frames.
    """
    scopes: set[str] = set()
    scope: str = getattr(function, "__qualname__", "")
    while ".<locals>." in scope:
        scope = scope.rpartition(".<locals>.")[0]
        scopes.add(scope)
    found: dict[str, Any] = {}
    frame = inspect.currentframe() if scopes else None
    while frame is not None:
        if frame.f_code.co_qualname in scopes and frame.f_globals is getattr(function, "__globals__", None):
            found = {**frame.f_locals, **found}
        frame = frame.f_back
    if inspect.isfunction(function):
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            with contextlib.suppress(ValueError):  # an empty cell: the name gets its value only later
                found[name] = cell.cell_contents
    return found


def _mentions(annotation: object, wanted: type) -> bool:
    if annotation is wanted:
        return True
    origin = get_origin(annotation)
    if origin is Annotated:
        return _mentions(get_args(annotation)[0], wanted)
    return (origin is Union or origin is types.UnionType) and any(_mentions(a, wanted) for a in get_args(annotation))
