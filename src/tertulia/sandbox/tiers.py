"""Which tiers there are. Adding one is a file beside its siblings and a line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tertulia.sandbox.bubblewrap import Bubblewrap
from tertulia.sandbox.landlocked import Landlocked
from tertulia.sandbox.runner import TierChoice
from tertulia.sandbox.tier import Tier
from tertulia.sandbox.unconfined import Unconfined

_TIERS: Mapping[TierChoice, Callable[[], Tier]] = {"bubblewrap": Bubblewrap, "landlock": Landlocked}


def confining_tier(choice: TierChoice) -> Tier:
    """The tier of that name, as it is on this machine."""
    return _TIERS[choice]()


def unconfined_tier() -> Tier:
    """For `danger_full_access` and nothing else."""
    return Unconfined()
