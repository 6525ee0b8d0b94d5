// Package mooring: a pod gets its volume although EC2's answer is lost. `mooring` is in PATH.
package mooring

import (
	"encoding/json"
	"net/http"
	"os/exec"
	"strings"
	"testing"
)

const claim = `{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}`
const pod = `{"metadata": {"name": "web"}, "spec": {"containers": [{"name": "w", "image": "mooring/writer", "volumeMounts": [{"name": "d", "mountPath": "/data"}]}], "volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "data"}}]}}`

func mooring(t *testing.T, args ...string) []byte {
	out, err := exec.Command("mooring", append(args, "--name", "go-example", "--output", "json")...).Output()
	if err != nil {
		t.Fatalf("mooring %v: %v\n%s", args, err, out)
	}
	return out
}
func TestPodRunsAfterALostReply(t *testing.T) {
	var up struct {
		Data struct{ KubernetesHTTP string }
	}
	_ = json.Unmarshal(mooring(t, "up", "--detach", "--check"), &up)
	defer mooring(t, "down")
	mooring(t, "fault", "add", "lost", "--on", "ec2/AttachVolume", "--effect", "drop_reply", "--at", "after_effect", "--first", "1")
	for plural, object := range map[string]string{"persistentvolumeclaims": claim, "pods": pod} {
		if answer, err := http.Post(up.Data.KubernetesHTTP+"/api/v1/namespaces/default/"+plural, "application/json", strings.NewReader(object)); err != nil || answer.StatusCode != 201 {
			t.Fatal(plural, answer, err)
		}
	}
	mooring(t, "wait", "--for", "pod/web=Running", "--timeout", "2m")
	if faults := string(mooring(t, "fault", "ls")); !strings.Contains(faults, `"hits":1`) {
		t.Error("the fault did not fire:", faults)
	}
	mooring(t, "check") // One writer at a time, no detach while mounted …: docs/invariants.md.
}
