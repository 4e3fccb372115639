"""`privbench price`: privacy accounting on the command line, by accounting.pricelist."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from harness.cli import output
from harness.cli.options import method_names, workload_names
from workloads.errors import SpecError, UnknownName

if TYPE_CHECKING:
    from harness.accounting.pricelist import Quote
    from methods.base import Method

EXAMPLE = (
    "privbench price dp-sgd --set noise_multiplier=1.1 --set batch_size=256 --set steps=14062 --n-train 60000"
)
METHOD = "method"
"""The command for names that are not mechanisms: they are looked up among the methods."""


class PriceList(TyperGroup):
    """Mechanisms by name; any other name is a method's.

    The classes of click are typed as Any: some versions of typer bring their own.
    """

    def list_commands(self, ctx: Any) -> list[str]:
        """The mechanisms, for the help."""
        return [name for name in super().list_commands(ctx) if name != METHOD]

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """A mechanism; else the command for methods, or a method's mechanism if given its options."""
        name, *rest = args
        if name in self.list_commands(ctx) or name.startswith("-"):
            return super().resolve_command(ctx, args)
        general = self.commands[METHOD]
        special = words_of(rest) - options_of(general)
        unasked = ctx.resilient_parsing or words_of(rest) <= {"--help"}  # completion and help load no method
        method = None if unasked else self.find_method(ctx, name)
        mechanism = self.commands.get(getattr(method, "mechanism", ""))
        fits = mechanism is not None and special and special <= options_of(mechanism)
        return name, mechanism if fits else general, rest

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """The mechanisms and the methods."""
        from click.shell_completion import CompletionItem

        names = [name for name in method_names(incomplete) if name.startswith(incomplete)]
        return [*super().shell_complete(ctx, incomplete), *map(CompletionItem, names)]

    def find_method(self, ctx: Any, name: str) -> "Method":
        """The method called `name`; UnknownName with the mechanisms among the known names."""
        import methods

        try:
            return methods.family.load(name)
        except UnknownName:
            known = [*methods.family.names(), *self.list_commands(ctx)]
            raise UnknownName("method or mechanism", name, known) from None


def words_of(args: list[str]) -> set[str]:
    """The options among the arguments."""
    return {each.partition("=")[0] for each in args if each.startswith("--")}


def options_of(command: Any) -> set[str]:
    """All spellings of a command's options."""
    return {"--help", *(option for each in command.params for option in (*each.opts, *each.secondary_opts))}


price_app = typer.Typer(
    cls=PriceList,
    help="Epsilon of a method or a mechanism by every accountant, without running anything. Give a METHOD "
    "its parameters by --set and --n-train, and get epsilon; or give --target-epsilon, and get the parameter "
    "that is left out. The mechanisms below have options of their own. The headline is the PLD upper bound, "
    "as stored for a trained model.",
    short_help="Price a method or a mechanism by every accountant, without running anything.",
    epilog=f"Example: {EXAMPLE}\n\nMore: docs/accounting.md.",
    subcommand_metavar="METHOD|MECHANISM [OPTIONS]",
    no_args_is_help=True,
)

DeltaOption = Annotated[
    float, typer.Option("--delta", help="The delta of the guarantee; 0 asks for pure DP, if there is one.")
]
TargetOption = Annotated[
    float | None,
    typer.Option("--target-epsilon", help="0.01 to 1000: solve for the option that is left out, to 0.1 %."),
]
FprOption = Annotated[
    list[float] | None,
    typer.Option("--tpr-at-fpr", help="Add the largest TPR of any attack at this FPR; may be repeated."),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON.")]
RecordsOption = Annotated[int, typer.Option("--n", help="Records in the training set.")]
BatchOption = Annotated[int, typer.Option("--batch-size", help="Expected records per batch.")]


@price_app.command(METHOD, epilog=f"Example: {EXAMPLE}")
def method(
    context: typer.Context,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="NAME=VALUE of a parameter; may be repeated. Others are defaults."),
    ] = None,
    n_train: Annotated[
        int | None, typer.Option("--n-train", help="Records in the training set; default: the workload's.")
    ] = None,
    workload: Annotated[
        str | None,
        typer.Option(
            "--workload",
            help="Take its number of records, its recipe and its model's shape.",
            autocompletion=workload_names,
        ),
    ] = None,
    target_epsilon: TargetOption = None,
    delta: Annotated[
        float | None, typer.Option("--delta", help="The delta of the guarantee; default: the method's.")
    ] = None,
    tpr_at_fpr: FprOption = None,
    json: JsonOption = False,
) -> None:
    """Price a method with these parameters, or solve for the one that is left out.

    `privbench show method NAME` lists its parameters.
    Given epsilon and the noise, some methods are solved for their steps.
    """
    from harness.plan.method_price import parse_settings, quote_method

    given = parse_settings(settings or ())
    name = str(context.info_name)
    show(quote_method(name, given, n_train, workload, target_epsilon, delta, tpr_at_fpr or ()), json)


@price_app.command(
    "subsampled-gaussian",
    epilog="Example: privbench price subsampled-gaussian --n 60000 --batch-size 256 --noise 1 --steps 9000",
)
def subsampled_gaussian(
    n: RecordsOption,
    batch_size: BatchOption,
    noise: Annotated[
        float | None, typer.Option("--noise", help="Noise standard deviation over the clipping norm.")
    ] = None,
    steps: Annotated[int | None, typer.Option("--steps", help="Total number of batches.")] = None,
    delta: DeltaOption = 1e-5,
    target_epsilon: TargetOption = None,
    sampling: Annotated[
        Literal["poisson", "fixed"],
        typer.Option(
            help="How batches are drawn: every record independently (add-or-remove-one), or a fresh sample "
            "of fixed size (replace-one)."
        ),
    ] = "poisson",
    tpr_at_fpr: FprOption = None,
    json: JsonOption = False,
) -> None:
    """Price clipped sums of random batches with Gaussian noise. Solves for --noise or --steps."""
    from harness.accounting.pricelist import quote_subsampled

    show(
        quote_subsampled(n, batch_size, noise, steps, delta, target_epsilon, tpr_at_fpr or (), sampling),
        json,
    )


@price_app.command(epilog="Example: privbench price gaussian --noise 2 --count 10")
def gaussian(
    noise: Annotated[
        float | None, typer.Option("--noise", help="Standard deviation over the L2 sensitivity.")
    ] = None,
    count: Annotated[int, typer.Option("--count", help="Uses on the same records.")] = 1,
    delta: DeltaOption = 1e-5,
    target_epsilon: TargetOption = None,
    tpr_at_fpr: FprOption = None,
    json: JsonOption = False,
) -> None:
    """Price the Gaussian mechanism. Solves for --noise."""
    from harness.accounting.pricelist import quote_noise

    show(quote_noise("gaussian", noise, count, delta, target_epsilon, tpr_at_fpr or ()), json)


@price_app.command(epilog="Example: privbench price laplace --noise 10 --delta 0")
def laplace(
    noise: Annotated[
        float | None, typer.Option("--noise", help="Scale over the L1 sensitivity: 1 / epsilon of one use.")
    ] = None,
    count: Annotated[int, typer.Option("--count", help="Uses on the same records.")] = 1,
    delta: DeltaOption = 1e-5,
    target_epsilon: TargetOption = None,
    tpr_at_fpr: FprOption = None,
    json: JsonOption = False,
) -> None:
    """Price the Laplace mechanism. Solves for --noise; --delta 0 gives the pure price."""
    from harness.accounting.pricelist import quote_noise

    show(quote_noise("laplace", noise, count, delta, target_epsilon, tpr_at_fpr or ()), json)


@price_app.command(epilog="Example: privbench price directional --dimension 7850 --kappa 100")
def directional(
    dimension: Annotated[
        int | None,
        typer.Option("--dimension", help="Number of parameters, if the whole gradient is one direction."),
    ] = None,
    rows: Annotated[
        str | None, typer.Option("--rows", help="COUNTxDIMENSION of separate rows, e.g. 12x75,24x300,10x768.")
    ] = None,
    kappa: Annotated[
        float | None, typer.Option("--kappa", help="Concentration: higher means less noise.")
    ] = None,
    uses: Annotated[int, typer.Option("--uses", help="Uses of one record: epochs; with --n, all steps.")] = 1,
    n: Annotated[
        int | None, typer.Option("--n", help="With --batch-size: fresh samples of fixed size from n records.")
    ] = None,
    batch_size: Annotated[int | None, typer.Option("--batch-size", help="Records per sample.")] = None,
    aggregate: Annotated[
        bool, typer.Option("--aggregate", help="One draw for the summed gradient, not one per record.")
    ] = False,
    delta: DeltaOption = 1e-5,
    target_epsilon: TargetOption = None,
    tpr_at_fpr: FprOption = None,
    json: JsonOption = False,
) -> None:
    """Price von Mises-Fisher noise on directions. Solves for --kappa."""
    from harness.accounting.price_inputs import parse_rows
    from harness.accounting.pricelist import quote_directional

    if dimension is not None and rows is not None:
        raise SpecError("--dimension is for one direction, --rows for several: give one of the two")
    if (n is None) != (batch_size is None):
        raise SpecError("--n and --batch-size describe the sampling together: give both or neither")
    found = parse_rows(rows) if rows is not None else {} if dimension is None else {dimension: 1}
    sample = None if n is None or batch_size is None else (n, batch_size)
    show(
        quote_directional(found, kappa, uses, delta, target_epsilon, tpr_at_fpr or (), sample, aggregate),
        json,
    )


@price_app.command("votes", epilog="Example: privbench price votes --noise 40 --queries 1000")
def votes_of_teachers(
    noise: Annotated[
        float, typer.Option("--noise", help="The Laplace scale, or the Gaussian's standard deviation.")
    ],
    aggregator: Annotated[
        Literal["laplace", "gaussian", "confident"], typer.Option(help="How the votes are counted.")
    ] = "gaussian",
    votes: Annotated[
        Path | None, typer.Option("--votes", help="CSV or JSON: one row of counts per query.")
    ] = None,
    counts: Annotated[
        str | None, typer.Option("--counts", help="Counts of one query, e.g. 200,50; see --queries.")
    ] = None,
    classes: Annotated[
        int | None, typer.Option("--classes", help="Pad --counts with zeros to this many labels.")
    ] = None,
    queries: Annotated[
        int | None,
        typer.Option("--queries", help="Number of queries, all with --counts, or with unknown votes."),
    ] = None,
    threshold: Annotated[float, typer.Option("--threshold", help="Threshold of the confident test.")] = 0.0,
    threshold_noise: Annotated[
        float, typer.Option("--threshold-noise", help="Standard deviation in the confident test.")
    ] = 0.0,
    answered: Annotated[
        int | None,
        typer.Option("--answered", help="Confident: how many queries, the first ones, passed the test."),
    ] = None,
    delta: DeltaOption = 1e-5,
    tpr_at_fpr: FprOption = None,
    json: JsonOption = False,
) -> None:
    """Price noisy votes; with --votes also the data-dependent price, which must not be published."""
    from harness.accounting.price_inputs import find_votes
    from harness.accounting.pricelist import quote_votes
    from methods.mechanisms.events import NoisyVotesDpEvent

    rows = find_votes(votes, counts, classes, queries)
    if answered is not None and not 0 <= answered <= len(rows):
        raise SpecError(
            f"--answered must be from 0 to the {len(rows)} queries, got {answered}: give one in that range",
            field="--answered",
            value=answered,
            allowed=(0, len(rows)),
        )
    passed = () if answered is None else tuple(index < answered for index in range(len(rows)))
    event = NoisyVotesDpEvent(rows, aggregator, noise, threshold, threshold_noise, passed)
    show(quote_votes(event, delta, tpr_at_fpr or ()), json)


@price_app.command(
    epilog="Example: privbench price selective --n 50000 --batch-size 1000 --noise 2 --test-batch-size 500 "
    "--test-noise 1 --accepted 100 --attempts 300"
)
def selective(
    n: RecordsOption,
    batch_size: BatchOption,
    noise: Annotated[float, typer.Option("--noise", help="Noise of the proposal, over its clipping norm.")],
    test_batch_size: Annotated[int, typer.Option("--test-batch-size", help="Expected records per test.")],
    test_noise: Annotated[
        float, typer.Option("--test-noise", help="Noise of the test, over the width of its clipping range.")
    ],
    accepted: Annotated[int, typer.Option("--accepted", help="Released updates.")],
    attempts: Annotated[int, typer.Option("--attempts", help="All attempted updates.")],
    beta: Annotated[float, typer.Option("--beta", help="Accept below beta times the clipping range.")] = -1.0,
    extra_noise: Annotated[
        list[float] | None,
        typer.Option("--extra-noise", help="Noise of another Gaussian release; may be repeated."),
    ] = None,
    lower: Annotated[bool, typer.Option(help="Also show the worst-case lower bound.")] = True,
    delta: DeltaOption = 1e-5,
    tpr_at_fpr: FprOption = None,
    json: JsonOption = False,
) -> None:
    """Price releasing accepted updates only, three ways: all attempts (the headline), the paper's charge, a
    worst-case lower bound."""
    from harness.accounting.accountants.selective import Selection
    from harness.accounting.pricelist import quote_selective

    if n < 1:
        raise SpecError(f"--n must be >= 1, got {n}: give the number of training records")
    run = Selection(
        batch_size / n,
        noise,
        test_batch_size / n,
        test_noise,
        accepted,
        attempts,
        beta,
        tuple(extra_noise or ()),
    )
    show(quote_selective(run, delta, tpr_at_fpr or (), lower), json)


@price_app.command(
    epilog="Example: privbench price search --set noise_multiplier=1 --set batch_size=600 --set steps=1000 "
    "--n-train 60000 --mean 10"
)
def search(
    base: Annotated[
        str, typer.Option("--base", help="The method of each training.", autocompletion=method_names)
    ] = "dp-sgd",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="NAME=VALUE of a parameter of the base method; may be repeated."),
    ] = None,
    n_train: Annotated[
        int | None, typer.Option("--n-train", help="Records of a training, without those held out.")
    ] = None,
    mean: Annotated[float, typer.Option("--mean", help="Expected number of trainings.")] = 10.0,
    shape: Annotated[
        float | None,
        typer.Option(
            "--shape", help="Another distribution of their number, between logarithmic and Poisson."
        ),
    ] = None,
    score_noise: Annotated[
        float, typer.Option("--score-noise", help="Noise on the count of correct held-out records.")
    ] = 10.0,
    delta: DeltaOption = 1e-5,
    target_epsilon: TargetOption = None,
    json: JsonOption = False,
) -> None:
    """Price the best of a random number of trainings, for three distributions of their number.

    Give the base method's noise and get epsilon of the search; or give --target-epsilon, and get the noise.
    """
    from harness.plan.method_price import parse_settings
    from harness.plan.search_price import quote_search

    given = parse_settings(settings or ())
    content = quote_search(base, given, n_train, mean, shape, score_noise, delta, target_epsilon)
    if json:
        output.json_out(content)
        return
    shown = {"search": _listed(content["settings"]), "distributions": content["distributions"]}
    output.page(shown | {"assumes": content["assumptions"]}, json=False)


def show(quoted: "Quote", json: bool) -> None:
    """Print a quote as JSON, or as lines and tables."""
    content = quoted.asdict()
    if json:
        output.json_out(content)
        return
    output.page(page(content), json=False)


def page(content: dict[str, Any]) -> dict[str, Any]:
    """A quote for display: the headline, then all accountants, then the assumptions."""
    settings = _listed(content["settings"])
    shown: dict[str, Any] = {content["mechanism"]: settings}
    if content["epsilon"] is None:
        shown["headline"] = "no guarantee at all"
    else:
        shown["headline"] = (
            f"epsilon {content['epsilon']:.4f} at delta {content['delta']:g}, {content['adjacency']} "
            f"({content['headline']})"
        )
        names = content["epsilons"].items()
        shown["epsilons"] = [
            {"accountant": name, "epsilon": f"{value:.4f}", "": REMARKS.get(name, "")}
            for name, value in names
        ]
        for row in shown["epsilons"]:
            row[""] = "headline" if row["accountant"] == content["headline"] else row[""]
    if content["lower_bounds"]:
        shown["lower bounds"] = [
            {"of": name, "epsilon at least": value} for name, value in content["lower_bounds"].items()
        ]
    if content["ceilings"]:
        shown["ceilings"] = [
            {"FPR": row["fpr"], "TPR at most": row["tpr"], "from": row["basis"]}
            for row in content["ceilings"]
        ]
    defaults = {"defaults": _listed(content["defaults"])} if content["defaults"] else {}
    return shown | {"assumes": content["assumptions"], "note": content["notes"]} | defaults


def _listed(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {output.cell(value)}" for name, value in settings.items())


REMARKS = {
    "rdp": "Rényi, improved conversion",
    "rdp_classic": "Rényi, the conversion of older papers",
    "prv": "upper end of its interval",
    "pure": "at delta 0",
    "data_dependent": "private: do not publish",
    "paper": "accepted attempts only: disputed",
}
