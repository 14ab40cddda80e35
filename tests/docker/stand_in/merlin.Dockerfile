# Where NVIDIA's image of Merlin cannot be had: one with its layout, for the gpu target to stand on.
#
# tritonserver lies in /opt/tritonserver, with the one stub of the image's Python. Merlin and old
# packages are that Python's own, and PYTHONPATH names their folder once more; pip is there, ensurepip
# is not. They stay where the cpu target installed them: moved, they would be 1.3 GB twice.
ARG PACKAGES
# hadolint ignore=DL3006
FROM ${PACKAGES}
WORKDIR /opt/serve
RUN wheel=.venv/lib/python3.11/site-packages \
 && mv "$wheel/pytriton/tritonserver" /opt/tritonserver \
 && mv "$wheel/nvidia_pytriton.libs" /opt/tritonserver/lib \
 && mv /opt/tritonserver/python_backend_stubs/3.11/* /opt/tritonserver/backends/python/ \
 && rm -r /opt/tritonserver/python_backend_stubs \
 && echo /opt/tritonserver/lib > /etc/ld.so.conf.d/tritonserver.conf \
 && ldconfig \
 && rm -r .venv .venv-merlin/bin .venv-merlin/pyvenv.cfg \
 && own=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
 && rm -rf "$own" \
 && ln -s /opt/serve/.venv-merlin/lib/python3.11/site-packages "$own" \
 && rm -r "$(python3 -c 'import ensurepip, os; print(os.path.dirname(ensurepip.__file__))')"
ENV PYTHONPATH=/opt/serve/.venv-merlin/lib/python3.11/site-packages
ENTRYPOINT []
CMD ["bash"]
