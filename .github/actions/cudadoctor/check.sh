#!/usr/bin/env bash
# Checks the runner: annotations on stdout, reports and the recording in a folder, the outputs of the action. Always ends with 0 once the
# doctor has run; its exit code is an output, so that the recording can be kept before the job fails.
set -uo pipefail
folder="${RUNNER_TEMP:?}/cudadoctor/reports"
mkdir -p "$folder"
arguments=(check --format github --output "json=$folder/report.json" --record "$folder/recording.tar.gz")
each() { # each line that is not empty, behind an option
	while IFS= read -r line; do
		line="${line#"${line%%[![:space:]]*}"}"
		line="${line%"${line##*[![:space:]]}"}"
		if [ -n "$line" ]; then arguments+=(${1:+"$1"} "$line"); fi
	done <<< "$2"
}
if [ -n "${POLICY:-}" ]; then arguments+=(--policy "$POLICY"); fi
if [ -n "${EXAMINED:-}" ]; then arguments+=(--python "$EXAMINED"); fi
if [ "${QUICK:-}" = true ]; then arguments+=(--quick); fi
if [ "${STRICT:-}" = true ]; then arguments+=(--strict); fi
if [ -n "${GITHUB_STEP_SUMMARY:-}" ]; then arguments+=(--output "markdown=$folder/report.md"); fi
each --require "${REQUIRE:-}"
each "" "${ARGUMENTS:-}"
junit="" html=""
for format in ${FORMATS:-}; do
	case $format in
	json | markdown) ;;
	junit) junit="$folder/report.xml" arguments+=(--output "junit=$folder/report.xml") ;;
	html) html="$folder/report.html" arguments+=(--output "html=$folder/report.html") ;;
	*) arguments+=(--output "$format=$folder/report.$format") ;;
	esac
done
"${DOCTOR:?}" "${arguments[@]}"
code=$?
{
	echo "exit-code=$code"
	echo "reports=$folder"
	echo "report-json=$folder/report.json"
	echo "report-junit=$junit"
	echo "report-html=$html"
	"$(dirname "$DOCTOR")/python" "${GITHUB_ACTION_PATH:?}/outputs.py" "$folder/report.json"
} >> "${GITHUB_OUTPUT:?}"
