# Where a plain image of Triton's cannot be had: one with the layout of 24.11 to 26.05, for the gpu
# target to stand on.
#
# tritonserver lies in /opt/tritonserver, with the one stub of the image's Python 3.12. That Python
# is marked as the system's (PEP 668), has numpy 1, as NVIDIA's build pins it, and pip, but neither
# ensurepip nor Merlin nor any framework. The tritonserver is the wheel's, 2.51, which has no
# pytorch backend of its own, as NVIDIA's have.
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
COPY --from=python /usr/local/ /usr/local/
COPY --from=packages /opt/serve/.venv/lib/python3.11/site-packages/pytriton/tritonserver/ \
     /opt/tritonserver/
COPY --from=packages /opt/serve/.venv/lib/python3.11/site-packages/nvidia_pytriton.libs/ \
     /opt/tritonserver/lib/
COPY requirements/demo.txt /opt/
WORKDIR /opt
RUN mv tritonserver/python_backend_stubs/3.12/* tritonserver/backends/python/ \
 && rm -r tritonserver/python_backend_stubs \
 && printf '%s\n' /usr/local/lib /opt/tritonserver/lib > /etc/ld.so.conf.d/tritonserver.conf \
 && ldconfig \
 && rm -rf /usr/local/lib/python3.12/ensurepip \
 && sed -n '/^numpy==/,/[^\\]$/p' demo.txt > numpy.txt \
 && python3 -B -m pip install --no-cache-dir --require-hashes --no-deps -r numpy.txt \
 && rm demo.txt numpy.txt \
 && printf '[externally-managed]\nError=This Python is the system'"'"'s.\n' \
        > /usr/local/lib/python3.12/EXTERNALLY-MANAGED
CMD ["bash"]
