"""Typed Python functions as tools: the schema comes from the annotations, the descriptions from the docstring."""

from __future__ import annotations

import functools
import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import takewhile
from types import FunctionType, MethodType, SimpleNamespace
from typing import Annotated, Any, Generic, ParamSpec, TypeVar, cast, overload

import msgspec

from tertulia.errors import InvalidParamsError
from tertulia.lazy_pattern import lazy_pattern
from tertulia.protocol.tool_spec import ToolSpec
from tertulia.protocol.validation_text import explain_validation
from tertulia.schema.python_types import UndescribableTypeError, convert_value, describe_object, describe_type
from tertulia.tools.registry import ToolRegistry
from tertulia.tools.threads import run_in_thread, thread_context
from tertulia.tools.tool import CallContext, Handoff, Outcome, Result, Tool

P = ParamSpec("P")
R = TypeVar("R")


class FunctionTool(Generic[P, R]):
    """A function that a model can call, and Python code as before.

    The answer is the text that it returns; None is the empty text, anything else is written as JSON. A parameter
    annotated `CallContext` gets the context of the call and is not shown to the model. A synchronous function
    runs in a thread of its own. Raises InvalidParams for a function that cannot be described to a model.
    """

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        parallel_safe: bool = False,
        read_only: bool = False,
        retry_safe: bool = False,
    ) -> None:
        self._function: Callable[..., Any] = function
        self._label = _label(function)
        self._arguments, self._contexts = _arguments(function, self._label)
        self.spec = ToolSpec.define(
            name or self._label,
            docstring_summary(function.__doc__) if description is None else description,
            describe_object(self._arguments),
            source="function",
        )
        self.parallel_safe = parallel_safe
        self.read_only = read_only
        self.retry_safe = retry_safe
        functools.update_wrapper(self, function)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self._function(*args, **kwargs)

    def check(self, arguments: Any, call: CallContext) -> None:
        """Refuse arguments that cannot become what the annotations say."""
        self._read(arguments)

    async def run(self, arguments: Any, call: CallContext) -> Outcome:
        """Call the function with converted arguments."""
        converted = self._read(arguments)
        if inspect.iscoroutinefunction(self._function):
            return _outcome(await self._function(**converted, **dict.fromkeys(self._contexts, call)))
        answer = await run_in_thread(self._answer, converted | dict.fromkeys(self._contexts, thread_context(call)))
        return _outcome(await answer) if inspect.isawaitable(answer) else answer

    def _answer(self, converted: Mapping[str, Any]) -> Any:
        value = self._function(**converted)
        # A decorator may have hidden that the function is asynchronous; what it returned is awaited on the loop.
        return value if inspect.isawaitable(value) else _outcome(value)

    def _read(self, arguments: Any) -> dict[str, Any]:
        try:
            return msgspec.structs.asdict(convert_value(arguments, self._arguments))
        except msgspec.ValidationError as error:
            raise InvalidParamsError(explain_validation(error, self._arguments)) from None


@overload
def tool(
    fn: Callable[P, R],
    *,
    name: str | None = None,
    description: str | None = None,
    parallel_safe: bool = False,
    read_only: bool = False,
    retry_safe: bool = False,
) -> FunctionTool[P, R]: ...


@overload
def tool(
    fn: None = None,
    *,
    name: str | None = None,
    description: str | None = None,
    parallel_safe: bool = False,
    read_only: bool = False,
    retry_safe: bool = False,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(fn: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Make a typed function a tool: `@tool`, or `@tool(name=…, description=…, read_only=…, …)`.

    The description is the docstring's first paragraph, those of the parameters come from its `Args:` section.

    Args:
        fn: The function, plain or async, with an annotation for each parameter. A parameter that is annotated as
            `CallContext` is given the context and not shown to the model.
        options: `name` and `description`: in place of the function's own. `parallel_safe`: whether calls of one answer
            may run side by side. `read_only`: whether a call changes nothing anywhere. `retry_safe`: whether a call
            that a crash cut may run again: twice is as good as once.

    Returns:
        The tool, which can still be called as the function; a decorator where only options are given.

    Raises:
        InvalidParamsError: It is no function, or a parameter has no annotation or one that JSON Schema cannot express.
    """
    return functools.partial(FunctionTool[..., Any], **options) if fn is None else FunctionTool(fn, **options)


def as_tool(value: object) -> Tool:
    """A tool as it is, or a plain typed function made into one; InvalidParams for anything else."""
    if isinstance(getattr(value, "spec", None), ToolSpec):
        return cast(Tool, value)
    if callable(value):
        return FunctionTool(value)
    raise InvalidParamsError(f"tools: {value!r:.200} is neither a tool nor a function")


def as_tools(values: object) -> tuple[Tool, ...]:
    """A list of tools and functions as tools; InvalidParams for anything else, ToolConflict for two of one name."""
    if not isinstance(values, list | tuple):
        raise InvalidParamsError(f"tools must be a list of functions, not {type(values).__name__}")
    tools = tuple(map(as_tool, cast("Sequence[object]", values)))
    ToolRegistry(tools)
    return tools


def _label(function: Callable[..., Any]) -> str:
    if not isinstance(function, FunctionType | MethodType):
        raise InvalidParamsError(f"{function!r} is not a function and cannot become a tool")
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidParamsError(f"{function.__name__} is a generator and cannot become a tool; return a list")
    return function.__name__


def _arguments(function: Callable[..., Any], label: str) -> tuple[type[msgspec.Struct], list[str]]:
    """The parameters as a struct that arguments are converted to, and the names of those that take the context."""
    descriptions = docstring_parameters(function.__doc__)
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = []
    contexts: list[str] = []
    for name, parameter in inspect.signature(function).parameters.items():
        where = f"{label}: parameter {name}"
        if parameter.kind not in {parameter.KEYWORD_ONLY, parameter.POSITIONAL_OR_KEYWORD}:
            raise InvalidParamsError(f"{where} is {parameter.kind.description}; a model gives arguments by name")
        annotation = _annotation(function, parameter, where)
        if annotation is CallContext:
            contexts.append(name)
            continue
        described = _described(annotation, descriptions.get(name))
        _check_supported(described, where)
        fields.append((name, described, *_default(parameter)))
    return msgspec.defstruct(label, fields, kw_only=True, forbid_unknown_fields=True), contexts


def _annotation(function: Callable[..., Any], parameter: inspect.Parameter, where: str) -> Any:
    if parameter.annotation is parameter.empty:
        raise InvalidParamsError(f"{where} has no annotation; the schema comes from it")
    # One by one, and without the return type, which may be a name that only type checkers know.
    alone = SimpleNamespace(__annotations__={"it": parameter.annotation})
    names = inspect.unwrap(function).__globals__
    try:
        return typing.get_type_hints(alone, globalns=names, include_extras=True)["it"]
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        name = f" ({error.name} is not known where the function stands)" if isinstance(error, NameError) else ""
        raise InvalidParamsError(f"{where} has an annotation that cannot be read here{name}") from None


def _described(annotation: Any, text: str | None) -> Any:
    own = annotation.__metadata__ if typing.get_origin(annotation) is Annotated else ()
    if text is None or any(isinstance(note, msgspec.Meta) and note.description for note in own):
        return annotation
    return Annotated[annotation, msgspec.Meta(description=text)]


def _check_supported(annotation: Any, where: str) -> None:
    try:
        describe_type(annotation)
    except (UndescribableTypeError, NameError):
        shown = getattr(annotation, "__name__", None) or str(annotation)
        raise InvalidParamsError(
            f"{where} has a type that a model cannot give: {shown:.100}; take what JSON "
            "has (str, int, float, bool, list, dict), a dataclass or a TypedDict of these"
        ) from None


def _default(parameter: inspect.Parameter) -> tuple[()] | tuple[Any]:
    default = parameter.default
    if default is parameter.empty:
        return ()
    if default is None or isinstance(default, str | int | float):
        return (default,)
    # Shared by all calls, as in Python, and not in the schema, because not every default can be written there.
    return (msgspec.field(default_factory=lambda: default),)


def _outcome(value: Any) -> Outcome:
    if isinstance(value, Result | Handoff):
        return value
    return Result(_text(value))


def _text(value: Any) -> str:
    match value:
        case None:
            return ""
        case str():
            return value
        case bytes() | bytearray():
            return value.decode("utf-8", "replace")
        case _:
            pass
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, OverflowError, RecursionError):
        return str(value)


_GOOGLE_SECTION = lazy_pattern(r"(Args|Arguments|Parameters|Params):\s*")
_GOOGLE_ENTRY = lazy_pattern(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:\s*(.*)")
_NUMPY_SECTION = lazy_pattern(r"(Other )?Parameters\s*")
_NUMPY_ENTRY = lazy_pattern(r"(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?()")
_UNDERLINE = lazy_pattern(r"-{3,}\s*")
_SPHINX_ENTRY = lazy_pattern(r":param\s+(?:[^:]*\s)?(\w+)\s*:\s*(.*)")


def docstring_summary(doc: str | None) -> str:
    """The first paragraph, as one line; empty when the docstring begins with its parameters."""
    first = inspect.cleandoc(doc or "").split("\n\n", 1)[0]
    begins_with_parameters = _GOOGLE_SECTION.match(first) or _SPHINX_ENTRY.match(first) or "\n---" in first
    return "" if begins_with_parameters else " ".join(first.split())


def docstring_parameters(doc: str | None) -> dict[str, str]:
    """What is said about each parameter: Google's `Args:`, NumPy's underlined `Parameters`, Sphinx's `:param:`."""
    lines = inspect.cleandoc(doc or "").splitlines()
    entries = {**_entries(lines, _SPHINX_ENTRY)}
    for number, line in enumerate(lines):
        after = lines[number + 1 :]
        if _GOOGLE_SECTION.fullmatch(line):
            body = "\n".join(takewhile(lambda line: not line or line[0].isspace(), after))
            entries.update(_entries(textwrap.dedent(body).splitlines(), _GOOGLE_ENTRY))
        elif _NUMPY_SECTION.fullmatch(line) and after and _UNDERLINE.fullmatch(after[0]):
            entries.update(_entries(_numpy_body(after[1:]), _NUMPY_ENTRY))
    return entries


def _numpy_body(lines: list[str]) -> Iterator[str]:
    for line, following in zip(lines, [*lines[1:], ""], strict=True):
        if _UNDERLINE.fullmatch(following):
            return
        yield line


def _entries(lines: Iterable[str], entry: re.Pattern[str]) -> dict[str, str]:
    """An entry begins at the margin; indented lines go on with it."""
    blocks: list[tuple[list[str], list[str]]] = []
    for line in lines:
        if line[:1].isspace() and blocks:
            blocks[-1][1].append(line)
        elif line:
            match = entry.fullmatch(line)
            blocks.append((re.split(r"\s*,\s*", match[1]), [match[2]]) if match else ([], []))
    return {name: " ".join(" ".join(text).split()) for names, text in blocks for name in names}
