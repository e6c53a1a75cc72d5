"""The application of a widget, with its type, which Textual does not give."""

from __future__ import annotations

from typing import cast

from textual.app import App
from textual.widget import Widget


def app_of(widget: Widget) -> App[object]:
    """The application that shows this widget."""
    return cast("App[object]", widget.app)
