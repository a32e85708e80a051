#!/bin/sh
# Looks at a node's GPUs before each job of Slurm and writes one line to the system log. Slurm drains a node whose prolog fails: so this
# one ends with 0 whatever it finds, unless CUDADOCTOR_DRAIN=1 says otherwise.
#
# Set up once: write this file on every node and name it in slurm.conf:
#   cudadoctor hook slurm-prolog > /etc/slurm/cudadoctor-prolog.sh && chmod 755 /etc/slurm/cudadoctor-prolog.sh
#   Prolog=/etc/slurm/cudadoctor-prolog.sh
#
# CUDADOCTOR         the program; slurmd gives a prolog no useful PATH
# CUDADOCTOR_POLICY  a file of demands that this node must meet
# CUDADOCTOR_DRAIN   1: fail, and so drain the node, where a GPU is broken
set -u
cd /  # the last job may have left a policy in the working directory
unset CUDA_VISIBLE_DEVICES # the node's GPUs are looked at, not the job's
PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
export PATH
said=$("${CUDADOCTOR:-/opt/cudadoctor/bin/cudadoctor}" check --quick --timeout 5 --format npd ${CUDADOCTOR_POLICY:+--policy "$CUDADOCTOR_POLICY"} 2>&1)
code=$?
# Python that does not start ends with 1 too: that says nothing of a GPU.
if [ $code -eq 1 ] && ! "${CUDADOCTOR:-/opt/cudadoctor/bin/cudadoctor}" --version > /dev/null 2>&1; then code=4; fi
line="job ${SLURM_JOB_ID:-?}: ${said:-no answer} (exit code $code)"
if command -v logger > /dev/null; then logger -t cudadoctor -- "$line"; fi
echo "cudadoctor: $line"
if [ "$code" -eq 1 ] && [ "${CUDADOCTOR_DRAIN:-0}" = 1 ]; then exit 1; fi
exit 0
