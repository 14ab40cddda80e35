"""Every environment variable: its name, meaning, default and parser, and what they come to."""

from container.settings.reading import (
    DEFAULT_GRPC_PORT,
    DEFAULT_METRICS_PORT,
    OUR_PREFIXES,
    SETTINGS,
    UNITS,
    Settings,
    UnknownVariable,
    list_changes,
    read_alone,
    read_settings,
    settings_table,
)

__all__ = [
    "DEFAULT_GRPC_PORT",
    "DEFAULT_METRICS_PORT",
    "OUR_PREFIXES",
    "SETTINGS",
    "UNITS",
    "Settings",
    "UnknownVariable",
    "list_changes",
    "read_alone",
    "read_settings",
    "settings_table",
]
