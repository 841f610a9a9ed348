"""The executors of one `serve`, as its dispatcher asks for them."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from threegate.host.images.choice import current
from threegate.host.run.heavy.gateway import outward_of
from threegate.host.run.heavy.lane import HeavyLane, Lane
from threegate.host.run.warm.heavy import HeavyExecutor, HeavyKind, opened
from threegate.host.run.warm.keeper import Keeper, Tell
from threegate.host.run.warm.lite import LiteExecutor, LiteKind, WarmBoxes
from threegate.host.run.warm.pool import Pool
from threegate.host.settings import Settings
from threegate.policy.bundle import Bundle

# A snapshot is booted for minutes where it is emulated, and does not age: an image that
# changes is another snapshot.
HEAVY_AGAIN_SECONDS: Final = 600.0
HEAVY_IDLE_SECONDS: Final = 86_400.0


class Warm:
    """What waits for approved requests, if anything is to wait."""

    def __init__(
        self,
        root: Path,
        settings: Settings,
        size: int,
        tell: Tell,
        *,
        lite: LiteKind | None = None,
    ) -> None:
        self._cache = settings.cache_home
        self._image = partial(current, config_home=settings.config_home)
        self._keeper = Keeper(root, tell)
        self._size = size
        self.lite_pool: Pool[LiteExecutor] = self._keeper.pool(lite or LiteKind(), size)
        self._outward = outward_of(root, settings)
        heavy = HeavyKind(self._cache, self._image, self._outward)
        times = {"again_seconds": HEAVY_AGAIN_SECONDS, "idle_seconds": HEAVY_IDLE_SECONDS}
        self._heavy_pool: Pool[HeavyExecutor] = self._keeper.pool(heavy, min(1, size), **times)

    @property
    def lite(self) -> Callable[[Bundle], WarmBoxes] | None:
        """Where boxes of the lite lane come from; None: they are started for each request."""
        return partial(WarmBoxes, self.lite_pool) if self._size else None

    def heavy(self, bundle: Bundle) -> Callable[[], Lane]:
        """Return what opens the heavy lane when the first request for it comes."""
        if self._size:
            return opened(self._heavy_pool, bundle)
        return partial(HeavyLane, bundle, self._cache, self._image, outward=self._outward)

    def start(self) -> None:
        """Begin."""
        if self._size:
            self._keeper.start()

    def close(self) -> None:
        """End everything that waits."""
        self._keeper.close()
