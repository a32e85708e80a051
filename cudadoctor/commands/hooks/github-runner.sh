#!/bin/sh
# Refuses a job on a self-hosted GitHub runner whose GPU is broken, before any step of the job has run.
#
# Set up once: write this file on the runner and name it in the runner's .env:
#   cudadoctor hook github-runner > /opt/cudadoctor/job-started.sh && chmod +x /opt/cudadoctor/job-started.sh
#   echo ACTIONS_RUNNER_HOOK_JOB_STARTED=/opt/cudadoctor/job-started.sh >> .env
#
# CUDADOCTOR         the program, where it is not on PATH
# CUDADOCTOR_POLICY  a file of demands that this runner must meet
set -u
cd /  # the last job may have left a policy in the working directory
"${CUDADOCTOR:-cudadoctor}" check --quick --timeout 5 --format github ${CUDADOCTOR_POLICY:+--policy "$CUDADOCTOR_POLICY"}
code=$?
# Python that does not start ends with 1 too: that says nothing of a GPU.
if [ $code -eq 1 ] && ! "${CUDADOCTOR:-cudadoctor}" --version > /dev/null 2>&1; then code=4; fi
case $code in
0) exit 0 ;;
1)
	echo "::error title=cudadoctor::The GPU of this runner is not fit for the job. No step was run: start it again on another runner."
	exit 1
	;;
*)
	# A doctor that cannot judge takes no runner away.
	echo "::warning title=cudadoctor::The GPU of this runner could not be judged (exit code $code). The job goes on."
	exit 0
	;;
esac
