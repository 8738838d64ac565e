"""Wrong usage of any command: one sentence that names the mistake, and nothing is written."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.data.archives import write_own
from tests.runs import Command, files_in
from tests.suites import write_suite

# What names the mistake: the option or setting, and the value or what it may be. All settings of models: tests/models.
REFUSED = {
    "no-such-command": ["no-such-command", "thetarbm --help"],
    "statsu": ["did you mean status"],
    "info --no-such-option": ["--no-such-option", "thetarbm info --help"],
    "info --reslts x": ["did you mean --results"],
    "info --results": ["--results", "argument"],
    "--backend torch info": ["--backend", "torch", "numpy"],
    "train --model thetaa": ["is not one of 'rbm', ", "did you mean theta?"],
    "train --model theta --profile tiny --set colour=red": ["theta", "'colour'", "learning_rate"],
    "train --model theta --profile tiny --set data.sed=2": ["did you mean data.seed?"],
    "train --model theta --profile tiny --set learning_rate": ["key=value", "learning_rate"],
    "train --model theta --profile tiny --sparsity nan": ["sparsity", "nan"],
    "train --model theta --profile tiny --set data.train=0": ["data.train", "0"],
    "train --model theta --profile tiny --set perturbation.n=1": ["perturbation.p"],
    "train --model theta --profile tiny --set svm.C=1": ["svm.C", "evaluate RUN --set svm.C=1"],
    "train --model theta --profile tiny --set data.test=100": ["data.test", "evaluate RUN"],
    "train --model theta --set hidden=1 --set hidden=2": ["hidden", "twice"],
    "train --model rbm --set perturbation.n=1 --set perturbation.p=0.1": ["rbm", "orientations"],
    "train --model theta --profile tiny --train-on nothing": ["nothing", "mnist-rot"],
    "train --model theta --profile tiny --source nowhere.npz": ["nowhere.npz"],
    "train --model theta --profile tiny --source shipped": ["mnist-rot", "--source"],
    "train --model pixels --profile tiny --hidden 5": ["model pixels has no setting 'hidden'"],
    "train --model theta --sparsity 0.3 --set sparsity=none": ["--sparsity 0.3", "sparsity=None"],
    "train --model theta --train-on mnist --set data.dataset=mnist-rot": ["--train-on mnist", "data.dataset=mnist-rot"],
    "train --model theta --train-on mnist --source own.npz": ["--train-on mnist", "own.npz"],
    "train --model theta --set data.train=1000": ["data.train=1000", "300 train images"],
    "evaluate": ["name the runs", "--all"],
    "evaluate --all theta": ["--all", "not both"],
    "evaluate theta nothing": ["no run 'nothing'"],
    "evaluate theta --set epochs=3": ["epochs", "measurement"],
    "evaluate theta --set svm.c=1": ["did you mean svm.C"],
    "evaluate theta --set svm.C=-1": ["svm.C"],
    "evaluate theta --set aligned=true": ["theta", "aligned"],
    "evaluate pixels --set features=states": ["pixels", "states"],
    "evaluate theta --set svm.C=1 --set svm.C=2": ["svm.C", "twice"],
    "evaluate theta --profile huge": ["huge", "quick"],
    "evaluate theta --offset 40": ["offset", "40.0°", "below 40°"],
    "evaluate somewhere/else/theta-000000000000": ["somewhere/else", "--results"],
    "features nothing --out f.npz": ["no run 'nothing'"],
    "features theta --out f.npz --images missing.npz": ["missing.npz"],
    "features theta --out f.npz --images own.npz": ["own.npz", "64 pixels", "trained on 784"],
    "features theta --out f.npy": ["FILE.npz", "FILE.csv", "f.npy"],
    "perturb --p 0.1,-0.2": ["--p", "-0.2", "0.001…0.999"],
    "perturb --p '0.1;0.2'": ["--p", "0.1;0.2"],
    "perturb --n 1001": ["--n", "1001", "1…1000"],
    "perturb --set perturbation.n=1": ["--n", "--p", "--scope"],
    "perturb --profile huge": ["huge", "best", "quick", "tiny"],
    "prepare-data --dataset all --source own.npz": ["--dataset"],
    "run thta --suite suite.yaml": ["'thta'", "did you mean theta"],
    "run --suite suite.yaml --profile huge": ["'huge'", "paper", "tiny"],
    "run --profile quik": ["did you mean quick"],
    "run --suite none.yaml": ["none.yaml"],
    "run rbm --suite suite.yaml --force nothing": ["'nothing'"],
    "run rbm --suite suite.yaml --force theta": ["--force theta", "name it"],
    "run --suite suite.yaml --scheduler tcp://127.0.0.1:1": ["--executor dask"],
    "run --source elsewhere": ["unknown source 'elsewhere'", "use generated, bilinear, official, or the"],
    "status --source bilinea": ["unknown source 'bilinea'", "did you mean bilinear?"],
    "list --where x": [],
    "list --where sparsty=0.3": ["sparsity"],
    "list --sort eror": ["mean error?", "gamma_test"],
    "show": ["RUN"],
    "show nothing theta": ["nothing"],
    "pack": [],
    "pack --all rbm-": [],
    "pack --all --out x.xz": [],
    "pack --all --remove --out elsewhere.jsonl.xz": [],
    "tables --table 3 --suite suite.yaml": ["table 3"],
    "multiverse --of tabels": ["did you mean tables?"],
    "figures table-1 table-9 --profile tiny": ["'table-9'", "did you mean table-"],
    "figures --profile tiny --units 1,40": ["no hidden unit 40", "0 to 39"],
    "figures --profile tiny --units 1,x": ["--units", "'1,x'"],
    "report --profile huge": ["huge"],
}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a suite and a file of images."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    write_suite(tmp_path / "here")
    write_own(tmp_path / "here" / "own.npz")
    return tmp_path / "here"


@pytest.mark.parametrize("line", REFUSED)
def test_wrong_usage_is_one_sentence_and_writes_nothing(
    thetarbm: Command, evaluated: Path, here: Path, line: str
) -> None:
    before = files_in(evaluated), files_in(here)
    thetarbm(*shlex.split(line), results=evaluated).assert_refused(*REFUSED[line])
    assert (files_in(evaluated), files_in(here)) == before
