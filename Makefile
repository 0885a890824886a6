# Every target is complete from a bare checkout: it makes its own .venv and installs into it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
MODELS := $(VENV)/.installed-models
SITE := $(VENV)/.installed-docs

.PHONY: demo docs mutants test test-slow test-portable coverage check audit bench results clean

# What computes: training, methods, measures (the estimator among them), networks and their cutting into blocks.
# Readers, tables and commands do no floating-point work of their own, and are left to `make test`.
NUMERICAL := tests/training tests/unlearn tests/measure tests/test_device.py tests/models/test_classifier.py \
	tests/models/test_networks.py
# PyTorch's own kernels (ATEN_CPU_CAPABILITY) and oneDNN's (ONEDNN_MAX_CPU_ISA), held to the same instructions: the
# least that every 64-bit processor has, AVX2, and all that this machine has.
PROCESSORS := "ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2" "-u ATEN_CPU_CAPABILITY -u ONEDNN_MAX_CPU_ISA" \
	"ATEN_CPU_CAPABILITY=default ONEDNN_MAX_CPU_ISA=SSE41"
THREADS := 1 2

demo: $(STAMP)
	$(BIN)/residua demo --out demo

# The site of the documentation; a warning is an error, and nothing is downloaded.
docs: $(SITE)
	$(BIN)/python -m sphinx -W --keep-going -q -E -a -b html -d build/doctrees -c docs . build/site
	@echo "The site is in build/site/; open build/site/index.html."

# Threads that wait sleep after a moment: where others work too, spinning costs many times what it saves.
export GOMP_SPINCOUNT ?= 2000

# TESTS="tests/cli tests/study" runs a part.
TESTS ?=
QUICK_TESTS := -m "not slow" -n 2 --dist loadfile $(TESTS)

test: $(MODELS)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(QUICK_TESTS) --durations=20 --durations-min=3

# The lines of the package that the quick tests run, in build/coverage/; worker processes are not counted.
coverage: $(MODELS)
	$(BIN)/python -m pip install --quiet --no-compile -c constraints.txt pytest-cov
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest $(QUICK_TESTS) -q --cov=residua --cov-report=term:skip-covered --cov-report=html:build/coverage

test-slow: $(MODELS) $(SITE)
	$(BIN)/python -m pytest -m slow

# The same tests on every kind of processor that this one can pass for, with one and two threads.
test-portable: $(MODELS)
	@for processor in $(PROCESSORS); do for threads in $(THREADS); do \
		echo "== $$processor OMP_NUM_THREADS=$$threads"; \
		env $$processor OMP_NUM_THREADS=$$threads $(BIN)/python -m pytest -q -m "not slow" -n 2 --dist loadfile $(NUMERICAL) || exit 1; \
	done; done

CODE := src tests benchmarks examples docs $(wildcard reproduction) .github

check: $(STAMP)
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/ruff check $(CODE)
	$(BIN)/mypy

# Known vulnerabilities of what is installed; fails if there are any, or if pip-audit cannot be installed.
# pip-audit has an environment of its own; local versions (+cpu) are not in its database.
audit: $(STAMP)
	$(PYTHON) -m venv $(VENV)/audit
	$(VENV)/audit/bin/python -m pip install --quiet pip-audit
	$(BIN)/python -m pip list --format=freeze --exclude-editable > $(VENV)/audit/installed.txt
	sed -i 's/+[a-z0-9.]*$$//' $(VENV)/audit/installed.txt
	$(VENV)/audit/bin/pip-audit --strict --no-deps --disable-pip -r $(VENV)/audit/installed.txt

# RESULTS.md and records/*/table.md from records alone: nothing is trained.
results: $(STAMP)
	$(BIN)/python -m reproduction results

# Small faults at random in the arithmetic of verdicts: how many do the tests notice? Takes a quarter of an hour.
mutants: $(STAMP)
	$(BIN)/python benchmarks/mutants.py

bench: $(STAMP)
	$(BIN)/python benchmarks/startup.py
	$(BIN)/python benchmarks/throughput.py
	$(BIN)/python benchmarks/loading.py
	$(BIN)/python benchmarks/idi_speed.py
	$(BIN)/python benchmarks/audit_cost.py
	$(BIN)/python benchmarks/saved_features.py
	$(BIN)/python benchmarks/saved_features.py --samples 2400 --features 2048 --seconds 60
	$(BIN)/python benchmarks/saved_features.py --samples 200000 --features 32 --seconds 40
	$(BIN)/python benchmarks/pooled.py
	$(BIN)/python benchmarks/study.py
	$(BIN)/python benchmarks/study.py --speed

# Without compiling: Python compiles what is imported, and compiling everything takes longer than installing it.
# LOCK=requirements/ci.txt, which .github/make_lock.py makes, installs files by their hashes first, and then fetches nothing.
INSTALL = $(BIN)/python -m pip install --quiet --no-compile
ours = $(INSTALL) -c constraints.txt $(if $(LOCK),--no-index --no-build-isolation) -e

$(STAMP): pyproject.toml constraints.txt $(LOCK)
	$(PYTHON) -m venv $(VENV)
	$(if $(LOCK),$(INSTALL) --require-hashes -r $(LOCK))
	$(ours) ".[data,tune,dev]"
	touch $@

# With torchvision, timm and transformers, for the tests alone; all at once, which is quicker than one after the other.
$(MODELS): pyproject.toml constraints.txt $(LOCK)
	$(PYTHON) -m venv $(VENV)
	$(if $(LOCK),$(INSTALL) --require-hashes -r $(LOCK))
	$(ours) ".[data,tune,dev,models]"
	touch $(STAMP) $@

# Sphinx, for the site alone.
$(SITE): $(STAMP)
	$(ours) ".[docs]"
	touch $@

clean:
	rm -rf $(VENV) demo benchmarks/*.safetensors build dist docs/api .pytest_cache .mypy_cache .ruff_cache .hypothesis
