"""What every Python test shares: reproducible Hypothesis runs and the root of the project."""

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# The same examples on every machine and in every run. `HYPOTHESIS_PROFILE=explore` looks for new ones instead.
settings.register_profile("repeat", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("explore", max_examples=2_000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeat"))

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def project_root() -> Path:
    """Where pyproject.toml lies."""
    return ROOT
