"""What every ``--json`` prints, as models; ``make schema`` writes the JSON Schemas in ``docs/schema`` from them.

Scripts build on these names: a field may be added, never taken away. A field without a default is always there.
Commands print plain dictionaries and do not import this; tests hold what they print against it.
"""

from __future__ import annotations

from pydantic import BaseModel

from thetarbm_cli.commands.outputs.reports import Figures, Report, Show, Tables, Verify
from thetarbm_cli.commands.outputs.runs import Clean, Evaluate, Info, Perturb, PrepareData, Run, Status, Train

OUTPUTS: dict[str, type[BaseModel]] = {
    "prepare-data": PrepareData,
    "train": Train,
    "evaluate": Evaluate,
    "perturb": Perturb,
    "run": Run,
    "status": Status,
    "tables": Tables,
    "report": Report,
    "show": Show,
    "figures": Figures,
    "clean": Clean,
    "verify": Verify,
    "info": Info,
}
