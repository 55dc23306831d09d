"""The examples of docs/policies.md run as they stand."""

import doctest
from pathlib import Path


def test_the_examples_of_the_policies_run(project_root: Path) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE | doctest.REPORT_NDIFF
    failed, tried = doctest.testfile(
        str(project_root / "docs" / "policies.md"), module_relative=False, optionflags=flags, encoding="utf-8"
    )
    assert tried > 40
    assert failed == 0
