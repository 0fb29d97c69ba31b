# make demo: set up and build the sample release.   make test: set up and run every test.
# make check: the fast half (lint, types, import floors, tests without Prefect).   make clean: remove what was built.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SAM2_STAMP := $(VENV)/.installed-sam2
CONFIG := examples/banepa/release.yaml

.PHONY: demo test check lint clean

demo: $(STAMP)
	$(BIN)/trigpoint build $(CONFIG)

test: $(SAM2_STAMP) lint
	$(BIN)/python -m pytest -n 2 --dist loadscope

check: $(STAMP) lint
	$(BIN)/python -m pytest -n 2 --dist loadscope -m "not flow and not demo"

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/pyright

$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info[:2] >= (3, 11) else "trigpoint needs Python 3.11 or newer, found " + sys.version.split()[0] + "; say make PYTHON=/path/to/python3.11")'
	@echo "setting up $(VENV): about two minutes, once"
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $(STAMP)

# torch first: building sam2 and what it needs (they come as sources) in isolation would fetch torch once more
$(SAM2_STAMP): requirements-sam2.lock $(STAMP)
	@echo "setting up torch and sam2 for the tests: some minutes and 5 GB, once"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $$(grep -E '^(torch|torchvision|setuptools)==' requirements-sam2.lock)
	SAM2_BUILD_CUDA=0 $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -r requirements-sam2.lock
	@touch $(SAM2_STAMP)

clean:
	rm -rf build .pytest_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
