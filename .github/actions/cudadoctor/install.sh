#!/usr/bin/env bash
# Installs cudadoctor into a virtual environment of its own, so that it meets no package of the job's, and says where it is.
set -euo pipefail
folder="${RUNNER_TEMP:?}/cudadoctor"
source="${GITHUB_ACTION_PATH:?}/../../.."
for python in python3 python python3.13 python3.12 python3.11 python3.10; do
	if command -v "$python" > /dev/null && "$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2> /dev/null; then
		found=$python
		break
	fi
done
if [ -z "${found:-}" ]; then
	echo "::error title=cudadoctor::No Python 3.10 or newer with venv is on this runner. Add actions/setup-python before this step."
	exit 1
fi
"$found" -m venv --clear "$folder/venv"
programs="$folder/venv/bin"
if [ -d "$folder/venv/Scripts" ]; then programs="$folder/venv/Scripts"; fi # Windows
if [ -n "${VERSION:-}" ]; then wanted="cudadoctor==$VERSION"; else wanted=$source; fi
"$programs/python" -m pip install --quiet --disable-pip-version-check "$wanted"
echo "doctor=$programs/cudadoctor" >> "${GITHUB_OUTPUT:?}"
