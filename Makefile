# What developers and CI run. `make` alone lists the targets.
#
# Each target makes the environment that it needs (.venv-demo, .venv-test, ...) from pyproject.toml; an environment is made
# anew only when pyproject.toml changes, and the package is reinstalled when a source file changes.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

PYTHON ?= python3
NVCC ?= nvcc
CUDA_ARCHITECTURES ?= 80 90 100
NVCC_FLAGS ?= -O3 -fmad=false -Icsrc/include -Icsrc -Icuda --Werror all-warnings -Xcompiler=-Wall,-Wextra
SANITIZE ?= address,undefined
JOBS ?= $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
PYTEST_WORKERS ?= 2
PYTEST_ARGS ?=
# The versions of vLLM that test-vllm runs on: the first with its CPU kernels, any other with simulated steps.
VLLM_KERNELS := 0.32.0
VERSION ?= $(VLLM_KERNELS) 0.33.0

# The machine needs Python, a C++20 compiler and make; these come from the package index.
BUILD_TOOLS := cmake ninja scikit-build-core pybind11

export PIP_DISABLE_PIP_VERSION_CHECK := 1

existing = $(wildcard $(1))
CPP_FOLDERS := $(call existing,csrc cuda tests/cpp)
PACKAGE_SOURCES := CMakeLists.txt pyproject.toml $(shell find $(call existing,csrc cuda cmake python) -type f \
  \( -name '*.cpp' -o -name '*.hpp' -o -name '*.h' -o -name '*.map' -o -name '*.in' -o -name '*.cu' -o -name '*.cuh' -o -name '*.cmake' \
  -o -name '*.py' -o -name '*.pyi' -o -name '*.patch' \))
FORMATTED = $(shell find $(CPP_FOLDERS) $(call existing,examples bench/cpp) -type f \
  \( -name '*.c' -o -name '*.h' -o -name '*.cpp' -o -name '*.hpp' -o -name '*.cu' -o -name '*.cuh' \))
# CUDA's words on the host (tests/cpp/cuda_on_host.hpp) break every rule of naming.
TIDIED = $(shell find $(call existing,csrc tests/cpp) -type f -name '*.cpp' ! -name 'test_cuda_*')
TESTS_CPP := $(if $(wildcard tests/cpp/CMakeLists.txt),ON,OFF)

TEST := .venv-test/bin
CMAKE = $(TEST)/cmake -G Ninja -DCMAKE_MAKE_PROGRAM="$(CURDIR)/$(TEST)/ninja" -S .
step = @printf '\n==> %s\n' '$(1)'

define check_python
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
  echo "KVopt needs Python 3.11 or newer, but '$(PYTHON)' is: $$($(PYTHON) --version 2>&1 || true)" >&2; \
  echo "Name another one, as in: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
endef

.PHONY: help demo test test-cpp test-python test-vllm test-gpu lint lint-python lint-cpp cuda-check format bench dev clean

help:  ## list the targets
	@echo 'KVopt targets (PYTHON, JOBS, NVCC, SANITIZE, PYTEST_ARGS, VERSION can be set on the command line):'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

demo: .venv-demo/.installed  ## install into a fresh environment and compare the policies on the built-in workload
	.venv-demo/bin/kvopt compare

test: test-cpp test-python test-vllm lint cuda-check  ## everything that CI checks: C++, Python and vLLM tests, lint, CUDA compilation
	$(call step,All checks passed)

test-cpp: .venv-test/.ready  ## the C++ tests, under sanitizers and with internal checks
ifeq ($(TESTS_CPP),ON)
	$(call step,C++ tests ($(SANITIZE)))
	$(CMAKE) -B build/cpp -DKVOPT_TESTS=ON -DKVOPT_PYTHON=OFF -DKVOPT_CUDA=OFF -DKVOPT_WERROR=ON \
	  -DKVOPT_SANITIZE=$(SANITIZE) -DKVOPT_INTERNAL_CHECKS=ON -DCMAKE_BUILD_TYPE=RelWithDebInfo \
	  -DCMAKE_CXX_FLAGS=-D_GLIBCXX_ASSERTIONS
	$(TEST)/cmake --build build/cpp -j $(JOBS)
	UBSAN_OPTIONS=print_stacktrace=1 $(TEST)/ctest --test-dir build/cpp --output-on-failure --no-tests=error -j $(JOBS)
else
	$(call step,C++ tests: skipped because tests/cpp/CMakeLists.txt does not exist)
endif

test-python: .venv-test/.installed  ## the Python tests, all marks, against a build with warnings as errors
	$(call step,Python tests)
	$(TEST)/python -m pytest -n $(PYTEST_WORKERS) $(PYTEST_ARGS)

# vLLM of $(1) in an environment of its own; one process, as importing vLLM alone takes seconds.
define vllm_lane
.PHONY: test-vllm-$(1)
test-vllm-$(1): .venv-vllm-$(1)/.installed
	$$(call step,vLLM $(1))
	.venv-vllm-$(1)/bin/python -m pytest tests/vllm $$(PYTEST_ARGS)
endef
$(foreach version,$(VERSION),$(eval $(call vllm_lane,$(version))))

test-vllm: $(VERSION:%=test-vllm-%)  ## the tests inside real vLLM: VERSION="0.31.0" for others than CI's

lint: lint-python lint-cpp  ## formatting, linters and types; any finding is an error

lint-python: .venv-test/.ready
	$(call step,ruff and mypy)
	$(TEST)/ruff check .
	$(TEST)/ruff format --check .
	$(TEST)/mypy

lint-cpp: .venv-test/.ready
	$(call step,clang-format and clang-tidy)
	$(TEST)/clang-format --dry-run --Werror $(FORMATTED)
	$(CMAKE) -B build/lint --log-level=WARNING -DKVOPT_TESTS=$(TESTS_CPP) -DKVOPT_CUDA=OFF -DCMAKE_BUILD_TYPE=Debug \
	  -DPython_EXECUTABLE="$(CURDIR)/$(TEST)/python" -Dpybind11_DIR="$$($(TEST)/python -m pybind11 --cmakedir)"
	printf '%s\n' $(if $(filter ON,$(TESTS_CPP)),$(TIDIED),$(filter-out tests/%,$(TIDIED))) | \
	  xargs -P $(JOBS) -n 1 $(TEST)/clang-tidy -p build/lint --quiet

cuda-check: ## compile every CUDA source for each architecture, where nvcc is found
	$(call step,CUDA compilation)
	@sources="$(wildcard cuda/*.cu tests/cuda/*.cu)"; \
	if ! command -v $(NVCC) > /dev/null; then echo 'skipped: $(NVCC) not found (set NVCC to name it)'; exit 0; fi; \
	known=" $$($(NVCC) --list-gpu-code | tr '\n' ' ') "; targets=(); \
	for architecture in $(CUDA_ARCHITECTURES); do \
	  if [[ "$$known" != *" sm_$$architecture "* ]]; then echo "skipped: this nvcc does not know sm_$$architecture"; continue; fi; \
	  echo "for sm_$$architecture"; \
	  targets+=("-gencode=arch=compute_$$architecture,code=sm_$$architecture"); \
	done; \
	mkdir -p build/cuda; \
	printf '%s\n' $$sources | TARGETS="$${targets[*]}" xargs -P $(JOBS) -I {} bash -c \
	  'echo {}; exec $(NVCC) -std=c++20 -ccbin "$(CXX)" $$TARGETS $(NVCC_FLAGS) -c {} -o build/cuda/$$(basename {}).o'

test-gpu:  ## build, check and time the scoring kernels on this machine's GPU
	$(call step,Scoring kernels on a GPU)
	@mkdir -p build/gpu
	@printf '%s\n' $(wildcard cuda/*.cu tests/cuda/*.cu csrc/scoring/*.cpp) | xargs -P $(JOBS) -I {} bash -c \
	  'echo {}; exec $(NVCC) -std=c++20 -ccbin "$(CXX)" -arch=native $(NVCC_FLAGS) -c {} -o build/gpu/$$(basename {}).o'
	$(NVCC) -ccbin "$(CXX)" -arch=native -cudart static build/gpu/*.o -o build/gpu/check_gpu
	@if command -v compute-sanitizer > /dev/null; then compute-sanitizer --error-exitcode 1 build/gpu/check_gpu --quick; \
	else echo 'compute-sanitizer: not found, so not run'; fi
	build/gpu/check_gpu

format: .venv-test/.ready  ## rewrite the sources in the project's format
	$(TEST)/ruff check --select I --fix .
	$(TEST)/ruff format .
	$(TEST)/clang-format -i $(FORMATTED)

bench: .venv-bench/.installed  ## the benchmarks, beside their peers, and their figures as tables
	mkdir -p build
	.venv-bench/bin/python -m pytest bench -p no:cacheprovider --benchmark-quiet \
	  --benchmark-json=build/bench.json $(PYTEST_ARGS)
	.venv-bench/bin/python bench/report.py build/bench.json

dev: pyproject.toml  ## an editable install with everything in .venv
	$(check_python)
	$(PYTHON) -m venv .venv
	.venv/bin/pip install --quiet $(BUILD_TOOLS)
	.venv/bin/pip install --no-build-isolation --check-build-dependencies --config-settings=build-dir=build/dev -e '.[test,lint,bench]'

clean:  ## remove what the other targets made, except .venv
	rm -rf build dist .venv-demo .venv-test .venv-bench .venv-vllm-* .mypy_cache .pytest_cache .ruff_cache .hypothesis .benchmarks
	find $(call existing,python tests bench) -name __pycache__ -type d -prune -exec rm -rf {} +

.venv-%/.ready: pyproject.toml
	$(call step,Environment .venv-$*)
	$(check_python)
	$(PYTHON) -m venv --clear .venv-$*
	.venv-$*/bin/pip install --quiet $(BUILD_TOOLS)
	.venv-$*/bin/pip install --quiet --no-build-isolation --check-build-dependencies --config-settings=wheel.cmake=false '.[$(EXTRAS)]'
	touch $@

.venv-%/.installed: .venv-%/.ready $(PACKAGE_SOURCES)
	$(call step,Package in .venv-$*)
	.venv-$*/bin/pip install --no-build-isolation --no-deps --force-reinstall --config-settings=build-dir=build/wheel-$* $(BUILD_FLAGS) .
	touch $@

# The demo installs as a user would: with pip's own build isolation.
.venv-demo/.ready: pyproject.toml
	$(call step,Environment .venv-demo)
	$(check_python)
	$(PYTHON) -m venv --clear .venv-demo
	touch $@

.venv-demo/.installed: .venv-demo/.ready $(PACKAGE_SOURCES)
	$(call step,Package in .venv-demo)
	.venv-demo/bin/pip install --quiet --config-settings=build-dir=build/wheel-demo '.[plot]'
	touch $@

# One wheel for every vLLM, from what .venv-test has compiled.
build/vllm/.wheel: .venv-test/.installed
	$(call step,Wheel for vLLM)
	rm -rf build/vllm
	.venv-test/bin/pip wheel --quiet --no-build-isolation --no-deps --config-settings=build-dir=build/wheel-test \
	  --config-settings=cmake.define.KVOPT_WERROR=ON -w build/vllm .
	touch $@

.venv-vllm-$(VLLM_KERNELS)/.ready: tests/vllm/requirements.txt
	$(call step,Environment .venv-vllm-$(VLLM_KERNELS))
	$(check_python)
	$(PYTHON) -m venv --clear .venv-vllm-$(VLLM_KERNELS)
	.venv-vllm-$(VLLM_KERNELS)/bin/pip install --quiet --no-deps -r $<
	touch $@

# Another version has no kernels for this machine; it takes its dependencies from the environment above.
.venv-vllm-%/.ready: .venv-vllm-$(VLLM_KERNELS)/.ready tests/vllm/requirements-simulated.txt
	$(call step,Environment .venv-vllm-$*)
	$(PYTHON) -m venv --clear .venv-vllm-$*
	.venv-vllm-$*/bin/python -c 'import pathlib, sysconfig; p = pathlib.Path(sysconfig.get_path("purelib")); \
	  (p / "dependencies.pth").write_text(str(p).replace("vllm-$*", "vllm-$(VLLM_KERNELS)"))'
	.venv-vllm-$*/bin/pip install --quiet --no-deps vllm==$* -r tests/vllm/requirements-simulated.txt
	touch $@

.venv-vllm-%/.installed: .venv-vllm-%/.ready build/vllm/.wheel
	$(call step,Package in .venv-vllm-$*)
	.venv-vllm-$*/bin/pip install --quiet --no-deps --force-reinstall build/vllm/kvopt-*.whl
	touch $@

.venv-test/%: EXTRAS := test,lint
.venv-bench/%: EXTRAS := bench
.venv-test/%: BUILD_FLAGS := --config-settings=cmake.define.KVOPT_WERROR=ON
.PRECIOUS: .venv-%/.ready .venv-%/.installed .venv-vllm-%/.ready .venv-vllm-%/.installed
