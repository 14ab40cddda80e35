# Everything that is run from a checkout. `make` alone lists the targets.

# The server and what the demo serves run on any of three Pythons, Debian's or any other with a
# shared libpython; Merlin's packages are for 3.11 alone.
named := $(PYTHON)
ifndef PYTHON
PYTHON := $(shell requirements/find_python.sh 3.11 3.12 3.10)
endif
MERLIN_PYTHON := $(shell PYTHON=$(PYTHON) requirements/find_python.sh 3.11)

# What is installed is known by its locks' content, and by its Python: a checkout that only touches
# them costs nothing.
server_locks := $(addprefix requirements/,server.txt tools.txt simulator.txt deploy.txt dev.txt)
triton_lock := requirements/triton.txt
triton_2_36_lock := requirements/triton-2.36.txt
torch_locks := $(addprefix requirements/,torch.txt torch-cuda.txt)
demo_locks := requirements/demo.txt $(torch_locks)
models_locks := $(addprefix requirements/,build.txt models.txt stages.txt) $(torch_locks)
frameworks_lock := requirements/frameworks.txt
aws_lock := requirements/aws.txt
version := $(if $(PYTHON),$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])'))
digest = $(shell cat $(1) | sha256sum | cut -c 1-12)

server := .venv/.installed-$(version)-$(call digest,$(server_locks))
triton := .venv/.tritonserver-$(call digest,$(triton_lock))
checks := .venv/.checks
triton_2_36 := .triton/2.36/.installed-$(call digest,$(triton_2_36_lock))
small := .venv-models/.installed-$(version)-$(call digest,$(demo_locks))
models := .venv-merlin/.installed-$(call digest,$(models_locks))
frameworks := .venv-frameworks/.installed-$(call digest,$(frameworks_lock))
aws := .venv-aws/.installed-$(call digest,$(aws_lock))
# Merlin's environment has what the demo needs, where it is made already.
demo_models := $(or $(wildcard $(models)),$(small))

# Projects of their own, which `make -C` tests.
projects := deploy simulator
short_suites := $(addsuffix /tests/unit,$(projects))

quietly := requirements/quietly.sh
pip := -m pip --disable-pip-version-check --no-input
install := install --require-hashes
venv := -m venv --clear
# An environment is emptied before it is made anew. Where it is a link, that would empty what it leads to.
no_link = @test ! -L $(1) || { echo '$(1) is a link, and what it leads to is not as the locks here want it: make it anew there, or remove the link' >&2; exit 1; }
# conftest.py has the order: xdist's own would leave the longest modules to the end. Bytecode is
# written whatever the shell says: the tests start hundreds of processes of ours. Tests that start
# tritonservers wait a lot, so more of them run at a time; each worker collects all tests, for 5 s.
pytest = PYTHONDONTWRITEBYTECODE= .venv/bin/python -m pytest -n $(or $(N),$(1)) --dist loadscope --no-loadscope-reorder

# A fifth of the examples of each property.
short := --hypothesis-profile short

.DELETE_ON_ERROR:
ifneq ($(filter clean,$(MAKECMDGOALS)),)
.NOTPARALLEL:
endif
.PHONY: help setup demo check test test-all suite suite-all test-docker listings lint bench bench-short bench-workflows figures exports fuzz-graphs fuzz-json fuzz-workflows fuzz-http soak chaos beside every-call plan-table plan-speed sbom pythons lock clean with-demo with-checks with-all

help:  ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s%s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

# A second make, here and below, since the first line may have brought a Python.
demo:  ## serves two Merlin exports and compares the numbers: a minute the first time, 10 s after
	@PYTHON=$(named) requirements/system.sh demo
	@$(MAKE) --no-print-directory -j2 with-demo
	@SERVE_BACKEND_PYTHON="$${SERVE_BACKEND_PYTHON:-$(CURDIR)/$(if $(wildcard $(models)),.venv-merlin,.venv-models)/bin/python}" \
		PYTHONDONTWRITEBYTECODE= .venv/bin/python examples/demo.py

setup:  ## makes all environments, Merlin's too: 4 minutes with -j2; does nothing the second time
	@PYTHON=$(named) requirements/system.sh setup
	@+$(MAKE) --no-print-directory with-all

check:  ## lint, then the unit and golden tests that are quick and need no tritonserver: two minutes
	@PYTHON=$(named) requirements/system.sh check
	@$(MAKE) --no-print-directory setup
	@$(MAKE) --no-print-directory lint
	$(call pytest,4) $(short) -m 'not (tritonserver or slow or thorough)' tests/architecture tests/unit tests/golden $(short_suites)

test:  ## lint, and the image's suite with the projects' short ones, side by side: 8 minutes (N=6 tests at a time)
	@PYTHON=$(named) requirements/system.sh test
	@$(MAKE) --no-print-directory setup
	@$(MAKE) --no-print-directory -j2 lint suite

test-all:  ## lint, and all tests of all projects, what is long or random too: all that needs no Docker
	@PYTHON=$(named) requirements/system.sh test
	@$(MAKE) --no-print-directory setup
	@$(MAKE) --no-print-directory -j2 lint suite-all

suite: setup
	$(call pytest,6) $(short) -m 'not thorough' --ignore tests/docker tests $(short_suites)

suite-all: setup
	$(call pytest,6) --ignore tests/docker

test-docker: setup  ## builds the images, runs them and the compose stack; needs Docker, or root and dockerd
	.venv/bin/python -m pytest tests/docker

listings: with-checks  ## what in the pages is made: settings, metrics, decisions, figures of bench/results.json
	.venv/bin/python -m tests.architecture.listings

lint: with-checks  ## ruff, mypy, the arrows between the rooms, the Dockerfile
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports
	@for project in $(projects); do $(MAKE) --no-print-directory -C $$project lint || exit; done
	.venv/bin/hadolint Dockerfile tests/docker/stand_in/*.Dockerfile

bench: setup  ## measures the container beside Triton's own frontend (half an hour); writes OUT (bench-report)
	.venv/bin/python -m bench --out $(or $(OUT),bench-report)

bench-short: setup  ## the same, some rows of it in under two minutes
	.venv/bin/python -m bench --short --out $(or $(OUT),bench-report)

bench-workflows: setup  ## measures what compiling NVTabular workflows is worth (45 minutes); writes OUT (bench-report/workflows)
	.venv/bin/python -m bench workflows --out $(or $(OUT),bench-report/workflows)

# README's rows, and those behind its first table.
quoted := cold_load_python cold_load_merlin reload_merlin unload small_json_p50 small_json_throughput_16 \
	binary_1mb binary_5mb json_190kb json_1_9mb json_5_5mb small_beside_large start_to_ping server_memory
quoted_workflows := workflow_dense copies_dense copies_tensorflow_ragged copies_forest_xgboost copies_forest_lightgbm

figures: setup  ## measures what the README quotes (25 minutes), into bench/results.json and the pages
	.venv/bin/python -m bench --record --rows $(quoted) --out $(or $(OUT),bench-report)
	.venv/bin/python -m bench workflows --record --rows $(quoted_workflows) --out $(or $(OUT),bench-report)/workflows
	$(MAKE) --no-print-directory listings

exports: setup  ## trains and exports examples/merlin and examples/multistage anew, in place
	.venv-merlin/bin/python examples/merlin/export.py examples/merlin
	.venv-frameworks/bin/python -m examples.merlin.export_frameworks examples/merlin
	.venv-merlin/bin/python -m examples.multistage.export examples/multistage

fuzz-graphs: setup  ## N random Merlin graphs (N=50 SEED=1) against Merlin's own executor
	.venv/bin/python -m tests.graphs.fuzz --count $(or $(N),50) --seed $(or $(SEED),1) --keep $(or $(KEEP),/tmp/fuzz-graphs)

fuzz-json: setup  ## N random JSON requests (N=5000 SEED=1): tritonserver's answers against the container's
	.venv/bin/python -m tests.json_requests.fuzz --count $(or $(N),5000) --seed $(or $(SEED),1) --keep $(or $(KEEP),/tmp/fuzz-json)

fuzz-workflows: setup  ## N random NVTabular workflows (N=200 SEED=1), compiled, against NVTabular's own answers
	.venv/bin/python -m tests.workflows --cases $(or $(N),200) --seed $(or $(SEED),1) --keep $(or $(KEEP),/tmp/fuzz-workflows)

fuzz-http: setup  ## N random requests over raw sockets (N=100000 SEED=1): no death, no 5xx, the values that were sent
	.venv/bin/python -m tests.reliability.fuzz_http --count $(or $(N),100000) --seed $(or $(SEED),1) --keep $(or $(KEEP),/tmp/fuzz-http)

soak: setup  ## N minutes (N=10) of load, invoke, unload, three at a time, with all exports: whether anything is left
	.venv/bin/python -m tests.reliability.soak --minutes $(or $(N),10) --out $(or $(OUT),reliability-report)

chaos: setup  ## N minutes (N=10 SEED=1) of kills, shortages and attacks beside 20 tenants whose every answer is checked
	.venv/bin/python -m tests.reliability.chaos --minutes $(or $(N),10) --seed $(or $(SEED),1) --out $(or $(OUT),reliability-report)

every-call: setup  ## each call of deploy's up, rollback and down fails once, in six ways; half an hour (KINDS="half lost")
	@$(MAKE) --no-print-directory -C deploy every-call KINDS='$(KINDS)'

beside: setup  ## each hostile request and archive on the container and on Triton's own frontend, as a table
	.venv/bin/python -m tests.reliability.beside --out $(or $(OUT),reliability-report)

pythons: setup  ## which Pythons of server and models serve Merlin's numbers, each with each (numpy for 3.13 compiles)
	.venv/bin/python -m tests.pythons

sbom: with-checks  ## what is in each image, as CycloneDX; writes OUT (sbom)
	.venv/bin/python -m images --out $(or $(OUT),sbom)

plan-table: setup  ## replays eight settings twice, each beside the plan that is like it (12 minutes); writes OUT (plan-report)
	@$(MAKE) --no-print-directory -C simulator plan-table OUT=$(abspath $(or $(OUT),plan-report))

plan-speed: setup  ## times plans of 10^4 to 10^9 requests to 10,000 models (5 minutes); writes OUT (plan-report)
	@$(MAKE) --no-print-directory -C simulator plan-speed OUT=$(abspath $(or $(OUT),plan-report))

lock:  ## requirements/*.in -> *.txt; needs uv
	requirements/lock.sh

clean:  ## removes what setup and demo made
	rm -rf .venv .venv-models .venv-merlin .venv-frameworks .venv-aws .triton .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build

with-demo: $(server) $(triton) $(demo_models)
	@:

with-checks: $(server) $(checks)
	@:

with-all: $(server) $(triton) $(checks) $(triton_2_36) $(models) $(frameworks) $(aws)
	@:

# A changed lock makes its environment anew, so that nothing stays in it that the lock no longer names.

# --no-compile: the demo runs a part of it, and compiles that as it runs.
$(server):
	@NO_APT=1 PYTHON=$(named) requirements/system.sh demo
	@echo 'setup, .venv: the server ($(PYTHON), 520 MB on disk)'
	$(call no_link,.venv)
	@$(PYTHON) $(venv) .venv
	@$(quietly) .venv/bin/python $(pip) $(install) --no-compile -r requirements/server.txt
	@touch $@

# --no-deps: only the tritonserver inside the wheel is wanted.
$(triton): $(server)
	@echo 'setup, .venv: tritonserver 2.51 (55 MB)'
	$(call no_link,.venv)
	@$(quietly) .venv/bin/python $(pip) $(install) --no-compile --no-deps -r $(triton_lock)
	@touch $@

# The tests start hundreds of processes: all that they import is compiled first.
$(checks): $(server) | $(triton)
	@echo 'setup, .venv: the simulator, the tests and the checks (400 MB on disk)'
	$(call no_link,.venv)
	@$(quietly) .venv/bin/python $(pip) $(install) --no-compile $(addprefix -r ,$(server_locks))
	@$(quietly) .venv/bin/python -m compileall -q -j 0 .venv/lib
	@touch $@

# torch first: the CPU build where pip finds it, else PyPI's.
$(small):
	@echo 'setup, .venv-models: numpy and torch, for compiled exports (830 MB on disk)'
	$(call no_link,.venv-models)
	@$(PYTHON) $(venv) .venv-models
	@requirements/install_torch.sh .venv-models/bin/python $(pip) $(install) --no-compile
	@$(quietly) .venv-models/bin/python $(pip) $(install) --no-compile --no-deps -r requirements/demo.txt
	@PYTHONDONTWRITEBYTECODE= .venv-models/bin/python -c 'import torch' # models write no bytecode
	@touch $@

$(triton_2_36): | $(server)
	@echo 'setup, .triton/2.36: tritonserver 2.36, for the contract tests (40 MB)'
	$(call no_link,.triton)
	@rm -rf $(@D)
	@$(quietly) .venv/bin/python $(pip) $(install) --no-deps --target $(@D) -r $(triton_2_36_lock)
	@touch $@

# torch first, as above: the rest then asks for no other.
$(models): | $(server)
	@echo 'setup, .venv-merlin: Merlin 23.08, torch, FAISS, implicit and Feast (1.9 GB on disk)'
	$(call no_link,.venv-merlin)
	@$(MERLIN_PYTHON) $(venv) .venv-merlin
	@$(quietly) .venv-merlin/bin/python $(pip) $(install) -r requirements/build.txt
	@requirements/install_torch.sh .venv-merlin/bin/python $(pip) $(install)
	@$(quietly) .venv-merlin/bin/python $(pip) $(install) --no-build-isolation -r requirements/models.txt
	@$(quietly) .venv-merlin/bin/python $(pip) $(install) --no-deps -r requirements/stages.txt
	@rm -r .venv-merlin/lib/python3.11/site-packages/tests # Feast's wheel has its own, which hides ours
	@touch $@

# What is not here comes from the models' environment, which Python searches after this one.
$(frameworks): | $(models)
	@echo 'setup, .venv-frameworks: tensorflow, xgboost and lightgbm, beside .venv-merlin (1 GB on disk)'
	$(call no_link,.venv-frameworks)
	@$(MERLIN_PYTHON) $(venv) --without-pip .venv-frameworks
	@cd .venv-frameworks/lib/python3.11/site-packages && \
		echo ../../../../.venv-merlin/lib/python3.11/site-packages > models.pth
	@$(quietly) .venv-merlin/bin/python $(pip) --python .venv-frameworks/bin/python \
		$(install) --no-deps -r $(frameworks_lock)
	@touch $@

# The environment is the callers' own: no other package of this project is seen from it.
$(aws): | $(server)
	@echo 'setup, .venv-aws: the AWS command line and the SageMaker SDK, for the tests (440 MB on disk)'
	$(call no_link,.venv-aws)
	@$(MERLIN_PYTHON) $(venv) --without-pip .venv-aws
	@$(quietly) .venv/bin/python $(pip) --python .venv-aws/bin/python $(install) -r $(aws_lock)
	@touch $@
