"""Does a test on the second device fail for every device that is forgotten? Some minutes."""

from tests.campaigns.mutations.__main__ import campaign
from tests.second_device.mutations import MUTATIONS

if __name__ == "__main__":
    raise SystemExit(campaign(MUTATIONS))
