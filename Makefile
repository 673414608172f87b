# Two commands do everything on a machine that has Python 3.10 or newer: `make demo` and `make test`.

PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11 python3.10; do \
  "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && echo "$$python" && break; done)
VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= 2
CODE := ir dialects parser lowering tools src
export PYTHONWARNINGS ?= default::DeprecationWarning:gradopt

.PHONY: help demo test lint bench venv readme docs clean

help:
	@echo "make demo    set up, show the stages of one file, train a network on handwritten digits, leave a PNG"
	@echo "make test    set up, then lint, types and all tests"
	@echo "make bench   set up, then the benchmarks against JAX, PyTorch, xDSL and mlir-opt"
	@echo "make venv    set up the virtual environment only ($(VENV))"
	@echo "make docs    write docs/ops/ and docs/modules.md: every operation, pass and module, from the sources"
	@echo "make readme  run the commands in README.md again and put in what they print"

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.10 or newer is needed (set PYTHON=…)"; exit 1; }
	@echo "== virtual environment $(VENV) ($$($(PYTHON) --version))"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "this Python cannot make a virtual environment (on Debian: apt-get install python3-venv)"; exit 1; }

# one stamp for each set of dependencies; it is made anew when pyproject.toml changes. The bytecode is made as pip makes it for what it
# copies: where Python may not write any (PYTHONDONTWRITEBYTECODE), each process would compile the sources again for 0.3 s
$(VENV)/.with-%: pyproject.toml setup.py | $(BIN)/python
	@echo "== installing gradopt with its $* dependencies"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --progress-bar on --editable '.[$*]'
	@$(BIN)/python -m compileall -q $(CODE)
	@touch $@

venv: $(VENV)/.with-test

demo: $(VENV)/.with-examples
	@$(BIN)/python examples/demo.py

test: $(VENV)/.with-test
	@echo "== tests"
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal -q
	@$(MAKE) --no-print-directory lint

lint: $(VENV)/.with-test
	@echo "== ruff"
	@$(BIN)/ruff check --quiet .
	@echo "== mypy"
	@$(BIN)/mypy --no-error-summary

bench: $(VENV)/.with-benchmarks
	@$(BIN)/python benchmarks/text_speed.py
	@$(BIN)/python benchmarks/run.py --output build/benchmarks

readme: $(VENV)/.with-test
	@$(BIN)/python docs/make_readme.py

docs: $(VENV)/.with-test
	@$(BIN)/python docs/make_pages.py
	@echo "docs/ops/ holds a page for each dialect and one of the passes, docs/modules.md a line a module"

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
