# A SageMaker serving container for NVIDIA Merlin, and the local SageMaker beside it. Three targets:
#
#   docker build -t merlin-sagemaker .                      NVIDIA's Merlin/Triton image, for GPUs
#   docker build -t merlin-sagemaker:cpu --target cpu .     plain Python, for laptops and tests
#   docker build -t merlin-sagemaker:simulator --target simulator .
#
# The first two run `python -m container serve`; `docker run IMAGE serve` is what SageMaker does.
# BuildKit builds the one target; the legacy builder makes those that stand above it, too.
# What is installed comes before our own code, and of requirements/ only the files that it is
# installed from, so that other changes cost no installation. What is the base's stays as it is:
# PYTHONDONTWRITEBYTECODE keeps bytecode away from it, while packages get theirs from pip.

ARG BASE_IMAGE=nvcr.io/nvidia/merlin/merlin-pytorch:23.12
ARG CPU_BASE=python:3.11-slim-bookworm

# ---- what both serving targets carry -------------------------------------------------------------

FROM scratch AS sources
COPY container/ /opt/serve/container/
COPY serve/ /opt/serve/serve/
COPY ensemble_tools/ /opt/serve/ensemble_tools/
COPY verification/ /opt/serve/verification/

# ---- simulator: the platform's side, for docker-compose.yml ---------------------------------------

# hadolint ignore=DL3006
FROM ${CPU_BASE} AS simulator
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
ARG PYTHONDONTWRITEBYTECODE=1
WORKDIR /opt/simulator
COPY requirements/simulator.txt requirements/
RUN python3 -m venv .venv \
 && .venv/bin/python -m pip install --no-cache-dir --require-hashes -r requirements/simulator.txt \
 && .venv/bin/python -m pip uninstall --yes pip setuptools \
 && find .venv -depth -type d -name tests -exec rm -r {} + \
 && .venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > purelib \
 && echo /opt/simulator > "$(cat purelib)/simulator.pth" \
 && rm -r purelib requirements
COPY simulator/src/ .
EXPOSE 8080
ENTRYPOINT ["/opt/simulator/.venv/bin/python", "-I", "-m", "merlin_simulator"]
CMD ["--help"]

# ---- cpu: the embedded tritonserver of the wheel nvidia-pytriton, and Merlin in .venv-merlin -----

# hadolint ignore=DL3006
FROM ${CPU_BASE} AS cpu-packages
# Where pip finds torch's CPU build; without one of them PyPI's is taken, with CUDA, several GB.
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
ARG PYTHONDONTWRITEBYTECODE=1
WORKDIR /opt/serve
COPY requirements/check_system.py requirements/install_torch.sh requirements/quietly.sh \
     requirements/build.txt requirements/torch.txt requirements/torch-cuda.txt \
     requirements/models.txt requirements/stages.txt requirements/
# Wheels bring their own tests and torch its C++ headers: 300 MB that no model asks for.
RUN python3 requirements/check_system.py \
 && python3 -m venv .venv-merlin \
 && .venv-merlin/bin/python -m pip install --no-cache-dir --require-hashes \
        -r requirements/build.txt \
 && requirements/install_torch.sh .venv-merlin/bin/python -m pip install --no-cache-dir \
        --require-hashes \
 && .venv-merlin/bin/python -m pip install --no-cache-dir --require-hashes --no-build-isolation \
        -r requirements/models.txt \
 && .venv-merlin/bin/python -m pip install --no-cache-dir --require-hashes --no-deps \
        -r requirements/stages.txt \
 && find .venv-merlin -depth -type d \
        \( -name tests -o -path '*/torch/test' -o -path '*/torch/include' \) -exec rm -r {} + \
 && rm -r requirements
# The server's environment is its own: Merlin is held to protobuf 3 and numpy 1.
COPY requirements/server.txt requirements/triton.txt requirements/
RUN python3 -m venv .venv \
 && .venv/bin/python -m pip install --no-cache-dir --require-hashes -r requirements/server.txt \
 && .venv/bin/python -m pip install --no-cache-dir --require-hashes --no-deps \
        -r requirements/triton.txt \
 && .venv/bin/python -m pip uninstall --yes pip setuptools \
 && find .venv -depth -type d -name tests -exec rm -r {} + \
 && .venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > purelib \
 && echo /opt/serve > "$(cat purelib)/serve.pth" \
 && rm -r purelib requirements

FROM cpu-packages AS cpu
COPY --from=sources /opt/serve/ /opt/serve/
# The first is asked for by multi-model endpoints, the second where several containers share an
# endpoint (inference pipelines among them): each is then told its port (SAGEMAKER_BIND_TO_PORT).
LABEL com.amazonaws.sagemaker.capabilities.multi-models=true \
      com.amazonaws.sagemaker.capabilities.accept-bind-to-port=true
EXPOSE 8080
ENTRYPOINT ["/opt/serve/.venv/bin/python", "-I", "-m", "container"]
CMD ["serve"]

# ---- gpu: NVIDIA's image has tritonserver, its backends and Python already ------------------------

# Merlin's, which has Merlin, too, or a plain one of Triton's (docs/images.md).
# hadolint ignore=DL3006
FROM ${BASE_IMAGE} AS gpu
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
ARG PYTHONDONTWRITEBYTECODE=1
WORKDIR /opt/serve
COPY requirements/check_base.sh requirements/server.txt requirements/
# NVIDIA's images lack ensurepip, so their own pip installs into the server's environment: into a
# folder, as PEP 668 lets it. Merlin's also sets PYTHONPATH, which puts its old protobuf, numpy and
# typing_extensions before the environment's own: pip and (by -I) the server must not see it.
RUN requirements/check_base.sh \
 && unset PYTHONPATH \
 && python3 -m venv --without-pip .venv \
 && .venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > purelib \
 && python3 -m pip install --no-cache-dir --require-hashes \
        --target "$(cat purelib)" -r requirements/server.txt \
 && find .venv -depth -type d -name tests -exec rm -r {} + \
 && echo /opt/serve > "$(cat purelib)/serve.pth" \
 && rm -r purelib requirements
COPY --from=sources /opt/serve/ /opt/serve/
LABEL com.amazonaws.sagemaker.capabilities.multi-models=true \
      com.amazonaws.sagemaker.capabilities.accept-bind-to-port=true
EXPOSE 8080
ENTRYPOINT ["/opt/serve/.venv/bin/python", "-I", "-m", "container"]
CMD ["serve"]
