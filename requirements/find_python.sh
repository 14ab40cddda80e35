#!/bin/sh
# find_python.sh VERSION...: the name of the first Python here that is of one of these versions.
for name in ${PYTHON:-} python3.11 python3 python3.12 python3.10; do
    # pyenv has names on PATH that run nothing.
    version=$("$name" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2> /dev/null) || continue
    case " $* " in *" $version "*) echo "$name"; exit 0 ;; esac
done
exit 1
