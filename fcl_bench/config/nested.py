"""Groups of settings as plain dicts, nested or by dotted names."""

from typing import Any

from omegaconf import OmegaConf


def plain(value: Any) -> Any:
    """A node as dicts and lists, references as they are written; any other value as it is."""
    return OmegaConf.to_container(value) if OmegaConf.is_config(value) else value


def flattened(settings: dict[str, Any], path: str = "") -> dict[str, Any]:
    """Nested settings by their dotted names.

    >>> flattened({"a": {"b": 1}, "c": [2]})
    {'a.b': 1, 'c': [2]}
    """
    flat: dict[str, Any] = {}
    for key, value in settings.items():
        if isinstance(value, dict):
            flat |= flattened(value, f"{path}{key}.")
        else:
            flat[f"{path}{key}"] = value
    return flat
