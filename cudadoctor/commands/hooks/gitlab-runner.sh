#!/bin/sh
# Refuses a job on a GitLab runner whose GPU is broken, before the job's sources are fetched.
#
# Set up once: write this file on the runner and name it in config.toml:
#   cudadoctor hook gitlab-runner > /opt/cudadoctor/job-started.sh && chmod +x /opt/cudadoctor/job-started.sh
#   [[runners]]
#     pre_get_sources_script = "/opt/cudadoctor/job-started.sh"
# A custom executor calls it in its prepare stage: the refusal is then a failure of the system, and GitLab may try another runner.
#
# CUDADOCTOR         the program, where it is not on PATH
# CUDADOCTOR_POLICY  a file of demands that this runner must meet
set -u
cd /  # the last job may have left a policy in the working directory
"${CUDADOCTOR:-cudadoctor}" check --quick --timeout 5 ${CUDADOCTOR_POLICY:+--policy "$CUDADOCTOR_POLICY"}
code=$?
# Python that does not start ends with 1 too: that says nothing of a GPU.
if [ $code -eq 1 ] && ! "${CUDADOCTOR:-cudadoctor}" --version > /dev/null 2>&1; then code=4; fi
case $code in
0) exit 0 ;;
1)
	echo "cudadoctor: the GPU of this runner is not fit for the job. Nothing of it was run: start it again on another runner."
	exit "${SYSTEM_FAILURE_EXIT_CODE:-1}"
	;;
*)
	# A doctor that cannot judge takes no runner away.
	echo "cudadoctor: the GPU of this runner could not be judged (exit code $code). The job goes on."
	exit 0
	;;
esac
