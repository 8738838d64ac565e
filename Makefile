# The two commands of the README are `make demo` and `make test`; each installs what it needs into .venv.
PYTHON ?= python3
BIN := .venv/bin
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PARALLEL := -n auto --maxprocesses=4 --dist loadfile

.PHONY: demo test cupy-device test-cupy nvrtc-check test-gpu test-slow test-kills test-memory test-lowest audit test-latex browser test-browser test-wheel reproduce bench bench-launches smoke schema docs lint format clean

demo: .venv/demo.stamp
	@$(BIN)/thetarbm demo --out .venv/demo
	@echo "thetarbm is in $(BIN); to call it by its name: source $(BIN)/activate"

# Files of tests go to several processes.
test: .venv/dev.stamp
	$(BIN)/python -m pytest $(PARALLEL)

# CuPy's own wheel on an emulated device (tests/device): built once, in the user's cache, in half a minute.
cupy-device: .venv/dev.stamp
	@$(BIN)/python -m tests.device.build

# What calls models and measures, once more, on CuPy; then what is for CuPy alone, with fences around every array.
CUPY_TESTS := $(addprefix tests/,models imaging measures test_backend.py test_kernels.py)
CUPY_TESTS_TOO := $(addprefix tests/,commands benchmarks/test_launches.py test_gpu.py test_pipeline.py test_evaluation.py)
test-cupy: .venv/dev.stamp
	device="$$($(BIN)/python -m tests.device.build)" && export THETARBM_BACKEND=cupy && \
	"$$device/run" $(BIN)/python -m pytest $(PARALLEL) -m 'not slow and not latex and not browser' $(CUPY_TESTS) $(CUPY_TESTS_TOO) && \
	EMU_FENCED=1 "$$device/run" $(BIN)/python -m pytest -p cupy_device $(PARALLEL) -m cupy $(CUPY_TESTS)

# The kernels that test-cupy used, through NVIDIA's own compiler, for GPUs from Turing to Blackwell.
nvrtc-check: .venv/dev.stamp
	$(BIN)/python -m tests.device.nvrtc_check

# For who has an NVIDIA GPU: checks, the tests of test-cupy and times on it, in one file to send: gpu-report.json. GPU has
# the options: make test-gpu GPU=--quick. DEVICE puts a launcher before Python; to try it on the emulated device, whose
# times mean nothing: make test-gpu GPU=--quick DEVICE="$(.venv/bin/python -m tests.device.build)/run". Who was refused
# is installed for anew the next time.
test-gpu: $(if $(DEVICE),.venv/dev.stamp,.venv/gpu.stamp)
	@$(DEVICE) $(BIN)/python -m tests.gpu $(GPU) $(CUPY_TESTS) $(CUPY_TESTS_TOO) || \
	{ code=$$?; [ $$code != 2 ] || rm -f .venv/gpu.stamp; exit $$code; }

test-slow: .venv/dev.stamp
	THETARBM_EXPLORE=1 $(BIN)/python -m pytest -m slow

# Fifty SIGKILLs at random changes of files of five commands, each followed by the same command: a table, in about seven minutes.
test-kills: .venv/dev.stamp
	$(BIN)/python -m tests.faults.kills 50

# The peak of every command at the paper's sizes: a table, in about eleven minutes; exit code 1 if one has 3 GB or more.
test-memory: .venv/dev.stamp
	$(BIN)/python -m tests.faults.peaks

# With the lowest versions that pyproject.toml allows: the tests that call the libraries. Not once more: those of claims, faults,
# damaged files and docs, which say nothing of versions.
LOWEST := $(addprefix tests/,data imaging models measures reporting commands benchmarks) $(wildcard tests/test_*.py)
test-lowest: .venv-lowest/stamp
	.venv-lowest/bin/python -m pytest $(PARALLEL) $(LOWEST)

# Known vulnerabilities of what is installed; asks a service on the internet, and says so where it cannot be reached.
audit: .venv/audit.stamp
	$(BIN)/python scripts/audit.py

# The LaTeX tables through a real TeX.
test-latex: .venv/dev.stamp
	@command -v pdflatex >/dev/null || command -v tectonic >/dev/null || { \
		echo "test-latex needs pdflatex with booktabs and caption (Debian: apt-get install texlive-latex-recommended;" \
			"macOS: brew install --cask basictex) or tectonic" >&2; exit 1; }
	$(BIN)/python -m pytest -m latex tests/reporting/test_latex.py

# A Chromium, installed if there is none; the report in it.
browser: .venv/browser.stamp
	@$(BIN)/python scripts/get_browser.py

test-browser: .venv/browser.stamp
	@CHROMIUM="$$($(BIN)/python scripts/get_browser.py)" && export CHROMIUM && $(BIN)/python -m pytest -m browser tests/browser

test-wheel:
	$(PYTHON) scripts/check_wheel.py

# The paper's tables from nothing: about a quarter of an hour a seed on two cores; interrupted, it goes on.
reproduce: .venv/demo.stamp
	$(BIN)/thetarbm run --profile paper --seeds 3 -j 2 --keep-going
	$(BIN)/thetarbm tables

# All figures of speed, in about twenty minutes on a machine that does nothing else; BENCH has the options: make bench BENCH=--quick
bench: .venv/dev.stamp
	$(BIN)/python -m benchmarks $(BENCH)

# What a batch launches, copies and waits for on a GPU, counted on the emulated device: a table, and a record of it.
bench-launches: .venv/dev.stamp
	device="$$($(BIN)/python -m tests.device.build)" && \
	"$$device/run" $(BIN)/python -m benchmarks.launches --out results/bench $(BENCH)

smoke: .venv/demo.stamp
	./scripts/smoke.sh $(BIN)/thetarbm

schema: .venv/dev.stamp
	$(BIN)/python scripts/build_schema.py

# What the docs have from code and records: docs/cli.md, and the marked blocks of other pages.
docs: .venv/dev.stamp
	$(BIN)/python scripts/build_docs.py

lint: .venv/dev.stamp
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/dev.stamp
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit("thetarbm needs Python 3.11 or newer; this is %d.%d. Try: make PYTHON=python3.12 ..." % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv

# Installs thetarbm with these extras; where an NVIDIA driver answers, with CuPy of its CUDA version, too: a driver runs
# what was made for an older CUDA.
define install_for_gpu
	@cuda=$$(nvidia-smi 2>/dev/null | sed -n 's/.*CUDA Version: *\([0-9][0-9]*\).*/\1/p' | head -n 1); \
	plain="$(if $(1),[$(1)])"; extra="$$plain"; \
	if [ -z "$$cuda" ]; then echo "no NVIDIA GPU answers: NumPy"; \
	elif [ "$$cuda" -lt 12 ]; then echo "an NVIDIA GPU with CUDA $$cuda, for which there is no CuPy here: NumPy"; \
	else extra="[$(if $(1),$(1)$(comma))cuda$$([ "$$cuda" = 12 ] && echo 12 || echo 13)]"; \
		echo "an NVIDIA GPU with CUDA $$cuda: CuPy"; fi; \
	echo "installing thetarbm$$extra into .venv: a minute or two"; \
	$(PIP_INSTALL) --editable ".$$extra" || \
	{ [ "$$extra" != "$$plain" ] && echo "without CuPy, then: NumPy" && $(PIP_INSTALL) --editable ".$$plain"; }
endef
comma := ,

.venv/demo.stamp: pyproject.toml | .venv/bin/python
	$(call install_for_gpu,)
	@touch $@

.venv/gpu.stamp: pyproject.toml | .venv/bin/python
	$(call install_for_gpu,dev)
	@touch $@ .venv/dev.stamp .venv/demo.stamp

.venv/dev.stamp: pyproject.toml | .venv/bin/python
	$(PIP_INSTALL) --editable '.[dev]'
	@touch $@ .venv/demo.stamp

.venv-lowest/stamp: pyproject.toml scripts/lowest_versions.py
	$(PYTHON) -m venv --clear .venv-lowest
	.venv-lowest/bin/python scripts/lowest_versions.py test > .venv-lowest/constraints.txt
	.venv-lowest/bin/python -m pip install --quiet --disable-pip-version-check --constraint .venv-lowest/constraints.txt --editable '.[test]'
	@touch $@

.venv/audit.stamp: .venv/dev.stamp
	$(PIP_INSTALL) 'pip-audit>=2.7'
	@touch $@

.venv/browser.stamp: .venv/dev.stamp
	$(PIP_INSTALL) --editable '.[browser]'
	@touch $@

clean:
	rm -rf .venv .venv-lowest dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
