"""JSON that is read back."""

import json
from typing import Any

__all__ = ["Content", "content_of"]


class Content(dict[str, Any]):
    """A JSON object; an error names a key that it lacks."""

    def __missing__(self, key: str) -> Any:
        raise ValueError(f"text must have the key {key!r}, as the function that wrote it does.")


def content_of(text: Any, writer: str) -> Content:
    """The JSON object that ``writer`` returned as a text.

    Raises
    ------
    ValueError
        If it is no JSON object.
    """
    try:
        content = json.loads(text, object_hook=Content)
    except (TypeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"text must be JSON as {writer} returns it.") from error
    if not isinstance(content, Content):
        raise ValueError(f"text must be JSON as {writer} returns it.")
    return content
