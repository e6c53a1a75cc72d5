"""What docstrings tell."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tertulia.tools.function import docstring_parameters, docstring_summary
from tests.tables import each_row

GOOGLE = """Look up the weather
    of a city.

    Not that of a village.

    Args:
        city (str, optional): Its name: as people
            write it.

            Umlauts are welcome.
        *days: How many.
        unit (Callable[[int], (str)]): The unit.

    Returns:
        text: The weather.
    """
NUMPY = """
    Look up the weather of a city.

    Parameters
    ----------
    city : str
        Its name: as people write it.

        Umlauts are welcome.
    days, hours : int, default 3
        How many.
    unit
        The unit.

    Returns
    -------
    str
        The weather.
    """
SPHINX = """Look up the weather of a city.

    :param str city: Its name: as people
        write it. Umlauts are welcome.
    :param days: How many.
    :param unit: The unit.
    :type unit: str
    :returns: The weather.
    """


@each_row("doc", [GOOGLE, NUMPY, SPHINX])
def test_every_style_tells_the_same(doc: str) -> None:
    assert docstring_summary(doc) == "Look up the weather of a city."
    descriptions = docstring_parameters(doc)
    assert descriptions.pop("hours", "How many.") == "How many."
    assert descriptions == {
        "city": "Its name: as people write it. Umlauts are welcome.",
        "days": "How many.",
        "unit": "The unit.",
    }


@each_row("doc", [None, "", "   \n"])
def test_without_a_docstring_nothing_is_told(doc: str | None) -> None:
    assert docstring_summary(doc) == ""
    assert docstring_parameters(doc) == {}


@each_row(
    "doc",
    ["\n    Args:\n        city: Its name.", ":param city: Its name.", "Parameters\n----------\ncity\n    Its name."],
)
def test_a_docstring_may_begin_with_the_parameters(doc: str) -> None:
    assert docstring_summary(doc) == ""
    assert docstring_parameters(doc) == {"city": "Its name."}


def test_text_that_only_looks_like_a_section_is_text() -> None:
    assert docstring_parameters("Parameters\n\nare nice.\n\nArgs: none\n\nParameters") == {}


@given(st.text("Args:Parameters\n -:param x,()*", max_size=200))
def test_any_docstring_can_be_read(doc: str) -> None:
    assert isinstance(docstring_summary(doc), str)
    assert all(name.isidentifier() or name.isalnum() for name in docstring_parameters(doc))
