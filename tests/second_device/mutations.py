"""Devices forgotten on purpose, each in one place: on a CPU nobody notices, and a test must catch each here.

    python -m tests.second_device

A mutation is a text that occurs exactly once in its file, and what stands there instead.
"""

from tests.campaigns.mutations.mutations import Mutation

RULE = "one device"
RESUMES = "tests/contracts/test_methods.py::test_it_resumes_to_the_same_bits[second-3-{}]"
WAITS = "tests/second_device/test_waits.py::test_a_step_waits_no_more_than_its_budget[{}-second]"
AS_ON_CPU = (
    "tests/second_device/test_training.py::test_a_training_without_noise_is_that_of_the_cpu[{}-second]"
)


def forget(change: str, file: str, text: str, replacement: str, test: str) -> Mutation:
    """A mutation of the rule that tensors of one computation are on one device, and that nobody waits."""
    return Mutation(RULE, change, file, text, replacement, test)


MUTATIONS = (
    forget(
        "sgd's members stay on the host",
        "methods/sgd.py",
        "members = members.to(run.device)",
        "",
        RESUMES.format("sgd"),
    ),
    forget(
        "sgd's model stays on the host",
        "methods/sgd.py",
        ".to(run.device).train()",
        ".train()",
        RESUMES.format("sgd"),
    ),
    forget(
        "batches are indexed from the host",
        "harness/jobs/releases.py",
        "device or self.device, rate, ahead=alone)",
        "device or HOST, rate, ahead=alone)",
        WAITS.format("sgd"),
    ),
    forget(
        "dp-sgd's model stays on the host",
        "methods/dp_sgd.py",
        "model = model.to(run.device).train()",
        "model = model.train()",
        RESUMES.format("dp-sgd"),
    ),
    forget(
        "row numbers are copied from pageable memory",
        "workloads/base.py",
        "values.pin_memory().to(device, non_blocking=True)",
        "values.to(device, non_blocking=True)",
        WAITS.format("sgd"),  # a Poisson sampler reads ahead, before the steps that are heard
    ),
    forget(
        "labels stay on the host",
        "workloads/base.py",
        "Records(self.x.to(device), self.y.to(device))",
        "Records(self.x.to(device), self.y)",
        RESUMES.format("sgd"),
    ),
    forget(
        "what is read when asked for stays on the host",
        "workloads/records.py",
        "x = sent(torch.stack([x for x, _ in items])[: len(rows)], self.device)",
        "x = torch.stack([x for x, _ in items])[: len(rows)]",
        "tests/second_device/test_training.py"
        "::test_records_that_are_read_when_asked_for_go_to_the_device[sgd-second]",
    ),
    forget(
        "noise is drawn on the host",
        "methods/mechanisms/noise.py",
        "torch.empty(count, dtype=dtype, device=generator.device)",
        "torch.empty(count, dtype=dtype)",
        RESUMES.format("dp-sgd"),
    ),
    forget(
        "batches are drawn on the device",
        "harness/jobs/releases.py",
        "self.generator(stream, HOST)",
        "self.generator(stream)",
        AS_ON_CPU.format("dp-sgd"),
    ),
    forget(
        "angles are kept on the host",
        "methods/dirdp_sgd/directions.py",
        "cosines = torch.empty(count, dtype=torch.float64, device=generator.device)",
        "cosines = torch.empty(count, dtype=torch.float64)",
        RESUMES.format("dirdp-sgd"),
    ),
    forget(
        "rows with a direction are looked for",
        "methods/dirdp_sgd/directions.py",
        'if rows.device.type != "cpu" or not bool(directed.all()):',
        "if not bool(directed.all()):",
        WAITS.format("dirdp-sgd"),
    ),
    forget(
        "a batch's uses are counted on the host",
        "methods/pd_sgd/rejections.py",
        "self.uses = torch.zeros(members, dtype=torch.int64, device=device)",
        "self.uses = torch.zeros(members, dtype=torch.int64)",
        AS_ON_CPU.format("pd-sgd"),
    ),
    forget(
        "losses of a line search are added up on the host",
        "methods/mechanisms/line_search.py",
        "dtype=torch.float64, device=records.y.device)",
        "dtype=torch.float64)",
        RESUMES.format("dpagd"),
    ),
    forget(
        "who is absent stays on the host",
        "methods/selena/split_ai.py",
        "self.absent = absent.to(run.device)",
        "self.absent = absent",
        RESUMES.format("selena"),
    ),
    forget(
        "the adversary stays on the host",
        "methods/advreg/adversary.py",
        'run.seed("adversary")).to(run.device)',
        'run.seed("adversary"))',
        RESUMES.format("advreg"),
    ),
    forget(
        "teachers stay on the host",
        "methods/training/ensembles.py",
        ".to(self.run.device) for number in numbers",
        " for number in numbers",
        RESUMES.format("pate"),
    ),
    forget(
        "a generator of examples stays on the host",
        "methods/dp_gan/generator.py",
        "self.generator = generator.to(run.device).train()",
        "self.generator = generator.train()",
        RESUMES.format("dp-gan"),
    ),
    forget(
        "the test's noise is drawn on the device",
        "methods/dpsur/dpsur.py",
        "device=HOST,  #",
        "device=run.device,  #",
        WAITS.format("dpsur"),
    ),
    forget(
        "who stays is sent and waited for",
        "methods/training/sampling.py",
        "self.rows[sent(kept, self.rows.device)]",
        "self.rows[kept.to(self.rows.device)]",
        WAITS.format("dpis"),
    ),
    forget(
        "non-finite gradients are asked for",
        "methods/gradients/base.py",
        "int(count) if on_host else count)",
        "int(count))",
        WAITS.format("dp-sgd"),
    ),
)
