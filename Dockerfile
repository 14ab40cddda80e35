# A SageMaker serving container for NVIDIA Merlin. Two targets:
#
#   docker build -t merlin-sagemaker .                      NVIDIA's Merlin/Triton image, for GPUs
#   docker build -t merlin-sagemaker:cpu --target cpu .     plain Python, for laptops and tests
#
# Both run `python -m container serve`; `docker run IMAGE serve` is what SageMaker does.
# BuildKit builds the one target; the legacy builder makes `cpu` on the way to the default one.

ARG BASE_IMAGE=nvcr.io/nvidia/merlin/merlin-pytorch:23.12
ARG CPU_BASE=python:3.11-slim-bookworm

# ---- what both targets carry ---------------------------------------------------------------------

FROM scratch AS sources
COPY container/ /opt/serve/container/
COPY serve/ /opt/serve/serve/
COPY ensemble_tools/ /opt/serve/ensemble_tools/
COPY verification/ /opt/serve/verification/
COPY requirements/ /opt/serve/requirements/

# ---- cpu: the embedded tritonserver of the wheel nvidia-pytriton, and Merlin in .venv-merlin -----

# hadolint ignore=DL3006
FROM ${CPU_BASE} AS cpu
# Where pip finds torch's CPU build; without one of them PyPI's is taken, with CUDA, several GB.
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
WORKDIR /opt/serve
COPY --from=sources /opt/serve/requirements/ requirements/
RUN python3 requirements/check_system.py \
 && python3 -m venv .venv-merlin \
 && .venv-merlin/bin/python -m pip install --no-cache-dir --require-hashes \
        -r requirements/build.txt \
 && requirements/install_torch.sh .venv-merlin/bin/python -m pip install --no-cache-dir \
        --require-hashes \
 && .venv-merlin/bin/python -m pip install --no-cache-dir --require-hashes --no-build-isolation \
        -r requirements/models.txt
# The server's environment is its own: Merlin is held to protobuf 3 and numpy 1.
RUN python3 -m venv .venv \
 && .venv/bin/python -m pip install --no-cache-dir --require-hashes -r requirements/server.txt \
 && .venv/bin/python -m pip install --no-cache-dir --require-hashes --no-deps \
        -r requirements/triton.txt \
 && .venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > purelib \
 && echo /opt/serve > "$(cat purelib)/serve.pth" \
 && rm purelib
COPY --from=sources /opt/serve/ /opt/serve/
LABEL com.amazonaws.sagemaker.capabilities.multi-models=true \
      com.amazonaws.sagemaker.capabilities.accept-bind-to-port=true
EXPOSE 8080
ENTRYPOINT ["/opt/serve/.venv/bin/python", "-I", "-m", "container"]
CMD ["serve"]

# ---- gpu: NVIDIA's image has tritonserver, its backends, Merlin and Python already ----------------

# hadolint ignore=DL3006
FROM ${BASE_IMAGE} AS gpu
WORKDIR /opt/serve
COPY --from=sources /opt/serve/requirements/ requirements/
# NVIDIA's image lacks ensurepip, so its own pip installs into the server's environment. It also
# sets PYTHONPATH, which puts its old protobuf, numpy and typing_extensions before the environment's
# own: pip and (by -I) the server must not see it.
RUN python3 -m venv --without-pip .venv \
 && .venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))' > purelib \
 && env -u PYTHONPATH python3 -m pip install --no-cache-dir --require-hashes \
        --target "$(cat purelib)" -r requirements/server.txt \
 && echo /opt/serve > "$(cat purelib)/serve.pth" \
 && rm purelib
COPY --from=sources /opt/serve/ /opt/serve/
LABEL com.amazonaws.sagemaker.capabilities.multi-models=true \
      com.amazonaws.sagemaker.capabilities.accept-bind-to-port=true
EXPOSE 8080
ENTRYPOINT ["/opt/serve/.venv/bin/python", "-I", "-m", "container"]
CMD ["serve"]
