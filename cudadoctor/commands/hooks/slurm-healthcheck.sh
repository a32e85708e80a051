#!/bin/sh
# Looks at a node's GPUs every few minutes and writes one line to the system log; Slurm runs it as root on every node, beside jobs.
# It drains nothing, and says what it would drain, unless CUDADOCTOR_DRAIN=1 says otherwise. It never puts a node back.
#
# Set up once: write this file on every node and name it in slurm.conf:
#   cudadoctor hook slurm-healthcheck > /etc/slurm/cudadoctor-health.sh && chmod 755 /etc/slurm/cudadoctor-health.sh
#   HealthCheckProgram=/etc/slurm/cudadoctor-health.sh
#   HealthCheckInterval=300
#
# CUDADOCTOR         the program; slurmd gives it no useful PATH
# CUDADOCTOR_POLICY  a file of demands that this node must meet
# CUDADOCTOR_DRAIN   1: drain the node where a GPU is broken, with the one line as its reason
set -u
cd /  # the last job may have left a policy in the working directory
unset CUDA_VISIBLE_DEVICES
PATH=${PATH:-/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin}
export PATH
node=${SLURMD_NODENAME:-$(hostname -s)}
said=$("${CUDADOCTOR:-/opt/cudadoctor/bin/cudadoctor}" check --quick --timeout 5 --format npd ${CUDADOCTOR_POLICY:+--policy "$CUDADOCTOR_POLICY"} 2>&1)
code=$?
# Python that does not start ends with 1 too: that says nothing of a GPU.
if [ $code -eq 1 ] && ! "${CUDADOCTOR:-/opt/cudadoctor/bin/cudadoctor}" --version > /dev/null 2>&1; then code=4; fi
if [ "$code" -ne 1 ]; then
	if [ "$code" -ne 0 ] && command -v logger > /dev/null; then logger -t cudadoctor -- "not judged: ${said:-no answer} (exit code $code)"; fi
	exit 0
fi
if [ "${CUDADOCTOR_DRAIN:-0}" = 1 ]; then
	line="drained $node: $said"
	scontrol update "nodename=$node" state=drain "reason=cudadoctor: $said" || line="could not drain $node: $said"
else
	line="would drain $node: $said"
fi
if command -v logger > /dev/null; then logger -t cudadoctor -- "$line"; fi
echo "cudadoctor: $line"
exit 0
