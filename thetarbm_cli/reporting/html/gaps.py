"""What the page lacks, for scripts."""

from __future__ import annotations

from collections.abc import Sequence

from thetarbm_cli.reporting.html.material import Material
from thetarbm_cli.reporting.html.pictures import Picture
from thetarbm_cli.reporting.html.reruns import reruns


def missing(material: Material, pictures: Sequence[Picture]) -> list[dict[str, str]]:
    """Cells without a run, but for those that wait to be named, and figures that are not shown."""
    table = []
    for numbers in material.report.numbers:
        for each in reruns(material, numbers):
            if not each.runs and not each.cell.on_request:
                gap = {"kind": "cell", "name": each.cell.name, "source": numbers.source.name}
                table.append({**gap, "reason": "; ".join(each.failures) or "no run yet", "command": each.command})
    for picture in pictures:
        if picture.image is None:
            gap = {"kind": "figure", "name": picture.name, "source": picture.source.name}
            table.append({**gap, "reason": "; ".join(picture.gaps), "command": picture.command})
    return table
