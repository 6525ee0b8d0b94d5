#!/bin/sh
# In containers, a pod gets its volume although EC2's answer is lost. It needs kubectl, and the image of docs/compose.md.
set -eu
cd "$(dirname "$0")"
if docker compose version > /dev/null 2>&1; then compose() { docker compose "$@"; }; else compose() { docker-compose "$@"; }; fi
kubeconfig=$(mktemp)
trap 'rm "$kubeconfig"; compose down --volumes --timeout 5' EXIT
compose up --detach mooring
id=$(compose ps --quiet mooring)
mooring() { docker exec --interactive "$id" mooring "$@"; }
until mooring wait --ready --timeout 60s; do sleep 1; done
mooring kubeconfig --server "https://$(compose port mooring 6443)" > "$kubeconfig"

mooring fault add lost --on ec2/AttachVolume --effect drop_reply --at after_effect --first 1
kubectl --kubeconfig "$kubeconfig" apply --filename ../../docs/pod-with-claim.yaml
mooring wait --for pod/web=Running --timeout 120s
mooring fault ls --output json | grep '"hits":1'
mooring check
compose run --rm test
echo "the pod runs, the fault fired, and a container of yours reaches the cloud"
