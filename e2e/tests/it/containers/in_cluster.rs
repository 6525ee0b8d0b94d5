//! Variables of Services, and the API server as a program in the cluster finds it.

use anyhow::Context;
use e2e::Up;

use super::{MOORING, apply, have};

/// Reads the pods of its namespace as a client with the in-cluster configuration does.
const PODS: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: data-base}
spec: {ports: [{name: sql, port: 5432}]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: view}
subjects: [{kind: ServiceAccount, name: default, namespace: default}]
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
---
apiVersion: v1
kind: Pod
metadata: {name: operator}
spec:
  restartPolicy: Never
  containers:
    - name: app
      image: busybox
      command:
        - sh
        - -c
        - |
          echo "$DATA_BASE_SERVICE_HOST:$DATA_BASE_SERVICE_PORT_SQL"
          cd /var/run/secrets/kubernetes.io/serviceaccount
          curl --silent --show-error --fail --cacert ca.crt --header "Authorization: Bearer $(cat token)" --output /dev/null \
            "https://$KUBERNETES_SERVICE_HOST:$KUBERNETES_SERVICE_PORT/api/v1/namespaces/$(cat namespace)/pods/operator" &&
            echo found
"#;

#[test]
fn a_program_finds_services_and_the_api_server_live() {
    if !have("root") || !have("kubectl") || !have("curl") {
        return;
    }
    let up = Up::start(MOORING, &["--backend", "directory", "--containers", "process"]).unwrap();
    let kubectl = |args: &[&str]| up.run("kubectl", args);
    apply(&up, PODS).unwrap();
    let address = kubectl(&["get", "service", "data-base", "-o", "jsonpath={.spec.clusterIP}"]).unwrap();
    let ended = "--for=jsonpath={.status.phase}=Succeeded";
    let waited = kubectl(&["wait", ended, "pod/operator", "--timeout=90s"]);
    let log = kubectl(&["logs", "operator"]).unwrap();
    waited.context(log.clone()).context(up.log()).unwrap();
    assert_eq!(log, format!("{address}:5432\nfound\n"));
}
