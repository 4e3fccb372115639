"""Checks of a profile against a cluster; nothing is submitted."""

import re
import shutil
import subprocess
import tempfile
from dataclasses import replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from harness.backends.base import Finding, Settings
from harness.backends.slurm.array_record import Record
from harness.backends.slurm.cluster import ANSWER_SECONDS, Site, ask
from harness.backends.slurm.profile import Profile
from harness.backends.slurm.slurm import batch_script
from harness.store import Store
from workloads.errors import BackendError


def parts() -> list[Finding]:
    """Check the programs of this machine that SLURM jobs use."""
    submitit = replace(_submitit(), use="the slurm backend")
    sbatch = replace(_program("sbatch"), use="the slurm backend")
    return [submitit, sbatch, replace(_program("apptainer"), use="profiles with a container")]


def check(profile: Profile) -> list[Finding]:
    """Check everything a job with this profile needs; stops if the controller does not respond."""
    findings = [_submitit(), _program("sbatch"), _program("squeue")]
    if profile.container is not None:
        findings += [_program("apptainer"), _image(Path(profile.container))]
    site = Site()
    try:
        cluster = site.settings.get("ClusterName", "?")
    except BackendError as error:
        return [*findings, Finding("controller", False, str(error))]
    findings.append(Finding("controller", True, f"cluster {cluster} responds"))
    findings.append(_accounting(site))
    limits = site.limits(profile)
    detail = f"arrays of {limits.array}, {limits.submitted or 'any number of'} jobs at a time"
    findings.append(Finding("limits", True, detail))
    if profile.partition is not None:
        findings.append(_partition("partition", profile.partition))
    if profile.attack_partition is not None:
        findings.append(_partition("attack_partition", profile.attack_partition))
    findings.append(Finding("width", True, f"{site.width(profile)} such jobs at once on the empty cluster"))
    return [*findings, _test_only(profile)]


def _submitit() -> Finding:
    try:
        return Finding("submitit", True, version("submitit"))
    except PackageNotFoundError:
        return Finding("submitit", False, "missing: pip install 'privbench[slurm]'")


def _program(name: str) -> Finding:
    path = shutil.which(name)
    return Finding(name, path is not None, path or "not on the PATH")


def _image(file: Path) -> Finding:
    return Finding("container", file.exists(), str(file) if file.exists() else f"{file} is missing")


def _accounting(site: Site) -> Finding:
    if site.accounting:
        return Finding("accounting", True, "sacct lists jobs that the controller has dropped")
    return Finding("accounting", True, "off: the store and the controller are enough")


def _partition(what: str, name: str) -> Finding:
    output = ask("sinfo", "-h", "-o", "%R")
    if output is None:
        return Finding(what, False, "sinfo does not respond")
    known = sorted({*output.split()})
    detail = name if name in known else f"no partition {name}; partitions are {', '.join(known)}"
    return Finding(what, name in known, detail)


def _test_only(profile: Profile) -> Finding:
    """Check the whole request with `sbatch --test-only`."""
    settings = Settings(profile=profile)
    record = Record("privbench-doctor", "doctor", (("",),), {}, settings, 0.0)
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "script.sh"
        try:
            script.write_text(batch_script(record, Store(folder), ()))
            done = subprocess.run(
                ["sbatch", "--test-only", str(script)],
                capture_output=True,
                text=True,
                timeout=ANSWER_SECONDS,
                check=False,
            )
        except (BackendError, OSError, subprocess.TimeoutExpired) as error:
            return Finding("test job", False, str(error))
    detail = re.sub(r"^sbatch: (error: )?", "", done.stderr.strip(), flags=re.MULTILINE)
    return Finding("test job", done.returncode == 0, " ".join(detail.split()) or "accepted")
