# Hedgerow's commands; each sets up what it needs in .venv first.
.PHONY: help demo test test-on-compiled test-all-others test-on-one-build test-others all-others one-build-in-ci others-in-ci imported quick check check-then-alone peers compiled compiled-in-ci test-compiled test-deploy wheels wheelhouse deb bench soak notice clean
.DEFAULT_GOAL := help

# SEED=N (below 2^32) replays what a run of CI drew, which prints it: the order of the tests, what they draw themselves,
# and Python's hashes, by which sets are ordered. Without it modules run as they stand, and draw by seed 1. --seed is
# known where a path is named.
SEED ?=
DRAWN = $(if $(SEED),--random-order-seed=$(SEED) --seed=$(SEED))
HASHED = PYTHONHASHSEED=$(or $(SEED),1)
PYTEST = $(HASHED) .venv/bin/python -m pytest $(DRAWN)
HOW = --dist loadscope --no-loadscope-reorder
BESIDE = -n $(or $(WORKERS),logical) $(HOW)
# Tests wait for half of their time, for processes and disks: there are more workers than processors, and ports for 12.
# Each has some 600 MB.
AT_ONCE = $(or $(WORKERS),$(shell n=$$(nproc); echo $$((n < 8 ? n + 4 : 12))))
# Another build of the same sources, where `make compiled` has made one: `make test` runs these
# slices on it too, without this folder's own sources on the path. CI makes one beside the checks, and
# runs each test of ON_ONE_BUILD but once: compiled if it can be, interpreted if it replaces what is
# compiled. Without a compiled build all of them run interpreted, and in `make soak` on both.
COMPILED = .venv-compiled
ON_ONE_BUILD = tests/unit/gateway tests/unit/resource_directory tests/unit/tree_handler tests/unit/coap_engine \
	tests/unit/dtls tests/conformance tests/simulation tests/faults
# Over a benchmark, which no wheel has.
UNCOMPILED = tests/simulation/test_directory_digests.py
PASSED = .pytest_cache/passed-compiled
COLLECTED = .pytest_cache/collected

# Tests start several hundred Pythons; where an image forbids byte code each would compile all sources again.
unexport PYTHONDONTWRITEBYTECODE
# A newcomer has it not, and what is printed to a pipe waits there until it is flushed.
unexport PYTHONUNBUFFERED

help: ## show this list
	@sed -n 's/^\([a-z-]*\):.*## /  make \1\t/p' $(MAKEFILE_LIST) | expand -t 22

demo: ## three gateways, a collector and Spark on this machine, and a page to look at
	@deploy/set-up demo
	@.venv/bin/hedgerow demo --report demo-report

test: ## all checks and tests
	@deploy/set-up test
	@$(MAKE) --no-print-directory -j3 $(if $(CI),one-build-in-ci others-in-ci,check-then-alone all-others)

# Nothing waits for what it does not need. What has begun leaves the processor to the checks, and to the tests that would
# run alone. In CI a second build is compiled meanwhile.
all-others: imported
	@nice -n 5 $(MAKE) --no-print-directory test-on-compiled test-all-others

one-build-in-ci: check-then-alone compiled-in-ci
	@nice -n 5 $(MAKE) --no-print-directory test-on-one-build

others-in-ci: imported
	@nice -n 5 $(MAKE) --no-print-directory test-others

test-on-compiled:
	@rm -f $(PASSED)
	@if [ -x $(COMPILED)/bin/python ] && deploy/compiled --is-current; then \
		echo "Running unit, conformance and simulation tests on the compiled build"; \
		mkdir -p .pytest_cache; \
		$(HASHED) HEDGEROW_BUILD=compiled PYTHONSAFEPATH=1 $(COMPILED)/bin/python -m pytest -o pythonpath= \
			$(DRAWN) $(BESIDE) -m "not alone" $(ON_ONE_BUILD) --ignore $(UNCOMPILED) \
			--note-passed $(PASSED) || exit; fi

test-all-others:
	@echo "Running all other tests (several minutes; real processes, and Spark once)"
	@$(PYTEST) -n $(AT_ONCE) $(HOW) -m "not alone" tests

test-on-one-build: test-on-compiled
	@echo "Running those that no compiled build has passed (units, simulations, faults)"
	@$(PYTEST) $(BESIDE) -m "not alone" $(ON_ONE_BUILD) $(if $(CI),--passed-before $(PASSED))

# The second of two that run at once takes its ports behind those of the first one's workers.
test-others:
	@echo "Running all other tests (several minutes; real processes, and Spark once)"
	@FIRST_WORKER=6 $(PYTEST) -n $(or $(OTHER_WORKERS),logical) $(HOW) -m "not alone" tests $(addprefix --ignore=,$(ON_ONE_BUILD))

quick: ## the tests of a working day: units that take no seconds each (under 90 s)
	@deploy/set-up test
	@$(PYTEST) $(BESIDE) -m "not alone and not slow" tests/unit

check: ## format, lint, types, who imports whom, and the measures of the house
	@deploy/set-up test
	@echo "Checking format, lint, types and imports"
	@.venv/bin/ruff format --check --quiet .
	@.venv/bin/ruff check --quiet .
	@.venv/bin/mypy
	@.venv/bin/lint-imports --no-logo 2>/dev/null || .venv/bin/lint-imports
	@.venv/bin/python deploy/house.py --quiet
	@.venv/bin/python deploy/ways.py

peers: ## the programs of others that the tests talk to (Debian packages; needs root)
	@deploy/peers

compiled: ## what mypyc makes of the hot packages, in .venv-compiled (needs gcc; some minutes)
	@deploy/compiled

check-then-alone: check imported
	@echo "Running the tests that run beside no other"
	@$(PYTEST) -m alone tests

# Python's byte code of all that tests import, once: each worker would begin by making it for itself.
imported:
	@mkdir -p .pytest_cache
	@$(PYTEST) --collect-only --quiet tests >$(COLLECTED) || { tail -n 40 $(COLLECTED); exit 1; }

# It leaves the processor to the checks and to the tests that would run alone, which mostly wait for a silent neighbour.
# What mypyc makes is tested here, not what gcc makes of that, so the fastest compiler of C does.
compiled-in-ci:
	@HEDGEROW_COMPILER=$$(command -v tcc >/dev/null && echo tcc || echo gcc) HEDGEROW_OPTIMISATION=0 \
		nice -n 5 deploy/compiled --borrow

test-compiled: compiled ## units, conformance, simulations, faults and kills on the compiled build
	@deploy/test-compiled $(TESTS)

test-deploy: ## boot Debian systems, provision, upgrade and break them (root; over an hour, four at a time; WORKERS=1)
	@deploy/set-up test
	@.venv/bin/python -m pytest tests/deploy tests/system -m deploy --timeout 0 -s \
		-n $(or $(WORKERS),4) --dist loadscope $(DEPLOY)

wheels: ## compiled wheels for Pis and PCs, in dist/wheels (KINDS=cp313-aarch64 for one)
	@deploy/wheels $(KINDS)

wheelhouse: ## all wheels for a machine without internet, in dist/wheelhouse (KINDS=cp313-aarch64)
	@deploy/set-up package
	@deploy/wheelhouse $(KINDS)

notice: ## small changes drawn by SEED, and which of them no test notices (COUNT=100, ONLY=folder, REACHED=file; hours)
	@deploy/set-up test
	.venv/bin/python tests/mutants --seed $(or $(SEED),$(shell date +%N | sed 's/^0*//')) --count $(or $(COUNT),100) $(if $(ONLY),--only $(ONLY)) $(if $(REACHED),--reached $(REACHED))

deb: ## a Debian package, in dist/deb (KINDS=cp313-aarch64; by default for this Debian)
	@deploy/set-up package
	@deploy/deb $(KINDS)

bench: compiled ## broker, CoAP and tree beside their peers (half an hour; QUICK=--quick for less)
	@deploy/set-up test
	@.venv/bin/python -m benchmarks.broker $(QUICK)
	@.venv/bin/python -m benchmarks.coap $(QUICK)
	@.venv/bin/python -m benchmarks.dtls $(QUICK)
	@.venv/bin/python -m benchmarks.rd $(QUICK)
	@.venv/bin/python -m benchmarks.query $(QUICK)
	@.venv/bin/python -m benchmarks.fleet $(QUICK)
	@.venv/bin/python -m benchmarks.request_forms $(QUICK)
	@.venv/bin/python -m benchmarks.ingest $(QUICK)
	@.venv/bin/python -m benchmarks.mesh $(QUICK) || [ $$? = 2 ] # 2: not root, and said so
	@.venv/bin/python -m benchmarks.tree $(QUICK)

# Fuzzed on both builds: sources, guided by what they reach, and what mypyc made of them.
FUZZED = parser connection coap dtls rd policy signed

soak: ## long checks that CI leaves out (FUZZ_S=60 fuzzes each target for a minute)
	@deploy/set-up soak
	@.venv/bin/hedgerow simulate --runs 10000 --gateways 4 --gateways-to 50 --seed 1
	@for subject in routed topic overlays retained directory; do .venv/bin/hedgerow simulate --subject $$subject \
		--runs 1000 --gateways 3 --gateways-to 12 --seed 1 || exit; done
	@for gateways in 2 3 4; do .venv/bin/hedgerow simulate --exhaustive $$gateways || exit; done
	@.venv/bin/python -m pytest tests/system --soak --timeout 0
	@.venv/bin/python -m pytest $(ON_ONE_BUILD) tests/unit/deploy tests/unit/cloud_ingest tests/documents --soak --timeout 0
	@$(MAKE) --no-print-directory test-compiled
	@.venv/bin/python -m pytest tests/network --soak --timeout 0
	@.venv/bin/python -m pytest tests/flash/test_first_boot.py --soak --timeout 0 -s
	@.venv/bin/python -m pytest tests/limits/test_coap_under_attack.py tests/limits/test_mqtt_under_attack.py \
		tests/limits/test_beside_a_stolen_gateway.py tests/limits/test_dtls_floods.py tests/limits/test_hostile_fleet.py \
		tests/limits/test_back_pressure.py \
		tests/limits/test_work_under_attack.py tests/limits/test_small_memory.py tests/flash/test_system_card.py tests/unit/cloud_ingest/test_proven_again.py \
		tests/unit/benchmarks/test_ingest_growth.py --soak --timeout 0 -s
	@.venv/bin/python -m pytest tests/interop/test_dtls_over_a_bad_network.py tests/interop/test_named_write_over_a_kill.py --soak --timeout 0 -s
	@.venv/bin/python -m benchmarks.first_hour
	@.venv/bin/python -m pip freeze | grep ^atheris= | xargs -r $(COMPILED)/bin/python -m pip install --quiet
	@for python in ".venv/bin/python" "$(COMPILED)/bin/python -P"; do for target in $(FUZZED); do \
		$$python tests/fuzz $$target $(if $(FUZZ_S),--seconds $(FUZZ_S)) || [ $$? = 3 ] || exit; done; done # 3: no wheel, and said so
	@.venv/bin/python tests/fuzz work --seconds $(or $(FUZZ_S),300)
	@.venv/bin/python tests/fuzz ingest --seconds $(or $(FUZZ_S),3600)

clean: ## remove .venv and what commands left here
	@rm -rf .venv .venv-compiled build dist demo-report *.egg-info
