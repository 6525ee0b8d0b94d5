#!/bin/sh
# A controller in a few lines: it labels each claim that is bound. It lists and patches, and keeps nothing in memory, so
# that it can end anywhere and go on.
claims="$MOORING_KUBERNETES_HTTP/api/v1/namespaces/default/persistentvolumeclaims"
echo "labelling claims"
while :; do
  curl -sf "$claims" | tr -d '\n' | sed 's/"metadata":/\n&/g' | grep '"phase": *"Bound"' | grep -v 'example.com/bound' |
    sed -n 's/^"metadata": *{ *"name": *"\([^"]*\)".*/\1/p' |
    while read -r name; do
      echo "label $name"
      curl -sf -o /dev/null -X PATCH -H 'content-type: application/merge-patch+json' \
        -d '{"metadata":{"labels":{"example.com/bound":"true"}}}' "$claims/$name"
    done
  sleep 0.2
done
