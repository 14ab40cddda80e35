#!/bin/sh
# install_torch.sh PIP-INSTALL-COMMAND...: torch's CPU build if pip finds it, else PyPI's.
set -eu
here=$(dirname "$0")

builds=$(mktemp -d)
trap 'rm -rf "$builds"' EXIT

# Pips before 22.2 know no dry run (Ubuntu 22.04 has 22.0). Downloading takes pip's other word, and
# what is found is installed from where it lies.
finding=
for word in "$@"; do
    case $word in
        install) finding="$finding download --quiet --no-deps --dest $builds" ;;
        --no-compile) ;;
        *) finding="$finding $word" ;;
    esac
done
if $finding -r "$here/torch.txt" > /dev/null 2>&1; then
    # Its dependencies are the models' own: the other lock has them.
    "$here/quietly.sh" "$@" --no-index --find-links "$builds" --no-deps -r "$here/torch.txt"
    exit
fi
cat << 'NOTICE'
      pip finds no CPU build of torch for this Python, so PyPI's is installed: it brings CUDA
      packages of several GB that nothing here needs. To avoid it, stop now, point
      PIP_EXTRA_INDEX_URL (PyTorch's own index for cpu) or PIP_FIND_LINKS (a folder) at a wheel that
      requirements/torch.txt has the hash of (Python 3.11 or 3.12), and run again.
NOTICE
"$here/quietly.sh" "$@" --no-deps -r "$here/torch-cuda.txt"
