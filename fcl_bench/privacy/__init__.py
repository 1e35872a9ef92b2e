"""What a server can read of the uploads of clients: the choices of the configuration group ``privacy``."""

from dataclasses import dataclass


@dataclass(frozen=True)
class PlainUploads:
    """Every upload, as it is."""

    name: str
