"""Location-30: places that users of a social network checked in at. Arrays: x (446 bits), y (see bits.py)."""

from functools import partial

from workloads.data.bits import read_bits
from workloads.data.dataset import File, Place, Published

URL = "https://github.com/privacytrustlab/datasets/raw/master/dataset_location.tgz"

dataset = Published(
    name="location-30",
    about="5,010 users, 446 bits each (places visited in Bangkok), 30 classes",
    licence="none stated by the publisher",
    citation="Shokri, Stronati, Song and Shmatikov: Membership inference attacks, IEEE S&P 2017; "
    "from check-ins by Yang, Zhang and Qu, 2016",
    places=(
        Place("location-30/dataset_location.tgz"),
        Place("location-30/bangkok"),
        Place("dataset_location.tgz"),
    ),
    read=partial(read_bits, member="bangkok", rows=5_010, features=446, classes=30),
    files=(File("dataset_location.tgz", (URL,)),),
    sha256="a16d07b43d8a57cca699a45f188c78803a30c913cd68ecb95ebe6556eef2dd83",
)
