#!/bin/sh
# Locks requirements/*.in into *.txt: versions and hashes, no addresses. Needs uv.
set -eu
cd "$(dirname "$0")"

compile() {
    uv pip compile --quiet --no-config \
        --generate-hashes --no-emit-index-url --no-header --no-annotate "$@"
}
server="--universal --python-version 3.10 --fork-strategy fewest"
models="--python-version 3.11 --python-platform x86_64-manylinux_2_28"
pytriton="--python-version 3.11 --python-platform x86_64-manylinux_2_35 --no-deps"

# Constraints stand here: pyproject.toml takes the .in files of the first two as they are.
compile $server server.in -o server.txt
compile $server -c server.txt tools.in -o tools.txt
compile $server -c server.txt -c tools.txt ../simulator/pyproject.toml -o simulator.txt
compile $server -c server.txt -c tools.txt -c simulator.txt ../deploy/requirements.in -o deploy.txt
compile $server dev.in -o dev.txt
compile $models --allow-unsafe build.in -o build.txt
compile $models --no-deps frameworks.in -o frameworks.txt
compile $models --no-deps stages.in -o stages.txt
compile $models aws.in -o aws.txt
compile $pytriton triton.in -o triton.txt
compile $pytriton triton-2.36.in -o triton-2.36.txt

# PyPI's torch brings CUDA packages; they have a file of their own, since the CPU build has none.
all=$(mktemp)
trap 'rm -f "$all"' EXIT
split() {
    awk -v want="$1" '
        /^[a-z]/ { mine = ($0 ~ /^(torch|triton|cuda-[a-z-]+|nvidia-[a-z0-9-]+)==/) }
        mine == want
    ' "$all"
}
compile $models --allow-unsafe models.in > "$all"
split 0 > models.txt
split 1 > torch-cuda.txt
compile $server --allow-unsafe demo.in > "$all"
split 0 > demo.txt
