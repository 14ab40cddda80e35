#!/bin/sh
# check_base.sh [TRITON]: can the gpu target stand on this image? One sentence where it cannot.
#
# TRITON is where its tritonserver lies: /opt/tritonserver, in NVIDIA's images. A shell's work, since
# what is looked for may be any Python, or none.
set -u
triton=${1:-/opt/tritonserver}

refuse() {
    echo "BASE_IMAGE does not fit: found $1, expected $2; take one of NVIDIA's images for Merlin," \
        'as nvcr.io/nvidia/merlin/merlin-pytorch:23.12, or for Triton, as' \
        'nvcr.io/nvidia/tritonserver:25.02-py3 (docs/images.md has a table)' >&2
    exit 1
}

[ -x "$triton/bin/tritonserver" ] ||
    refuse "no $triton/bin/tritonserver" 'a tritonserver'
[ -d "$triton/backends/python" ] ||
    refuse "no $triton/backends/python" "tritonserver's Python backend, which workflows run in"
wanted='Python 3.10, 3.11 or 3.12'
version=$(python3 -BIc 'import sys; print("%d.%d" % sys.version_info[:2])' 2> /dev/null) ||
    refuse 'no python3 that runs' "$wanted"
case $version in
    3.10 | 3.11 | 3.12) ;;
    *) refuse "Python $version" "$wanted" ;;
esac
# Of Debian and Ubuntu each is a package of its own; ensurepip (python3-venv) is not needed.
for module in venv pip; do
    python3 -BIm "$module" --help > /dev/null 2>&1 ||
        refuse "Python $version without $module" "one with it, which installs the server"
done
