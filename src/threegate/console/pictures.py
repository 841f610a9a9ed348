"""Pictures that runs left, decoded in the image-reader sandbox; the last few are kept.

A page and its `<img>` elements are separate requests: without this each starts a sandbox.

SECURITY
    Opens the bytes of a file only to take their digest; the sandbox decodes them.
"""

from collections import OrderedDict
from typing import Final

from threegate.artifacts.ids import sha256_hex
from threegate.base.untrusted import Untrusted
from threegate.host.report.facts import Image
from threegate.host.report.image_view import Viewer
from threegate.host.report.outputs import See
from threegate.policy.bundle import Bundle

MAX_KEPT: Final = 16  # twice what one page shows


class Pictures:
    """Decoded pictures by policy and digest; used in one thread only."""

    def __init__(self) -> None:
        self._kept: OrderedDict[tuple[str, str], Image] = OrderedDict()

    def viewer(self, bundle: Bundle) -> See:
        """Return a function that decodes an image, unless it was decoded under this policy."""
        decode = Viewer(bundle)

        def see(data: Untrusted[bytes]) -> Image | str:
            key = bundle.digest, sha256_hex(data.open_for_validation())
            found = self._kept.pop(key, None) or decode(data)
            if isinstance(found, Image):  # a refusal may be that of a busy machine
                self._kept[key] = found
                while len(self._kept) > MAX_KEPT:
                    self._kept.popitem(last=False)
            return found

        return see
