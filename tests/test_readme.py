"""The Python examples of the README files run as they stand, one after another as a reader would type them."""

import re
from pathlib import Path

import pytest


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_examples_run(project_root: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (project_root / name).read_text(encoding="utf-8")
    blocks = [
        (text.count("\n", 0, match.start(1)), match[1])
        for match in re.finditer(r"^```python\n(.*?)^```$", text, flags=re.MULTILINE | re.DOTALL)
    ]
    assert blocks, f"{name} shows no Python"
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {"__name__": "__main__"}
    for lines_above, block in blocks:
        # The empty lines keep the line numbers of a traceback those of the README.
        exec(compile("\n" * lines_above + block, str(project_root / name), "exec"), names)  # noqa: S102
