"""Purchase-100: what customers of a shop bought. Arrays: x (600 bits), y (see bits.py)."""

from functools import partial

from workloads.data.bits import read_bits
from workloads.data.dataset import File, Place, Published

URL = "https://github.com/privacytrustlab/datasets/raw/master/dataset_purchase.tgz"

dataset = Published(
    name="purchase-100",
    about="197,324 customers, 600 bits each (products bought), 100 classes",
    licence="none stated by the publisher",
    citation="Shokri, Stronati, Song and Shmatikov: Membership inference attacks, IEEE S&P 2017; "
    "from Kaggle's Acquire Valued Shoppers",
    places=(
        Place("purchase-100/dataset_purchase.tgz"),
        Place("purchase-100/dataset_purchase"),
        Place("dataset_purchase.tgz"),
    ),
    read=partial(read_bits, member="dataset_purchase", rows=197_324, features=600, classes=100),
    files=(File("dataset_purchase.tgz", (URL,)),),
)
