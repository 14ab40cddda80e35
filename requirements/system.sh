#!/bin/sh
# system.sh demo|setup|check|test: is all here that `make` of that name takes from the system?
#
# Root gets what is missing from apt, after a line that says so; NO_APT=1 ends that. Anybody else is
# told the one line to type. Nothing is downloaded before it is complete.
set -u
here=$(dirname "$0")
purpose=$1
faults=$(mktemp)
trap 'rm -f "$faults"' EXIT

# Adds packages, each once.
want() {
    for each in "$@"; do
        case " $packages " in *" $each "*) ;; *) packages="$packages $each" ;; esac
    done
}

# The Python that this system's package python3 is; empty where it is not known.
systems_python() {
    case $(. /etc/os-release 2> /dev/null && echo "${ID:-} ${VERSION_ID:-}") in
        'ubuntu 22.04') echo 3.10 ;;
        'debian 12') echo 3.11 ;;
        'ubuntu 24.04') echo 3.12 ;;
    esac
}

# One Python, that of $PYTHON if it is set: asked what it lacks; where there is none, its packages.
look_for_python() { # demo|setup VERSION...
    purpose_of_it=$1
    shift
    python=$([ "$purpose_of_it" = demo ] && echo "${PYTHON:-}")
    if [ "$python" ] || python=$("$here/find_python.sh" "$@"); then
        lacks=$("$python" "$here/check_system.py" "$purpose_of_it" 2>> "$faults")
        [ $? -gt 1 ] && hopeless=1
        want $lacks
        return
    fi
    version=$(systems_python)
    if [ "$purpose_of_it" = demo ]; then
        if [ "$version" ]; then
            echo 'Python is missing' >> "$faults"
            want python3 python3-venv "libpython$version"
        else
            echo 'Python 3.10, 3.11 or 3.12 is missing: `uv python install 3.11` gets one' >> "$faults"
            hopeless=1
        fi
        return
    fi
    echo 'Python 3.11 is missing, which Merlin 23.08 needs (make demo does not)' >> "$faults"
    if [ "$version" = 3.11 ] || apt-cache show python3.11 > /dev/null 2>&1; then
        want python3.11 python3.11-venv libpython3.11
    else
        echo 'this system has no package of it: `uv python install 3.11` gets it' >> "$faults"
        hopeless=1
    fi
}

look_for_program() { # PACKAGE NAME...
    package=$1
    shift
    for name in "$@"; do
        command -v "$name" > /dev/null && return
    done
    echo "$1 is missing, which the tests start" >> "$faults"
    want "$package"
}

# What is missing: a line for each in $faults, the packages that have it in $packages; $hopeless
# where no package does.
look() {
    packages='' hopeless=''
    : > "$faults"
    look_for_python demo 3.11 3.12 3.10
    [ "$purpose" = demo ] || look_for_python setup 3.11
    case $purpose in
        check)
            look_for_program prometheus promtool
            look_for_program graphviz dot
            ;;
        test)
            look_for_program prometheus prometheus promtool
            look_for_program chromium chromium chromium-browser google-chrome
            look_for_program redis-server redis-server
            look_for_program default-jdk-headless javac
            look_for_program curl curl
            look_for_program graphviz dot
            ;;
    esac
    sort -u -o "$faults" "$faults"
    [ ! -s "$faults" ]
}

install() {
    echo "setup: apt-get installs$packages, since this is root (NO_APT=1 ends that)"
    export DEBIAN_FRONTEND=noninteractive
    "$here/quietly.sh" apt-get update -qq && "$here/quietly.sh" apt-get install -y -qq $packages
}

# Again, since a Python that has come says what else it needs.
for round in 1 2 3; do
    look && exit 0
    [ -z "$hopeless" ] && [ "$packages" ] && [ "$(id -u)" = 0 ] && [ -z "${NO_APT:-}" ] &&
        command -v apt-get > /dev/null || break
    install || exit 1
done
cat "$faults"
if [ "$packages" ] && command -v apt-get > /dev/null; then
    as=$([ "$(id -u)" = 0 ] || echo 'sudo ')
    echo "This installs ${hopeless:+the rest of }it: ${as}apt-get install$packages"
fi
exit 1
