"""What one head can hold: lines of a module and of a function, parameters by position."""

from __future__ import annotations

from testkit.sources import Function, decorators, functions, listing, modules

MODULE_QUESTION = 400
MODULE_FAILURE = 600
FUNCTION_LINES_MAX = 70
POSITIONAL_MAX = 4  # four still read as one phrase: topic, queue, count, size

# Modules beyond the question, and the answer. No entry lasts longer than its reason.
LONG_MODULES: dict[str, str] = {
    "_native/spark/arrow.py": "compiled: the C compiler inlines only within one module",
    "_native/store/log.py": "compiled: the C compiler inlines only within one module",
    "_native/store/queues.py": "compiled: the C compiler inlines only within one module",
    "_native/net/request.py": "compiled: the C compiler inlines only within one module",
}
# Tables of names and numbers are read like a dictionary, not like a story.
TABLES = {"protocol/codes.py", "broker/config/settings.py", "store/settings.py"}
# Functions that are longer, and why cutting them would hurt.
LONG_FUNCTIONS: dict[str, str] = {}
# Calls so frequent that a keyword is felt, and the native code behind them takes positions.
BY_POSITION: dict[str, str] = {
    "net/endpoint.py:FastLane.run": "once per socket read, implemented by compiled code",
    "broker/lanes/send.py:BrokerLane.other": "the same, called by compiled code",
    "net/tls_transport.py:TlsTransport.run": "in the place of a lane, called by compiled code",
}


def test_no_module_is_too_long() -> None:
    wrong = []
    for module in modules():
        lines = module.text.count("\n")
        if module.place in TABLES:
            continue
        if lines > MODULE_FAILURE:
            wrong.append(f"{module.place}: {lines} lines, at most {MODULE_FAILURE}")
        elif lines > MODULE_QUESTION and module.place not in LONG_MODULES:
            wrong.append(f"{module.place}: {lines} lines; split it, or give a reason in here")
    assert not wrong, listing(wrong)


def test_no_exception_outlives_its_reason() -> None:
    lines = {module.place: module.text.count("\n") for module in modules()}
    assert [place for place in LONG_MODULES if lines.get(place, 0) <= MODULE_QUESTION] == []
    long = {f"{place}:{name}" for place, name, count in _functions() if count > FUNCTION_LINES_MAX}
    assert sorted(set(LONG_FUNCTIONS) - long) == []


def test_no_function_is_too_long() -> None:
    wrong = [
        f"{place}:{name}: {count} lines, at most {FUNCTION_LINES_MAX}"
        for place, name, count in _functions()
        if count > FUNCTION_LINES_MAX and f"{place}:{name}" not in LONG_FUNCTIONS
    ]
    assert not wrong, listing(wrong)


def test_few_parameters_by_position() -> None:
    """The native modules are exempt: a C call has no keywords."""
    wrong = []
    for module in modules():
        if module.part == "_native":
            continue
        for name, function, owner in functions(module):
            count = _positional(function)
            if owner is not None and "staticmethod" not in decorators(function):
                count -= 1
            if count > POSITIONAL_MAX and f"{module.place}:{name}" not in BY_POSITION:
                wrong.append(f"{module.place}:{function.lineno}: {name} takes {count} by position")
    assert not wrong, listing(wrong)


def _positional(function: Function) -> int:
    return len(function.args.posonlyargs) + len(function.args.args)


def _functions() -> list[tuple[str, str, int]]:
    return [
        (module.place, name, (function.end_lineno or 0) - function.lineno + 1)
        for module in modules()
        for name, function, _ in functions(module)
    ]
