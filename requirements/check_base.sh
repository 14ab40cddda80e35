#!/bin/sh
# check_base.sh [TRITON]: can the gpu target stand on this image? One sentence where it cannot; else
# what it has: tritonserver's version, Python's and the backends, and which framework has none.
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

# Up to here nothing is printed; the rest is for whoever reads the build's log. A backend is what
# tritonserver takes for one (container/tritonserver/backends.py). Of the shell's own words alone.
number=
if [ -r "$triton/TRITON_VERSION" ]; then
    read -r number < "$triton/TRITON_VERSION" || : # its last line may lack an end
fi
number=${number:-of an unknown version}
backends=
for folder in "$triton"/backends/*; do
    name=${folder##*/}
    if [ -f "$folder/libtriton_$name.so" ] || [ -f "$folder/model.py" ]; then
        backends="$backends $name"
    fi
done
echo "BASE_IMAGE has tritonserver $number, Python $version and the backends:$backends"

lacks() {
    library="$3 in the models' Python, or "
    case $number in
        2.[0-9].* | 2.[12][0-9].* | 2.3[0-8].*) library= ;; # they run no stand-ins
    esac
    case "$backends " in
        *" $1 "*) ;;
        *) echo "BASE_IMAGE has no backend $1, so $2 need ${library}another base, as $4" \
            '(docs/images.md)' ;;
    esac
}
merlin=nvcr.io/nvidia/merlin/merlin
lacks pytorch 'PyTorch exports' torch "$merlin-pytorch:23.12"
lacks tensorflow 'TensorFlow exports' tensorflow "$merlin-tensorflow:23.12"
lacks fil 'forests' 'xgboost, lightgbm or treelite' "$merlin-pytorch:23.12 on x86_64"
