"""Every environment variable, its meaning and its default.

`SETTINGS` is the one table: parsing and that of docs/settings.md both come from it. A setting is
added as one field of UpstreamSettings or OwnSettings.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from container.errors import Mistake, SettingsError
from container.machine.hardware import PLAIN, Hardware
from container.settings.own import OwnSettings
from container.settings.triton_arguments import find_flag
from container.settings.upstream import UpstreamSettings
from container.settings.values import MIB, PortRange, Unfit, pair_flags
from container.settings.variables import Variable, variables_of
from ensemble_tools.setting_names import FORMER_SETTINGS

DEFAULT_GRPC_PORT, DEFAULT_METRICS_PORT = 8001, 8002  # tritonserver's own
#: Stands above the table.
UNITS = "MB in the table are MiB (1024 × 1024 bytes)."
#: Bytes of an instance's region in /dev/shm, as SageMaker's own Triton image has it, if so many of
#: them are there; else Triton's own default.
_REGION, _FEW, _SMALL_REGION = 16 * MIB, 64, MIB
OUR_PREFIXES = ("SERVE_", "SAGEMAKER_TRITON_")


@dataclass(frozen=True)
class UnknownVariable:
    """A variable that looks like ours and is not: a former setting, or a slip of the pen."""

    name: str
    closest: str | None

    def __str__(self) -> str:
        if instead := FORMER_SETTINGS.get(self.name):
            return f"{self.name} is no setting any more: {instead}"
        hint = f"; did you mean {self.closest}?" if self.closest else ""
        return f"{self.name} is not a variable of this container{hint}"


@dataclass(frozen=True)
class Settings(OwnSettings, UpstreamSettings):
    """All that the environment says, checked and with defaults filled in.

    `unknown` is for warnings.
    """

    unknown: tuple[UnknownVariable, ...] = ()


#: As people read them: upstream's first.
SETTINGS: tuple[Variable, ...] = variables_of(Settings)


def read_settings(environment: Mapping[str, str], hardware: Hardware = PLAIN) -> Settings:
    """Reads every variable; an empty one counts as unset, as in upstream's serve script.

    hardware: what defaults depend on. Raises SettingsError with all mistakes at once.
    """
    mistakes: list[Mistake] = []
    read = {row.field: _read(row, environment, mistakes) for row in SETTINGS}
    values = _complete(read, hardware)
    mistakes += _find_unpublishable(values, environment)
    mistakes += _find_port_conflicts(values)
    mistakes += _find_unopened(values)
    if mistakes:
        raise SettingsError(mistakes)
    return Settings(**values, unknown=_find_unknown(environment))


def read_alone(field: str, environment: Mapping[str, str]) -> Any:
    """Read a setting before all are read, which may fail; an unfit one is its default."""
    row = next(row for row in SETTINGS if row.field == field)
    mistakes: list[Mistake] = []
    value = _read(row, environment, mistakes)
    return _read(row, {}, []) if mistakes else value


def list_changes(environment: Mapping[str, str]) -> list[tuple[str, str, str]]:
    """The fields that are set to another value than their default: each with name and value."""
    rows = [(row, _find_set_name(row, environment)) for row in SETTINGS]
    return [
        (row.field, name, environment[name])
        for row, name in rows
        if name is not None and environment[name] != row.default
    ]


def format_settings_table() -> str:
    """The table of docs/settings.md, in Markdown, header included."""
    rows = ["| variable | effect | default |", "|---|---|---|"]
    return "\n".join(rows + [_write_row(row) for row in SETTINGS]) + "\n"


def _write_row(row: Variable) -> str:
    names = ", ".join(f"`{name}`" for name in row.names)
    default = row.shown or (f"`{row.default}`" if row.default else "unset")
    return f"| {names} | {row.meaning} | {default} |"


def _find_set_name(row: Variable, environment: Mapping[str, str]) -> str | None:
    return next((name for name in row.names if environment.get(name)), None)


def _read(row: Variable, environment: Mapping[str, str], mistakes: list[Mistake]) -> Any:
    name = _find_set_name(row, environment)
    raw = environment[name] if name else row.default
    try:
        return row.parser(raw) if raw else None
    except Unfit as error:
        mistakes.append(Mistake(name or row.names[0], error.found or raw, str(error)))
        return None


def _find_unpublishable(
    values: Mapping[str, Any], environment: Mapping[str, str]
) -> Iterator[Mistake]:
    for row in SETTINGS if values["publish_metrics"] else ():
        if row.field.startswith("cloudwatch_") and not _find_set_name(row, environment):
            yield Mistake(row.names[0], "", "a name, since metrics are to be published")


def _find_port_conflicts(values: Mapping[str, Any]) -> Iterator[Mistake]:
    safe: PortRange | None = values["safe_port_range"]
    taken = {values["bind_port"]: "SAGEMAKER_BIND_TO_PORT"}
    for kind in ("grpc", "metrics"):
        name, number = f"SAGEMAKER_TRITON_{kind.upper()}_PORT", values[f"{kind}_port"]
        if number and safe and number not in safe:
            yield Mistake(name, str(number), f"a port in SAGEMAKER_SAFE_PORT_RANGE ({safe})")
        if number and number in taken:
            yield Mistake(name, str(number), f"another port than {taken[number]}")
        taken[number] = name


def _find_unopened(values: Mapping[str, Any]) -> Iterator[Mistake]:
    """Addresses for what listens on no port."""
    given = {find_flag(name) for name, _ in pair_flags(values["additional_args"] or ())}
    for kind in ("grpc", "metrics"):
        if f"{kind}-address" in given and not values[f"allow_{kind}"]:
            needed = f"SAGEMAKER_TRITON_ALLOW_{kind.upper()}=true beside it"
            yield Mistake("SAGEMAKER_TRITON_ADDITIONAL_ARGS", f"--{kind}-address", needed)


def _complete(values: Mapping[str, Any], hardware: Hardware) -> dict[str, Any]:
    """The values whose defaults depend on other values, or on the machine, filled in."""
    free = values["safe_port_range"] is not None
    return {
        **values,
        "ping_mode": values["ping_mode"] or ("live" if values["multi_model"] else "ready"),
        "grpc_port": _fix_port(values, "grpc", DEFAULT_GRPC_PORT, values["allow_grpc"], free),
        "metrics_port": _fix_port(
            values, "metrics", DEFAULT_METRICS_PORT, values["allow_metrics"], free
        ),
        "additional_args": values["additional_args"] or (),
        "shm_default_byte_size": values["shm_default_byte_size"]
        or _choose_region(hardware.shared_memory),
        "metric_dimensions": values["metric_dimensions"] or (),
        "capture_omit": values["capture_omit"] or (),
        "intra_op_threads": (1 if values["multi_model"] else 0)
        if values["intra_op_threads"] is None
        else values["intra_op_threads"],
        "model_environment": values["model_environment"]
        or ("clean" if values["multi_model"] else "all"),
    }


def _choose_region(shared_memory: int | None) -> int:
    is_small = shared_memory is not None and shared_memory < _FEW * _REGION
    return _SMALL_REGION if is_small else _REGION


def _fix_port(
    values: Mapping[str, Any], kind: str, default: int, wanted: bool, free: bool
) -> int | None:
    if not wanted:
        return None
    port: int | None = values[f"{kind}_port"]
    return port or (None if free else default)


def _find_unknown(environment: Mapping[str, str]) -> tuple[UnknownVariable, ...]:
    known = {name for row in SETTINGS for name in row.names}
    ours = sorted(name for name in environment if name.startswith(OUR_PREFIXES))
    return tuple(
        UnknownVariable(name, next(iter(difflib.get_close_matches(name, known, 1, 0.8)), None))
        for name in ours
        if name not in known
    )
