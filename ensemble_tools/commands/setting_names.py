"""What the container calls its settings: commands judge archives as it does, in its words."""

from __future__ import annotations

from ensemble_tools.serving.setting_names import SettingNames

CONTAINERS_NAMES = SettingNames(
    rewrite="SERVE_REWRITE",
    auto_complete="SERVE_AUTO_COMPLETE",
    pickles="SERVE_PICKLES",
)
