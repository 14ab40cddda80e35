"""Every environment variable: its name, meaning, default and parser, and what they come to."""

from container.settings.reading import (
    DEFAULT_GRPC_PORT,
    DEFAULT_METRICS_PORT,
    OUR_PREFIXES,
    SETTINGS,
    UNITS,
    Settings,
    UnknownVariable,
    format_settings_table,
    list_changes,
    read_alone,
    read_settings,
)

__all__ = [
    "DEFAULT_GRPC_PORT",
    "DEFAULT_METRICS_PORT",
    "OUR_PREFIXES",
    "SETTINGS",
    "UNITS",
    "Settings",
    "UnknownVariable",
    "format_settings_table",
    "list_changes",
    "read_alone",
    "read_settings",
]
