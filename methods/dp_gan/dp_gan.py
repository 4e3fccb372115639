"""dp-gan: a GAN whose discriminator is trained by DP-SGD, and a classifier trained on generated examples."""

import logging
from typing import Annotated, ClassVar

import torch
from dp_accounting import DpEvent
from pydantic import Field, model_validator
from torch import Tensor, nn, optim
from torch.nn.functional import softplus

from methods.base import Count, Fraction, Problem, Rate, Released, Run
from methods.dp_gan.generator import BETAS, Forger, Generator
from methods.gradients import Loss, make_engine
from methods.gradients.params import ClippingParams
from methods.gradients.tally import Tally
from methods.mechanisms.gaussian import GaussianParams, make_noise, resolved_noise
from methods.search import Fixed, Search
from methods.training.descent import Descent, DescentParams
from methods.training.sampling import poisson_event, poisson_rate
from workloads.base import Records
from workloads.errors import SpecError

log = logging.getLogger(__name__)


class DpGanParams(ClippingParams, DescentParams, GaussianParams):
    """Parameters of dp-gan. Give epsilon or noise_multiplier; a planned task has both.

    Learning rate, optimizer, momentum, weight decay and schedule are those of the classifier.
    """

    steps: Annotated[Count, Search(4, 100, unit="epochs", axis=2)] = Field(
        default=1000, description="Steps of the discriminator, which cost privacy."
    )
    batch_size: Annotated[Count, Search(1 / 16, 1, unit="rate", axis=1)] = Field(
        default=64, description="Expected members, and generated examples, per step of the discriminator."
    )
    learning_rate: Annotated[Rate, Fixed()] = Field(default=0.1, description="Learning rate.")
    momentum: Annotated[Fraction, Fixed()] = Field(default=0.0, description="Momentum of optimizer 'sgd'.")
    discriminator_rate: Annotated[Rate, Search(5e-4, 2e-2, axis=0)] = Field(
        default=2e-4, description="Learning rate of the discriminator (Adam)."
    )
    generator_rate: Annotated[Rate, Search(2e-4, 1e-2)] = Field(
        default=2e-4, description="Learning rate of the generator (Adam)."
    )
    generator_every: Annotated[Count, Search(choices=(1, 2, 3))] = Field(
        default=3, description="Steps of the discriminator per step of the generator."
    )
    latent: Annotated[Count, Fixed()] = Field(default=64, description="Dimension of the generator's input.")
    width: Annotated[Count, Fixed()] = Field(
        default=256, description="Units in each hidden layer of the generator."
    )
    low: Annotated[float, Fixed()] = Field(
        default=0.0, description="Minimum of a feature; public, not read from members."
    )
    high: Annotated[float, Fixed()] = Field(default=1.0, description="Maximum of a feature; public.")
    samples: Annotated[Count, Fixed()] = Field(
        default=5000, description="Generated examples to train the classifier on."
    )
    classifier_steps: Annotated[Count, Fixed()] = Field(
        default=500, description="Training steps of the classifier."
    )
    classifier_batch_size: Annotated[Count, Fixed()] = Field(
        default=64, description="Generated examples per step of the classifier."
    )

    @model_validator(mode="after")
    def _features_have_a_range(self) -> "DpGanParams":
        if not -torch.inf < self.low < self.high < torch.inf:
            raise ValueError(f"give finite low < high, got low = {self.low} and high = {self.high}")
        return self


class DpGan:
    """A conditional GAN with a DP-SGD discriminator (Xie et al. 2018; Torkzadehmahani et al. 2019).

    The discriminator is the workload's model: its output for label y separates real examples of y from
    generated ones. Only its steps read members. Generator and classifier are post-processing.
    """

    version: ClassVar[str] = "3"
    about: ClassVar[str] = "DP-GAN: a classifier trained on examples of a DP-SGD-trained GAN"
    source: ClassVar[str] = (
        "Xie et al. 2018, Differentially Private Generative Adversarial Network (arXiv:1802.06739); "
        "Torkzadehmahani, Kairouz and Paten 2019, DP-CGAN (CVPR workshops)"
    )
    guarantee: ClassVar[str] = "approximate-dp"
    caveats: ClassVar[tuple[str, ...]] = (
        "accuracy and leakage are those of the released model, a classifier trained on generated examples; "
        "the generator may be released at the same epsilon",
        "add-or-remove adjacency; the whole sequence of noisy sums counts as released",
        "labels of generated examples are uniform: the label frequencies of members are not used",
        "features are assumed to lie between low and high, which must be known without reading members",
        "seeded random generators are not cryptographic; with secure = true the noise comes from one that "
        "is, and the run is not reproducible",
        "clipped_share and the other stats are computed from the data and not covered by the guarantee",
    )
    Params: ClassVar[type[DpGanParams]] = DpGanParams
    per_example: ClassVar[bool] = True
    free: ClassVar[str] = "noise_multiplier"
    repeatable: ClassVar[bool] = True

    def planned(self, params: DpGanParams, n_train: int) -> DpEvent:
        """The ledger of `train` on `n_train` members: that of DP-SGD."""
        rate = poisson_rate(n_train, params.batch_size)
        return poisson_event(rate, resolved_noise(params), params.steps)

    def detached(self, params: DpGanParams) -> str | None:
        """The discriminator is not released."""
        return "only the discriminator reads records, and a classifier trained on generated ones is released"

    def train(self, members: Records, problem: Problem, params: DpGanParams, run: Run) -> Released:
        """Train discriminator and generator, then release a classifier trained on generated examples."""
        members = members.to(run.device)
        discriminator = problem.model(run.seed("init-discriminator")).to(run.device).train()
        generator = make_generator(members, problem, params, run)
        forger = Forger(generator, discriminator, params.generator_rate, run)
        loss = discriminator_loss(problem.classes)
        engine = make_engine(discriminator, loss, params.engine, params.clipping, params.physical_batch_size)
        log.info("gradients by engine '%s' (%s)", engine.name, engine.why)
        sampler = run.sampler("poisson", members, params.batch_size)
        noise = make_noise(run, engine.weights, params, params.secure, sampler)
        optimizer = optim.Adam(engine.weights, lr=params.discriminator_rate, betas=BETAS)
        tally = Tally()
        state = {"discriminator": discriminator, "optimizer": optimizer, "forger": forger}
        state |= {"sampler": sampler, "tally": tally}
        # The expected batch size: the realised one is private.
        divisor = run.public("divisor", params.batch_size)

        for step in run.steps("game", params.steps, state):
            batch = sampler.draw()
            with run.clock("generator"):
                forged = forger.forge(divisor)
            with run.clock("noise"):
                means = noise.start(engine.weights, divisor)
            with run.clock("gradients"):
                clipped = engine.clipped_sum(batch.x, batch.y, params.clip, means, 1 / divisor)
                # Not private, and clipped only so that neither side outweighs the other.
                engine.clipped_sum(forged.x, forged.y + problem.classes, params.clip, means, 1 / divisor)
            with run.clock("noise"):
                noise.finish(means, divisor)
            with run.clock("update"):
                for weight, mean in zip(engine.weights, means, strict=True):
                    weight.grad = mean
                optimizer.step()
            if (step + 1) % params.generator_every == 0:
                with run.clock("generator"):
                    forger.learn(discriminator, loss, divisor)
            tally.add(clipped)
            run.observe(loss=clipped.mean_loss())

        engine.release()
        predictor = classify(generator, problem, params, run)
        return Released(predictor, run.ledger(), tally.stats(params.steps))


def make_generator(members: Records, problem: Problem, params: DpGanParams, run: Run) -> Generator:
    """A fresh generator of examples with the shape of a member's."""
    like = members.take(torch.zeros(1, dtype=torch.int64, device=run.device)).x
    if not like.is_floating_point():
        raise SpecError(
            f"dp-gan generates real numbers, but the workload's features are {like.dtype}; "
            "give a workload of images or measurements",
            field="workload",
            value=str(like.dtype),
            allowed="real numbers",
        )
    bounds, seed = (params.low, params.high), run.seed("init-generator")
    return Generator(like.shape[1:], problem.classes, params.latent, params.width, bounds, seed)


def classify(generator: Generator, problem: Problem, params: DpGanParams, run: Run) -> nn.Module:
    """Train a classifier on generated examples, equally many of every label."""
    labels = torch.arange(params.samples, device=run.device) % problem.classes
    synthetic = generator.fake(labels, run.generator("synthetic"))
    model = problem.model(run.seed("init"))
    classifier = Descent(model, synthetic, problem.loss, classifier_params(params), run, "classifier")
    return classifier.descend("classifier", params.classifier_steps)


def discriminator_loss(classes: int) -> Loss:
    """The discriminator's loss per example, from its outputs and labels y, or y + classes if generated.

    Its output for y is the log-odds of a real example of y.
    """

    def loss(outputs: Tensor, y: Tensor) -> Tensor:
        odds = outputs.gather(1, (y % classes)[:, None])[:, 0]
        return softplus(torch.where(y >= classes, odds, -odds))

    return loss


def classifier_params(params: DpGanParams) -> DescentParams:
    """Training parameters of the classifier."""
    return DescentParams(
        steps=params.classifier_steps,
        batch_size=params.classifier_batch_size,
        learning_rate=params.learning_rate,
        optimizer=params.optimizer,
        momentum=params.momentum,
        weight_decay=params.weight_decay,
        schedule=params.schedule,
    )


method = DpGan()
