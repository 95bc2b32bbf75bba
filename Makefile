# `make test` and `make demo` need nothing but python3 with its venv module. `make` lists the targets.

PYTHON ?= python3
VENV ?= .venv
PYTEST_ARGS ?=
# What `make mutants` plants: bugs whose file or name contains this
MUTANTS ?=
# pytest processes
WORKERS ?= 2
# Each process starts with a half of the files, so that two do not compile the same kernels.
XDIST := -n $(WORKERS) --dist worksteal
# Statistical audits, and tests of workers and killed processes: `make audit` runs them
AUDITS := tests/audit $(addprefix tests/test_,$(addsuffix .py, \
	canaries joblib_processes ledger_processes workers))
# Tests of the built documentation: `make docs` runs them
SITE_TESTS := tests/test_site.py tests/test_docstrings.py
# What `make floor` runs: a third of the suite, the files that touch what dependencies offer, such
# as the checks of scikit-learn, frames and Arrow, Dask, compiled kernels, and files of ledgers
FLOOR_TESTS ?= $(addprefix tests/test_,$(addsuffix .py, \
	bad_input blocks constraints design displays \
	estimator_laws estimators generalised_gaussian group_display \
	inspection kernels ledger ledger_estimators ledger_files linear_model_lp mechanisms \
	minimax_estimators model_selection model_selection_input monotone_glm_estimator own_sets \
	preprocessing_private preprocessing_private_input preprocessing_public private_group_dro progress \
	random scikit_learn shape_display synthesizer synthesizer_input))
FLOOR_VENV ?= .venv-floor
# The oldest dependencies have wheels for Python 3.10 to 3.12 only
FLOOR_PYTHON ?= $(shell for python in $(PYTHON) python3.12 python3.11 python3.10; do \
	$$python -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 13))' 2>/dev/null \
	&& { echo $$python; break; }; done)
SDIST_VENV := .venv-sdist
# PySpark has some 400 megabytes, and needs a Java runtime
SPARK_VENV := .venv-spark
# Machine code that tests have compiled is read by the documentation and the demo, too.
MACHINE_CODE = NUMBA_CACHE_DIR=$(CURDIR)/.pytest_cache/numba/$$($(VENV)/bin/python -c \
	'from importlib.metadata import version; print(version("numba"))')
FIELD := examples/benchmarks/field
# For `make field`: a folder of files that users download; the environments of other libraries, of
# which opacus and smartnoise are several gigabytes; and options, such as "--only diabetes --splits 1"
DATA ?=
FIELD_ENVIRONMENTS ?= ebm rivals
FIELD_ARGS ?=
# For `make laws`: a label for this state of the code, the label to compare with, and options, such
# as "--quick" (two minutes) or "--only years normal_20"
LABEL ?=
LAWS_BASE ?= 2026-11-28
# For `make utility`: labels of one state of the code, measured with --quick
UTILITY_BASE ?= $(addprefix 2026-12-01-quick-,6 7)
LAWS_ARGS ?=

# Another environment's packages and pip's wish to be asked have no place here. Without bytecode,
# every worker of pytest would compile all tests again.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE PIP_USER PIP_REQUIRE_VIRTUALENV
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PIP_NO_INPUT := 1

# Two installs into one environment at the same time would break it.
.NOTPARALLEL:
.DEFAULT_GOAL := help

# The workers are the parallelism: threads within each would only compete for the same cores.
test audit slow floor spark properties mutants: export OMP_NUM_THREADS := 1
test audit slow floor spark properties mutants: export OPENBLAS_NUM_THREADS := 1
test audit slow floor spark properties mutants: export MKL_NUM_THREADS := 1
test audit slow floor spark properties mutants: export NUMBA_NUM_THREADS := 1

# $(call make_venv,python,directory): keeps an environment that is there
define make_venv
@$(1) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	{ echo "skdpsco needs Python 3.10 or later as $(1). Choose one: make PYTHON=/path/to/python3"; exit 1; }
@$(1) -c 'import ensurepip, venv' 2>/dev/null || \
	{ echo "$(1) lacks the venv module. On Debian and Ubuntu: apt install python3-venv"; exit 1; }
@test -x $(2)/bin/python || { echo "Creating $(2)"; $(1) -m venv $(2); }
endef

# One stamp per extra, so that what is installed is not installed again
$(VENV)/.installed-%: pyproject.toml
	$(call make_venv,$(PYTHON),$(VENV))
	@echo "Installing skdpsco[$*] into $(VENV)"
	@$(VENV)/bin/python -m pip install --quiet --editable ".[$*]"
	@touch $@

$(FLOOR_VENV)/.installed: pyproject.toml .ci/floor.txt
	@test -n "$(FLOOR_PYTHON)" || \
		{ echo "make floor needs Python 3.10, 3.11 or 3.12. Name it: make floor FLOOR_PYTHON=..."; exit 1; }
	$(call make_venv,$(FLOOR_PYTHON),$(FLOOR_VENV))
	@echo "Installing skdpsco[test] with the oldest dependencies into $(FLOOR_VENV)"
	@$(FLOOR_VENV)/bin/python -m pip install --quiet --only-binary :all: \
		--constraint .ci/floor.txt --editable ".[test]"
	@touch $@

.PHONY: test
test: $(VENV)/.installed-test  ## run the tests but for audits (PYTEST_ARGS="-k name" for some)
	$(VENV)/bin/python -m pytest $(XDIST) $(AUDITS:%=--ignore=%) $(SITE_TESTS:%=--ignore=%) $(PYTEST_ARGS)

.PHONY: audit
audit: $(VENV)/.installed-test  ## run statistical audits, and tests of workers and killed processes
	$(VENV)/bin/python -m pytest $(XDIST) $(AUDITS) $(PYTEST_ARGS)

.PHONY: demo
demo: $(VENV)/.installed-plot  ## run examples/quickstart.py
	$(MACHINE_CODE) $(VENV)/bin/python examples/quickstart.py

.PHONY: slow
slow: $(VENV)/.installed-test  ## run the tests that take minutes, or repeat what others say
	$(VENV)/bin/python -m pytest $(XDIST) -m slow $(PYTEST_ARGS)

.PHONY: lint
lint: $(VENV)/.installed-dev  ## check style, spelling and types
	$(VENV)/bin/python -m ruff check
	$(VENV)/bin/python -m ruff format --check
	$(VENV)/bin/codespell
	$(VENV)/bin/python -m mypy
	$(VENV)/bin/python -m mypy --strict --follow-imports=silent tests/user_code.py
	$(VENV)/bin/python -m pyright --pythonpath $(VENV)/bin/python tests/user_code.py

.PHONY: properties
properties: $(VENV)/.installed-test  ## try 2,000 random fits in place of the 200 of the tests
	SKDPSCO_EXAMPLES=2000 $(VENV)/bin/python -m pytest tests/test_properties.py $(PYTEST_ARGS)

.PHONY: mutants
mutants: $(VENV)/.installed-test  ## plant privacy bugs one by one, and list those that no test finds
	$(VENV)/bin/python .ci/mutants.py $(MUTANTS)

.PHONY: types
types: $(VENV)/.installed-dev  ## count the public names whose types are known
	$(VENV)/bin/python .ci/check_types.py

.PHONY: floor
floor: $(FLOOR_VENV)/.installed  ## run FLOOR_TESTS with the oldest supported dependencies
	$(FLOOR_VENV)/bin/python .ci/check_floor.py
	$(FLOOR_VENV)/bin/python -m pytest $(XDIST) $(FLOOR_TESTS) $(PYTEST_ARGS)

$(SPARK_VENV)/.installed: pyproject.toml
	$(call make_venv,$(PYTHON),$(SPARK_VENV))
	@echo "Installing skdpsco[spark] into $(SPARK_VENV)"
	@$(SPARK_VENV)/bin/python -m pip install --quiet --editable ".[spark]" pandas pytest
	@touch $@

.PHONY: spark
spark: $(SPARK_VENV)/.installed  ## run the tests of Spark, which needs a Java runtime
	$(SPARK_VENV)/bin/python -m pytest tests/test_spark.py $(PYTEST_ARGS)

.PHONY: sdist
sdist: $(VENV)/.installed-dev  ## build source and wheel, and try them in an empty environment
	rm -rf dist $(SDIST_VENV)
	# The wheel is built from the source distribution, so that trying it tries both.
	$(VENV)/bin/python -m build
	$(call make_venv,$(PYTHON),$(SDIST_VENV))
	$(SDIST_VENV)/bin/python -m pip install --quiet dist/*.whl
	$(SDIST_VENV)/bin/python -I .ci/smoke.py

.PHONY: bench
bench: $(VENV)/.installed-test  ## run the benchmarks one by one
	@set -e; for script in examples/benchmarks/[!_]*.py; do \
		test -e "$$script" || { echo "There are no benchmarks."; break; }; \
		echo "== $$script"; $(VENV)/bin/python "$$script"; done

.venv-field-%/.installed: $(FIELD)/requirements-%.txt
	$(call make_venv,$(PYTHON),$(@D))
	@$(@D)/bin/python -m pip install --quiet --requirement $<
	@touch $@

.PHONY: field
field: export OMP_NUM_THREADS := 1
field: $(VENV)/.installed-test $(FIELD_ENVIRONMENTS:%=.venv-field-%/.installed)  ## compare with other methods (DATA=folder)
	$(VENV)/bin/python -m pip install --quiet --requirement $(FIELD)/requirements.txt
	@set -e; cd $(FIELD)/..; for command in run "run --tuned" report; do \
		echo "== field $$command"; $(abspath $(VENV))/bin/python -m field $$command \
			$(if $(DATA),--data $(abspath $(DATA))) $(FIELD_ARGS); done

.PHONY: laws
laws: $(VENV)/.installed-test  ## measure laws of data, and compare with a stored state (LABEL=name)
	@test -n "$(LABEL)" || { echo "make laws needs a name for this state: make laws LABEL=..."; exit 1; }
	@set -e; cd $(FIELD)/..; python=$(abspath $(VENV))/bin/python; \
		$$python -m laws run $(LABEL) $(LAWS_ARGS); $$python -m laws compare $(LAWS_BASE) $(LABEL)

.PHONY: utility
utility: $(VENV)/.installed-test  ## check that default fits score no less than stored ones (2 minutes)
	$(MACHINE_CODE); export NUMBA_CACHE_DIR; cd $(FIELD)/..; \
		$(abspath $(VENV))/bin/python -m laws check $(UTILITY_BASE)

.PHONY: docs
docs: $(VENV)/.installed-docs  ## build the documentation into docs/_build/html, and test it in a browser
	$(MACHINE_CODE) $(VENV)/bin/python -m sphinx -W --keep-going -b html docs docs/_build/html
	$(VENV)/bin/python -m pytest $(SITE_TESTS)

.PHONY: clean
clean:  ## remove what was built, but not the environments
	rm -rf build dist docs/_build docs/api/generated docs/auto_examples .pytest_cache .mypy_cache .ruff_cache
	find . -path './.venv*' -prune -o -type d -name __pycache__ -exec rm -rf {} +

.PHONY: help
help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*  ## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | \
		while IFS='|' read -r name text; do printf '  make %-7s %s\n' "$$name" "$$text"; done
