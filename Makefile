# Every target is complete from a bare checkout: it makes its own .venv and installs into it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
MODELS := $(VENV)/.installed-models

.PHONY: demo test test-slow check bench clean

demo: $(STAMP)
	$(BIN)/residua demo --out demo

test: $(MODELS)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not slow" -n 2 --dist loadfile

test-slow: $(MODELS)
	$(BIN)/python -m pytest -m slow

check: $(STAMP)
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python benchmarks/throughput.py
	$(BIN)/python benchmarks/idi_speed.py
	$(BIN)/python benchmarks/audit_cost.py

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[data,figures,tune,dev]"
	touch $@

# torchvision, timm and transformers, for the tests alone.
$(MODELS): $(STAMP)
	$(BIN)/python -m pip install --quiet -c constraints.txt -e ".[models]"
	touch $@

clean:
	rm -rf $(VENV) demo benchmarks/*.safetensors build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
