# The two commands of the README are `make demo` and `make test`; each installs what it needs into .venv.
PYTHON ?= python3
BIN := .venv/bin
PARALLEL := -n auto --maxprocesses=4 --dist loadfile

.PHONY: demo test test-slow test-latex browser test-browser test-wheel reproduce smoke schema docs lint format clean

demo: .venv/demo.stamp
	./scripts/demo.sh $(BIN)/thetarbm

# Files of tests go to several processes; the second call runs the models' tests once more, on the stand-in for a GPU (docs/gpu.md).
test: .venv/dev.stamp
	$(BIN)/python -m pytest $(PARALLEL)
	$(BIN)/python -m pytest -p tests.standin.plugin tests/models

test-slow: .venv/dev.stamp
	$(BIN)/python -m pytest -m slow

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

# The paper's tables from nothing: about half an hour a seed on two cores; interrupted, it goes on.
reproduce: .venv/demo.stamp
	$(BIN)/thetarbm run --profile paper --seeds 3 -j 2 --keep-going
	$(BIN)/thetarbm tables

smoke: .venv/demo.stamp
	./scripts/smoke.sh $(BIN)/thetarbm

schema: .venv/dev.stamp
	$(BIN)/python scripts/build_schema.py

# What the docs have from code and records: docs/cli.md, and the numbers in docs/reading.md.
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

.venv/demo.stamp: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

.venv/dev.stamp: pyproject.toml | .venv/bin/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@ .venv/demo.stamp

.venv/browser.stamp: .venv/dev.stamp
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[browser]'
	@touch $@

clean:
	rm -rf .venv dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
