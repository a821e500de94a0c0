"""Every field of the settings that programs use is explained beside it."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import pytest

from contrailmq.client.access import Credentials
from contrailmq.client.producer.settings import ProducerSettings
from contrailmq.client.settings import ClientSettings, ConsumerSettings, World


@pytest.mark.parametrize(
    "cls", [ClientSettings, ConsumerSettings, Credentials, ProducerSettings, World]
)
def test_every_field_has_a_docstring(cls: type[Any]) -> None:
    """The API reference shows the string after a field; one without is shown bare."""
    body = ast.parse(inspect.getsource(cls)).body[0]
    assert isinstance(body, ast.ClassDef)
    bare = [
        ast.unparse(node.target)
        for node, after in zip(body.body, [*body.body[1:], None], strict=True)
        if isinstance(node, ast.AnnAssign) and not _is_text(after)
    ]
    assert bare == []


def _is_text(node: ast.stmt | None) -> bool:
    return (
        isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    )
