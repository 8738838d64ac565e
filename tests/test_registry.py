from __future__ import annotations

import logging
from pathlib import Path

import pytest

from thetarbm_cli.errors import InputError
from thetarbm_cli.registry import Entry, Registry

GROUP = "thetarbm.test"


def plugin(folder: Path, name: str, *points: str) -> None:
    """Lay the metadata of an installed distribution into a folder."""
    metadata = folder / f"{name}-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *points]) + "\n")


@pytest.fixture
def things(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Registry[Entry]:
    """Two things of the package's own, and a folder of plug-ins."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return Registry(
        "thing", Entry("path", "pathlib:Path", "a path"), Entry("day", "datetime:date", "a day"), group=GROUP
    )


def test_things_are_found_by_name(things: Registry[Entry]) -> None:
    assert things.names == ("path", "day")
    assert things["path"].label == "a path"
    assert things.load("path") is Path
    with pytest.raises(InputError, match=r"^unknown thing 'dya': did you mean day"):
        things["dya"]
    with pytest.raises(InputError, match=r"^unknown thing 'cnn': choose one of path, day$"):
        things.load("cnn")


def test_a_plugin_adds_and_cannot_replace(
    things: Registry[Entry], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plugin(tmp_path, "good", "fraction = fractions:Fraction")
    plugin(tmp_path, "greedy", "path = fractions:Fraction")
    plugin(tmp_path, "odd", "odd = no target at all")
    plugin(tmp_path, "bad", "thing = broken:Thing")
    with caplog.at_level(logging.WARNING, "thetarbm"):
        # A name that is there costs no look at the plug-ins.
        assert things.load("path") is Path
        assert not caplog.messages
        assert things.load("fraction").__name__ == "Fraction"
        assert set(things.names) == {"path", "day", "fraction", "thing"}
    assert sorted(caplog.messages) == [
        "the plug-in greedy is left out: there is a thing path already",
        "the plug-in odd is left out: 'no target at all' is no module:class",
    ]
    # One that cannot be imported is named.
    (tmp_path / "broken.py").write_text("raise RuntimeError('two\\nlines')\n")
    with pytest.raises(InputError, match=r"^the thing thing of the plug-in bad cannot be imported from broken:Thing: "):
        things.load("thing")
