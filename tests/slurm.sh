#!/bin/sh
# tests/slurm.sh TOOLS PIPELINES [KEEP_MODULES]: a real Slurm (one slurmctld and four slurmd of Debian's packages, on localhost, with a configuration of
# their own) accepts what --export sbatch writes, with and without named hosts, and runs it: one task per host, node ranks in
# the planned order, torchrun with the planned numbers. Skipped (77) where Slurm is not installed or does not start.
set -u
PATH=$PATH:/usr/sbin
for program in sbatch scontrol slurmctld slurmd; do
    command -v $program >/dev/null || { echo "skipped: no $program; Debian's slurm-wlm has it" && exit 77; }
done
tools=$(cd "$1" && pwd) || exit 2
pipelines=$(cd "$2" && pwd) || exit 2
keep_modules=${3-} # where tools are sanitized
root=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d) || exit 2
stop() {
    for file in "$scratch"/run/*.pid; do
        if [ -f "$file" ]; then kill "$(cat "$file")" 2>/dev/null; fi
    done
    # they write their state when they end
    tries=0
    while [ -n "$(ls run/*.pid 2>/dev/null)" ] && [ $tries -lt 30 ]; do
        tries=$((tries + 1))
        sleep 0.2
    done
    sleep 0.5
    rm -rf "$scratch"
}
trap stop EXIT
cd "$scratch" || exit 2
failures=0
fail() {
    echo "$*"
    failures=$((failures + 1))
}

# Ports of this process's own, so that two runs do not meet.
port=$((20000 + $$ % 10000))
mkdir -p run/state run/spool
for i in 0 1 2 3 4 5 6 7; do : >gpu$i; done
echo "Name=gpu File=$scratch/gpu[0-7]" >gres.conf
cat >slurm.conf <<EOF
ClusterName=redco
SlurmctldHost=localhost
SlurmctldPort=$port
AuthType=auth/none
CredType=cred/none
SlurmUser=$(id -un)
SlurmdUser=$(id -un)
StateSaveLocation=$scratch/run/state
SlurmdSpoolDir=$scratch/run/spool/%n
SlurmctldPidFile=$scratch/run/slurmctld.pid
SlurmdPidFile=$scratch/run/slurmd-%n.pid
SlurmctldLogFile=$scratch/run/slurmctld.log
SlurmdLogFile=$scratch/run/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
MpiDefault=none
MessageTimeout=5
GresTypes=gpu
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname=localhost Port=$((port + 1)) CPUs=8 Gres=gpu:8
NodeName=n2 NodeHostname=localhost Port=$((port + 2)) CPUs=8 Gres=gpu:8
NodeName=n3 NodeHostname=localhost Port=$((port + 3)) CPUs=8 Gres=gpu:8
NodeName=n4 NodeHostname=localhost Port=$((port + 4)) CPUs=8 Gres=gpu:8
PartitionName=all Nodes=ALL Default=YES State=UP
EOF
export SLURM_CONF="$scratch/slurm.conf" REDCO_SECRET=known-to-these-ranks
timeout 20 slurmctld -c -f "$SLURM_CONF" >/dev/null 2>&1
for node in n1 n2 n3 n4; do timeout 20 slurmd -N $node -f "$SLURM_CONF" >/dev/null 2>&1; done
# until all four are idle, at most a quarter of a minute where it answers
tries=0
until [ "$(timeout 5 sinfo -h -N -t idle -o %N 2>/dev/null | sort -u | wc -l)" -eq 4 ]; do
    tries=$((tries + 1))
    if [ $tries -gt 30 ]; then
        echo "skipped: slurmctld and slurmd do not come up here"
        tail -n 3 run/*.log 2>/dev/null
        exit 77
    fi
    sleep 0.5
done

# A switch tree whose order of hosts is not the alphabet's.
cat >topology.conf <<'EOF'
SwitchName=s1 Nodes=n3,n1
SwitchName=s2 Nodes=n4,n2
SwitchName=top Switches=s[1-2]
EOF
"$tools/redco-plan" --quiet --topology topology.conf --gpus 32 --export sbatch=hosts.sbatch -o plan.json >/dev/null ||
    fail "no plan"
"$tools/redco-plan" --quiet --gpus 32 --export sbatch=any.sbatch >/dev/null || fail "no plan without hosts"
"$tools/redco-plan" --quiet --gpus 2 --global-batch 64 --export sbatch=part.sbatch >/dev/null || fail "no plan of two GPUs"
"$tools/redco-plan" --quiet --gpus 4 --cluster p3dn --precision fp16 --model gpt2 --seq 1024 --tp 2 --export sbatch=order.sbatch >/dev/null ||
    fail "no plan with an order of GPUs"
for script in hosts any part order; do
    bash -n $script.sbatch || fail "$script.sbatch is no shell script"
    timeout 30 sbatch --test-only $script.sbatch train.py 2>$script.said || fail "sbatch refuses $script.sbatch: $(cat $script.said)"
done
# sbatch --test-only would not take a host that there is not
sed 's/^#SBATCH --nodelist=.*/#SBATCH --nodelist=n[1-3],absent/' hosts.sbatch >absent.sbatch
if timeout 30 sbatch --test-only absent.sbatch train.py 2>/dev/null; then fail "--test-only accepts anything"; fi

# run SCRIPT COMMAND...: what the tasks print, sorted
run() {
    script=$1
    shift
    timeout 60 sbatch --wait --quiet -o "$scratch/said" "$script" "$@" || fail "$script did not run"
    sort "$scratch/said"
}
# shellcheck disable=SC2016 # the script's own variables
echo 'echo "$NODE_RANK $SLURMD_NODENAME $MASTER_ADDR"' >show.sh
said=$(run hosts.sbatch sh "$scratch/show.sh" | tr '\n' ',')
[ "$said" = "0 n3 n3,1 n1 n3,2 n4 n3,3 n2 n3," ] || fail "ranks are not in the planned order: $said"
said=$(run any.sbatch sh "$scratch/show.sh" | tr '\n' ',')
[ "$said" = "0 n1 n1,1 n2 n1,2 n3 n1,3 n4 n1," ] || fail "ranks without hosts: $said"
# shellcheck disable=SC2016
echo 'echo "$CUDA_DEVICE_ORDER $CUDA_VISIBLE_DEVICES"' >gpus.sh
said=$(run order.sbatch sh "$scratch/gpus.sh")
[ "$said" = "PCI_BUS_ID 0,3,1,2" ] || fail "GPUs are not in the planned order: $said"
mkdir bin
# shellcheck disable=SC2016
printf '#!/bin/sh\necho "$@"\n' >bin/torchrun
chmod +x bin/torchrun
said=$(PATH=$scratch/bin:$PATH run hosts.sbatch train.py --lr '1 e' | grep -c -- "--nnodes=4 --nproc-per-node=8 --node-rank=[0-3] --master-addr=n3 --master-port=[0-9]* train.py --lr 1 e")
[ "$said" -eq 4 ] || fail "torchrun is not started as planned: $(cat said)"

# Ranks that srun started. Names of hosts that are all this one are no addresses, so the address is given; which rank of how
# many a task is comes from Slurm, and so does which host rank 0 is on.
"$tools/redco-plan" --quiet --pp 1 --cp 1 --model "$root/data/models/oracle/llama.json" --seq 12 --micro-batch 1 --global-batch 8 --precision fp32 \
    --gpus 4 --cluster "$root/data/exec/quad.json" -o four.json >/dev/null || fail "no plan of four ranks"
said=$(REDCO_ADDRESS=localhost:$((port + 9)) timeout 60 srun --quiet -N 4 -n 4 --mpi=none "$tools/redco-exec" "$scratch/four.json" --steps 1 --json |
    grep -o '"world":[^,]*')
[ "$said" = '"world": 4' ] || fail "srun's ranks did not train: $said"
for order in block cyclic; do
    # shellcheck disable=SC2016
    said=$(timeout 60 srun --quiet -w "n[1-2]" -N 2 -n 4 -m $order --mpi=none sh -c \
        'test "$SLURM_PROCID" -gt 0 || echo "$SLURM_STEP_NUM_TASKS $SLURM_STEP_NODELIST $SLURMD_NODENAME"')
    [ "$said" = "4 n[1-2] n1" ] || fail "srun -m $order: rank 0 and its list: $said"
done
# where a file of hosts deals tasks, the list is sorted and does not say where task 0 is
printf 'n3\nn1\n' >hosts
SLURM_HOSTFILE=$scratch/hosts timeout 60 srun --quiet -n 2 -m arbitrary --mpi=none "$tools/redco-exec" "$scratch/four.json" >/dev/null 2>said
grep -q "SLURM_DISTRIBUTION: .* REDCO_ADDRESS must say" said || fail "an arbitrary order of tasks is not refused: $(cat said)"

# Leaks of Open MPI's modules are none of redco's; only the slow unwinder finds its way through them.
with_pmix() { # PLAN OPTION...: four ranks
    plan=$scratch/$1
    shift
    timeout 60 srun --quiet -N 1 -n 4 --mpi=pmix env LD_PRELOAD="$keep_modules" LSAN_OPTIONS="suppressions=$root/lsan-open-mpi.txt:print_suppressions=0" \
        ASAN_OPTIONS="verify_asan_link_order=0:fast_unwind_on_malloc=0${ASAN_OPTIONS:+:$ASAN_OPTIONS}" "$tools/redco-exec" "$plan" "$@"
}
# With PMIx, where this Slurm has it, MPI joins the ranks by the launcher's own channel, and no address is needed; ranks that
# differ do not begin.
if srun --mpi=list 2>&1 | grep -q pmix; then
    said=$(with_pmix four.json --steps 1 --json | grep -o '"world":[^,]*')
    [ "$said" = '"world": 4' ] || fail "srun's ranks did not train with PMIx: $said"
fi
# shellcheck disable=SC2016 # the task's own variables
REDCO_ADDRESS=localhost:$((port + 10)) timeout 60 srun --quiet -N 4 -n 4 --mpi=none sh -c \
    'exec "$0" "$1" --steps $((SLURM_PROCID == 2 ? 3 : 2))' "$tools/redco-exec" "$scratch/four.json" >/dev/null 2>said
grep -q '^redco-exec: rank 2 on [^ ]*: --steps: is 3; on rank 0 it is 2$' said || fail "srun's ranks that differ: $(cat said)"

# A pipeline on two nodes, two ranks on each: the losses, evaluations and weights of one rank, by the launcher's environment
# alone, and by PMIx on one node where this Slurm has it. Slurm's rank 0 writes the log and the checkpoints.
data=$root/../executor/pipelines/data
head -n 40 "$data/digits-test.jsonl" >digits.jsonl
for gpus in 1 4; do
    "$tools/redco-plan" --quiet --pipeline "$pipelines/digits.so" --cluster "$root/data/exec/quad.json" --global-batch 16 --micro-batch 4 \
        --precision fp32 --gpus $gpus --strategy "$([ $gpus -eq 1 ] && echo ddp || echo zero3)" -o "digits$gpus.json" >/dev/null ||
        fail "no plan of a pipeline for $gpus"
done
train="--pipeline $pipelines/digits.so --data $scratch/digits.jsonl --evaluate $scratch/digits.jsonl --epochs 2 --dtype f64 --json"
# shellcheck disable=SC2086 # words
{
    "$tools/redco-exec" digits1.json $train >one.json || fail "one rank does not train the pipeline"
    REDCO_ADDRESS=localhost:$((port + 11)) timeout 60 srun --quiet -N 2 -n 4 --mpi=none "$tools/redco-exec" "$scratch/digits4.json" $train \
        --log "$scratch/slurm.log" --checkpoint "$scratch/slurm.ck" >srun.json 2>said || fail "srun's ranks do not train the pipeline: $(cat said)"
    [ -s slurm.log/metrics.jsonl ] || fail "no log of srun's ranks"
    [ -e slurm.ck/step-0000000005/checkpoint.json ] || fail "no checkpoint of srun's ranks"
    cp srun.json pmix.json
    if srun --mpi=list 2>&1 | grep -q pmix; then
        with_pmix digits4.json $train >pmix.json 2>said ||
            fail "PMIx' ranks do not train the pipeline: $(cat said)"
    fi
}
python3 - <<'PY' || fail "srun's ranks train another pipeline than one rank"
import json
one, srun, pmix = (json.load(open(f + ".json")) for f in ("one", "srun", "pmix"))
assert srun["world"] == pmix["world"] == 4 and len(one["steps"]) == 5 and len(one["evaluations"]) == 2
for run in (srun, pmix):
    for a, b in zip(one["steps"] + one["evaluations"], run["steps"] + run["evaluations"]):
        assert abs(a["loss"] / b["loss"] - 1) < 1e-10, (a, b)
PY

echo "sbatch of $(sbatch --version): $failures failures"
[ $failures -eq 0 ]
