"""Compile the native parts when a wheel is built, so that an installed wheel is complete."""

import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class NativeParts(BuildHookInterface):
    """Needs a C compiler; `make setup` compiles the same parts for an editable install."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and name the kind of machine that the wheel is for."""
        if self.target_name != "wheel" or version == "editable":
            return
        root = Path(self.root)
        sys.path[:0] = [str(root / "src"), str(root / "scripts")]
        import build_native  # of this very checkout

        build_native.main()
        machine = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["pure_python"] = False
        build_data["tag"] = f"py3-none-{machine}"
