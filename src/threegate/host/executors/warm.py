"""The executors of one `serve`, as its dispatcher asks for them."""

from collections.abc import Callable
from pathlib import Path

from threegate.host.executors.keeping import Keeper, Tell
from threegate.host.executors.lite import LiteExecutor, LiteKind, WarmBoxes
from threegate.host.executors.pool import Pool
from threegate.policy.bundle import Bundle


class Warm:
    """What waits for approved requests, if anything is to wait."""

    def __init__(self, root: Path, size: int, tell: Tell, *, lite: LiteKind | None = None) -> None:
        self.lite_pool: Pool[LiteExecutor] | None = None
        self._keeper = Keeper(root, [(lite or LiteKind(), size)], tell) if size else None
        if self._keeper is not None:
            self.lite_pool = self._keeper.pools[LiteKind.name]

    @property
    def lite(self) -> Callable[[Bundle], WarmBoxes] | None:
        """Where boxes of the lite lane come from; None: they are started for each request."""
        pool = self.lite_pool
        return None if pool is None else lambda bundle: WarmBoxes(pool, bundle)

    def start(self) -> None:
        """Begin."""
        if self._keeper is not None:
            self._keeper.start()

    def close(self) -> None:
        """End everything that waits."""
        if self._keeper is not None:
            self._keeper.close()
