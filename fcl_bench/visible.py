"""Text of strangers on its way to a terminal, a table or a page: nothing in it acts, and nothing hides."""

import re
from typing import Any

_HIDDEN = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters, escape sequences among them
    "\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"  # invisible, or turns the direction
    "\ud800-\udfff\U000e0000-\U000e007f]"
)


def visible(text: str) -> str:
    r"""Characters that a reader would not see, or that a terminal would obey, as escapes.

    >>> visible("a\x1b[2Jb\nc"), visible("Erdős, 30 °C")
    ('a\\x1b[2Jb\\nc', 'Erdős, 30 °C')
    """
    if text.isprintable():
        return text
    return _HIDDEN.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def visible_lines(text: str) -> str:
    r"""As :func:`visible`, for words of ours around those of strangers: ends of lines stay.

    >>> visible_lines("one\n  two\r")
    'one\n  two\\r'
    """
    return "\n".join(map(visible, text.split("\n")))


def visible_content(content: Any) -> Any:
    r"""Some JSON in which every string and every name is visible.

    >>> visible_content({"a\x07": ["b\x07", 1]})
    {'a\\x07': ['b\\x07', 1]}
    """
    if isinstance(content, str):
        return visible(content)
    if isinstance(content, list):
        return [visible_content(value) for value in content]
    if isinstance(content, dict):
        return {visible(name): visible_content(value) for name, value in content.items()}
    return content
