# Sets up the environment and runs the command line `seedbed`.

PYTHON ?= python3
VENV := .venv
SEEDBED := $(VENV)/bin/seedbed
# Packages are compiled at import: compilation would take a third of the installation time.
PIP := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt
READY := $(VENV)/.ready
TESTED := $(VENV)/.tested
CORES = $(shell $(SEEDBED) list --names)
SOURCES := $(wildcard spec/*.py hw/*.py hw/*/*.py flow/cores/* flow/emit/*.py)

.DEFAULT_GOAL := all
.PHONY: all setup verilog sim cocotb formal mutate synth demo report docs html boards core test lint types clean help

all: $(READY)  ## a tour on virtual boards, Verilog of every core, simulation and synthesis of four
	@$(SEEDBED) tour
	@echo "Emitting the Verilog of every core ..."
	@$(MAKE) --silent verilog
	@for core in $(SHOWN); do $(SEEDBED) sim $$core && $(SEEDBED) synth $$core --target ecp5 --seeds 1 || exit; done
	@echo "The Verilog is in build/verilog. 'make report' measures every core; 'make help' lists the rest."

# Of generators, weights, training and the host.
SHOWN := urng_array lut_dequantize loss_sign host_link

setup: $(READY)  ## only the environment: .venv/bin/seedbed

EXTRAS := all
$(READY): pyproject.toml constraints.txt
	@echo "Setting up $(VENV) with $(PYTHON) ..."
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, not " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --editable '.[$(EXTRAS)]'
	@echo "Preparing the tools: each is compiled on first use (about a minute) ..."
	@$(SEEDBED) doctor
	@echo $(EXTRAS) > $@

# With the packages for tests and checks: in one step on a first installation.
$(TESTED): EXTRAS := all,dev
$(TESTED): $(READY)
	@grep -q dev $(READY) || { echo "Adding the packages for tests and checks ..." && $(PIP) --editable '.[$(EXTRAS)]'; }
	@touch $@

verilog: $(READY)  ## Verilog of every core, to build/verilog
	@$(MAKE) --silent --jobs=2 $(CORES:%=build/verilog/%.v)

build/verilog/%.v: $(READY) $(SOURCES)
	@$(SEEDBED) verilog $*

sim: $(READY)  ## simulation of every configuration against its golden model, in Amaranth
	@$(SEEDBED) measure --kind simulation

cocotb: $(READY) build/verilog/urng_array.v  ## simulation of the emitted Verilog of every core, in cocotb under Verilator
	@$(SEEDBED) measure --kind cocotb
	@cd build && ../$(VENV)/bin/python ../docs/examples/cocotb_urng_array.py verilog/urng_array.v

formal: $(READY)  ## formal proofs, with covers and mutants
	@$(SEEDBED) measure --kind proof

mutate: $(READY)  ## mutation testing of the simulation testbenches
	@$(SEEDBED) measure --kind mutation

synth: $(READY)  ## synthesis, place and route
	@$(SEEDBED) measure --kind synthesis --kind place

demo: $(READY)  ## zeroth-order fine-tuning, and compressed weights, on embedded data
	@$(SEEDBED) demo zo
	@$(SEEDBED) demo seedlm

report: $(READY)  ## run the measurements that are not cached, and write build/report
	@$(SEEDBED) report $(REPORT)

docs: demo  ## full report, and the generated blocks of README and docs
	@$(SEEDBED) report --all --docs .

boards: $(READY)  ## bitstreams for every board, with cells and Fmax (hours); APPS="noise link" for some
	@$(SEEDBED) board report $(APPS)

html: $(TESTED)  ## documentation site, to build/html; no network, warnings are errors
	@$(VENV)/bin/python -m sphinx --quiet --fresh-env --fail-on-warning --keep-going docs build/html
	@echo "The first page is build/html/index.html."

FILES = $(wildcard spec/$(CORE).py hw/*/$(CORE).py golden/$(CORE).py sim/*/$(CORE).py tests/*/test_$(CORE).py)
core: $(TESTED)  ## style, tests, proofs, Verilog and page of one core: make core CORE=lfsr
	@$(SEEDBED) list --names | grep --quiet --line-regexp --fixed-strings -e '$(CORE)' || \
		{ echo "CORE must be a core of 'seedbed list', such as CORE=lfsr, not '$(CORE)'" >&2; exit 2; }
	@$(VENV)/bin/ruff check $(FILES)
	@$(VENV)/bin/ruff format --check $(FILES)
	@$(VENV)/bin/python -m pytest -q -k $(CORE) $(filter tests/%,$(FILES)) tests/flow/test_verilog.py tests/sim/test_icarus.py tests/house
	@$(SEEDBED) formal $(CORE)
	@$(SEEDBED) cocotb $(CORE)

test: $(TESTED)  ## all tests
	@$(VENV)/bin/python -m pytest -q --junitxml=build/tests.xml $(TESTS)

lint: $(TESTED) types  ## style and types
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy

# The tree that mypy reads: links that give the folders the names by which they import one another.
types:
	@rm -rf build/types
	@mkdir -p build/types/seedbed
	@ln -s $(addprefix ../../../,$(wildcard main/*) spec hw golden sim flow boards drivers studies) build/types/seedbed/

clean:  ## remove build files, not the environment
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis

help:  ## this list
	@sed -n 's/^\([a-z]*\):.*  ## /  make \1\t/p' Makefile | expand -t 16
