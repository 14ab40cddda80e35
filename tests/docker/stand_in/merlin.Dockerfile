# Where NVIDIA's image of Merlin cannot be had: one with its surroundings, for the gpu target to stand
# on. What it has is NVIDIA-Merlin/Merlin's at v23.12.00 (docker/dockerfile.merlin, dockerfile.torch).
#
# tritonserver lies in /opt/tritonserver, with the one stub of the image's Python 3.10. That Python has
# Merlin, old packages (numpy 1.22, protobuf 3) in dist-packages, which PYTHONPATH names once more, and
# pip, but not ensurepip. Of the backends `pytorch` is the image's own (pytorch/model.py plays it),
# `fil` has a LICENSE alone, as on ARM64, `hps` is a link to nowhere, and there is no `tensorflow`.
# The tritonserver is the wheel's, 2.51, where NVIDIA's is probably 2.39 or older.
ARG BASE
ARG PYTHON
ARG PACKAGES

# hadolint ignore=DL3006
FROM ${PACKAGES} AS packages

# hadolint ignore=DL3006
FROM ${PYTHON} AS python

# hadolint ignore=DL3006
FROM ${BASE}
ARG PIP_INDEX_URL
ARG PIP_EXTRA_INDEX_URL
ARG PIP_FIND_LINKS
ARG LIBTORCH=/opt/serve/.venv-merlin/lib/python3.11/site-packages
COPY --from=python /usr/local/ /usr/local/
COPY --from=packages ${LIBTORCH}/typing_extensions.py /opt/libtorch/
COPY --from=packages ${LIBTORCH}/numpy/ /opt/libtorch/numpy/
COPY --from=packages ${LIBTORCH}/numpy.libs/ /opt/libtorch/numpy.libs/
COPY --from=packages ${LIBTORCH}/torchgen/ /opt/libtorch/torchgen/
COPY --from=packages ${LIBTORCH}/torch/ /opt/libtorch/torch/
COPY --from=packages /opt/serve/.venv/lib/python3.11/site-packages/pytriton/tritonserver/ \
     /opt/tritonserver/
COPY --from=packages /opt/serve/.venv/lib/python3.11/site-packages/nvidia_pytriton.libs/ \
     /opt/tritonserver/lib/
COPY merlin.txt /opt/
COPY pytorch/ /opt/tritonserver/backends/pytorch/
WORKDIR /opt
RUN mv tritonserver/python_backend_stubs/3.10/* tritonserver/backends/python/ \
 && rm -rf tritonserver/python_backend_stubs /usr/local/lib/python3.10/ensurepip \
 && printf '%s\n' /usr/local/lib /opt/tritonserver/lib > /etc/ld.so.conf.d/tritonserver.conf \
 && ldconfig \
 && packages=/usr/local/lib/python3.10/dist-packages \
 && own=/usr/local/lib/python3.10/site-packages \
 && mkdir -p "$packages" "$own" \
 && echo "$packages" > "$own/dist-packages.pth" \
 && python3 -B -m pip install --no-cache-dir --target "$packages" setuptools==80.9.0 wheel==0.45.1 \
 && python3 -B -m pip install --no-cache-dir --no-deps --no-build-isolation --target "$packages" \
        -r merlin.txt \
 && rm merlin.txt \
 && printf 2.51.0 > tritonserver/TRITON_VERSION \
 && mkdir tritonserver/backends/fil \
 && touch tritonserver/backends/fil/LICENSE \
 && ln -s /usr/local/hugectr/backends/hps tritonserver/backends/hps \
 && printf '#!/bin/sh\nexit 9\n' > /usr/bin/serve \
 && chmod +x /usr/bin/serve
# All that NVIDIA's sets, with its empty entries (the working directory) in paths.
ENV CUDA_VERSION=12.1.1.009 \
    CUDA_DRIVER_VERSION=530.30.02 \
    _CUDA_COMPAT_PATH=/usr/local/cuda/compat \
    NVIDIA_VISIBLE_DEVICES=all \
    NVIDIA_DRIVER_CAPABILITIES=compute,utility,video \
    NVIDIA_PRODUCT_NAME="Triton Server" \
    TRITON_SERVER_VERSION=2.51.0 \
    NVIDIA_TRITON_SERVER_VERSION=24.10 \
    TRITON_SERVER_GPU_ENABLED=1 \
    TCMALLOC_RELEASE_RATE=200 \
    UCX_MEM_EVENTS=no \
    TF_ADJUST_HUE_FUSED=1 \
    TF_AUTOTUNE_THRESHOLD=2 \
    CUDA_HOME=/usr/local/cuda \
    CUDA_PATH=/usr/local/cuda \
    CUDA_CUDA_LIBRARY=/usr/local/cuda/lib64/stubs \
    DEBIAN_FRONTEND=noninteractive \
    JAVA_HOME=/usr/lib/jvm/default-java \
    PYTHON_VERSION=3.10 \
    PYTHONPATH=:/usr/local/lib/python3.10/dist-packages/ \
    PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python \
    LIGHTFM_NO_CFLAGS=1 \
    JUPYTER_CONFIG_DIR=/tmp/.jupyter \
    JUPYTER_DATA_DIR=/tmp/.jupyter \
    JUPYTER_RUNTIME_DIR=/tmp/.jupyter \
    MERLIN_VER=v23.12.00 \
    NVTAB_VER=v23.08.00 \
    HADOOP_HOME=/opt/hadoop \
    HDFS_NAMENODE_USER=root \
    LIBHDFS_OPTS=-Djdk.lang.processReaperUseDefaultStackSize=true \
    UCX_ERROR_SIGNALS="" \
    CLASSPATH=:/opt/hadoop/etc/hadoop/*:/opt/hadoop/share/hadoop/common/* \
    CPATH=:/usr/local/hugectr/include \
    PATH=/opt/tritonserver/bin:/usr/local/cuda/lib64/:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/cuda/bin::/opt/hadoop/bin:/opt/hadoop/sbin:/usr/local/hugectr/bin \
    LD_LIBRARY_PATH=:/usr/local/cuda/lib64:/usr/local/cuda/extras/CUPTI/lib64:/usr/local/lib:/repos/dist/lib:/usr/lib/jvm/default-java/lib:/opt/tritonserver/lib:/usr/local/hugectr/lib
CMD ["/bin/bash"]
