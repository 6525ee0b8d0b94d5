#!/bin/sh
# Copies each ConfigMap with the label copy=wanted to NAME-copy, and then sets copy=done.
maps="$MOORING_KUBERNETES_HTTP/api/v1/namespaces/default/configmaps"
copy() {
  body=$(curl -sf "$maps/$1" | jq -c --arg name "$1-copy" '{metadata: {name: $name}, data}') &&
    curl -sf -o /dev/null -H 'content-type: application/json' -d "$body" "$maps"
}
mark() {
  curl -sf -o /dev/null -X PATCH -H 'content-type: application/merge-patch+json' \
    -d '{"metadata":{"labels":{"copy":"done"}}}' "$maps/$1"
}
while :; do
  curl -sf "$maps?labelSelector=copy%3Dwanted" | jq -r '.items[].metadata.name' |
    while read -r name; do
      copy "$name" && mark "$name"
    done
  sleep 0.1
done
