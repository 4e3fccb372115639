"""Results beside the published lines: what was tried where we miss, and what came of it."""

from collections.abc import Sequence
from typing import Any

from harness.report.reading import Row
from tests.docs.reference import table

SETTINGS = """
select {settings}, count(*) as models, avg(test_accuracy) as accuracy, stddev_samp(test_accuracy) as deviation
from runs
where {condition}
group by all
order by all
"""
IMDB = SETTINGS.format(
    settings="""cast(params ->> 'learning_rate' as double) as learning_rate,
        cast(params ->> 'momentum' as double) as momentum, cast(params ->> 'clip' as double) as clip""",
    condition="workload = 'imdb-tfidf-linear' and epsilon_asked = 0.5",
)
ROWS = SETTINGS.format(
    settings="""params ->> 'granularity' as granularity, params ->> 'aggregate_then_vmf' as aggregate,
        params ->> 'row_magnitude' as magnitude, cast(params ->> 'learning_rate' as double) as learning_rate,
        cast(params ->> 'steps' as integer) as steps, cast(params ->> 'kappa' as double) as kappa,
        max(epsilon) as priced_epsilon""",
    condition="workload = 'fmnist-lenet' and method = 'dirdp-sgd'",
)
SEARCHED = """
select workload, method, cast(params ->> 'learning_rate' as double) as learning_rate,
    cast(params ->> 'momentum' as double) as momentum, cast(params ->> 'clip' as double) as clip,
    cast(params ->> 'steps' as integer) as steps, nonmember_accuracy as accuracy_on_non_members
from runs
where seed = 77 and workload in ('fmnist-lenet', 'cifar10-lenet', 'fmnist-mlp', 'cifar10-mlp')
order by workload, method, accuracy_on_non_members desc
"""
PICTURES = """
select attack_params ->> 'optimizer' as optimizer, cast(attack_params ->> 'steps' as integer) as steps,
    cast(attack_params ->> 'tv' as double) as tv, models, images, ssim_mean as ssim,
    ssim_mean_low as low, ssim_mean_high as high, mse_median_normalised as mse
from reconstruction
where workload = 'fmnist-lenet' and method = 'sgd' and attack = 'inverting-gradients'
order by optimizer, steps
"""
TRIED = (
    (
        "**DP-KFC's baseline on IMDb** at epsilon 0.5 is printed as 82.1 %. The paper states a rate of 0.1\n"
        "and neither clip nor momentum; its script has 0.1 and 0.9, and so has the recipe.",
        IMDB,
    ),
    (
        "**DirDP-SGD on Fashion-MNIST with LeNet** is printed as 81.5 % at kappa 1 and 82.9 % at 500. The\n"
        "paper noises every row of a layer. Rows of what belongs to an output (`per_row`) have 25 to 588\n"
        "numbers; rows of kernels (`per_last_axis`) have five, and the same kappa hides far less of them,\n"
        "as the price shows.",
        ROWS,
    ),
    (
        "**DirDP-SGD's baselines**: its appendix with the settings could not be read. By our first recipes,\n"
        "a rate of 0.1 and momentum 0.9 trained no LeNet on CIFAR-10, and 0.5 was far too small for\n"
        "`dp-sgd`: 70 % on Fashion-MNIST at epsilon 0.8, where 81.2 % are printed. One model of each of\n"
        "these (`dp-sgd` at epsilon 1), judged by records outside the training, gave the recipes' rates.",
        SEARCHED,
    ),
    (
        "**Pictures from gradients without privacy**, Fashion-MNIST with LeNet, are printed with an SSIM of\n"
        "0.29. The paper names the attack and not its optimizer: its authors' is Adam, our default L-BFGS.",
        PICTURES,
    ),
)
"""Questions, and the SQL that answers them from the shipped results."""


def trial(text: str, rows: Sequence[Row]) -> str:
    """The results of one question."""
    shown = [tuple(_spell(name, value) for name, value in row.items()) for row in rows]
    return f"{text}\n\n{table(tuple(name.replace('_', ' ') for name in rows[0]), shown)}"


def _spell(name: str, value: Any) -> str:
    if value is None:
        return "-"
    if name.startswith(("accuracy", "deviation")):
        return f"{100 * value:.2f} %"
    return f"{value:.3g}" if isinstance(value, float) else str(value)
