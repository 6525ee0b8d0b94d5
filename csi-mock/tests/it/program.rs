//! The `csi-mock` program over its sockets, with directories for disks.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use csi_proto::Channel;
use csi_proto::csi::node_client::NodeClient;
use csi_proto::csi::{NodeGetInfoRequest, NodeUnpublishVolumeRequest};
use csi_proto::registration::registration_client::RegistrationClient;
use csi_proto::registration::{InfoRequest, RegistrationStatus};
use substrate::dial;

const NODE: &str = "i-0123456789abcdef0";

struct Program(Child);

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn command(dir: &Path, more: &[&str]) -> Command {
    let at = |name: &str| dir.join(name).display().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_csi-mock"));
    command
        .args(["--mode", "node", "--backend", "directory", "--node-id", NODE, "--node-name", "node-a"])
        .args(["--ready-file", &at("ready")])
        .args(["--root", &at("root"), "--volume-dir", &at("volumes"), "--registration-dir", &at("")])
        .args(["--ec2-endpoint", "http://127.0.0.1:1", "--trace", &at("trace")])
        .args(more)
        .env("CSI_ENDPOINT", format!("unix://{}", at("csi.sock")))
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    command
}

async fn started(dir: &Path, more: &[&str]) -> Program {
    let program = Program(command(dir, more).spawn().unwrap());
    until("the program is ready", || dir.join("ready").exists()).await;
    program
}

/// Waits until `holds` returns true, at most 90 seconds.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..4_500 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("not within 90 s: {what}");
}

#[tokio::test]
async fn it_answers_registers_and_ends_cleanly() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("csi.sock");
    // A stale socket of an earlier run is replaced.
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let mut program = started(dir.path(), &[]).await;
    let ready: serde_json::Value = serde_json::from_slice(&std::fs::read(dir.path().join("ready")).unwrap()).unwrap();
    assert_eq!(ready["endpoint"], format!("unix://{}", socket.display()));

    let registration = dir.path().join("ebs.csi.aws.com-reg.sock");
    let mut kubelet = RegistrationClient::new(Channel(dial::unix(&registration)));
    let info = kubelet.get_info(InfoRequest {}).await.unwrap().into_inner();
    assert_eq!((&*info.r#type, &*info.name), ("CSIPlugin", "ebs.csi.aws.com"));
    let reported = RegistrationStatus { plugin_registered: true, error: String::new() };
    kubelet.notify_registration_status(reported).await.unwrap();

    let mut node = NodeClient::new(Channel(dial::unix(info.endpoint)));
    assert_eq!(node.node_get_info(NodeGetInfoRequest {}).await.unwrap().into_inner().node_id, NODE);
    let outside = NodeUnpublishVolumeRequest { volume_id: "vol-1".into(), target_path: "/etc/x".into() };
    let refused = node.node_unpublish_volume(outside).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    assert!(refused.message().contains("outside"), "{}", refused.message());

    let pid = rustix::process::Pid::from_child(&program.0);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(program.0.wait().unwrap().success());
    assert!(!socket.exists() && !registration.exists() && !dir.path().join("ready").exists());
    let trace = std::fs::read_to_string(dir.path().join("trace")).unwrap();
    let done = trace.lines().map(|l| serde_json::from_str::<substrate::Line>(l).unwrap());
    assert_eq!(done.filter(|e| e.kind == "csi.done").count(), 2, "each line of the trace can be read back");
}

#[tokio::test]
async fn admin_faults_are_checked_and_a_crash_fault_ends_the_program() {
    let dir = tempfile::tempdir().unwrap();
    let mut program = started(dir.path(), &["--admin-listen", "127.0.0.1:0", "--admin-token", "sesame-sesame"]).await;
    let ready: serde_json::Value = serde_json::from_slice(&std::fs::read(dir.path().join("ready")).unwrap()).unwrap();
    let admin = dial::http(ready["admin"].as_str().unwrap()).unwrap();
    let ask = async |token: &str, kind: &str, fault: &str| {
        let request = http::Request::post("/admin/v1/faults")
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", kind)
            .body(substrate::body::full(fault.to_owned()))
            .unwrap();
        substrate::body::call(admin.clone(), request).await.unwrap().status().as_u16()
    };
    let fault = |plane: &str, effect: &str| {
        format!(r#"{{"name":"f","match":{{"plane":"{plane}","op":"NodeGetInfo"}},"effect":{effect}}}"#)
    };
    let (json, crash) = ("application/json", r#"{"crash":"self"}"#);
    assert_eq!(ask("wrong", json, &fault("csi", crash)).await, 401);
    assert_eq!(ask("sesame-sesame", "text/plain", &fault("csi", crash)).await, 415);
    assert_eq!(ask("sesame-sesame", json, &fault("ec2", crash)).await, 400);
    assert_eq!(ask("sesame-sesame", json, &fault("csi", r#"{"stale_read":3}"#)).await, 400);
    assert_eq!(ask("sesame-sesame", json, &fault("csi", r#"{"grpc":"NOPE"}"#)).await, 400);
    assert_eq!(
        ask("sesame-sesame", json, &fault("disk", r#"{"io_error":"EIOO"}"#).replace("NodeGetInfo", "read")).await,
        400
    );
    assert_eq!(
        ask("sesame-sesame", json, &fault("csi", r#"{"hang":true}"#).replace("GetInfo", "StageVolum")).await,
        400
    );
    assert_eq!(ask("sesame-sesame", json, "{").await, 400);
    assert_eq!(ask("sesame-sesame", json, &fault("csi", crash)).await, 201);
    let mut node = NodeClient::new(Channel(dial::unix(dir.path().join("csi.sock"))));
    node.node_get_info(NodeGetInfoRequest {}).await.unwrap_err();
    assert_eq!(program.0.wait().unwrap().code(), Some(137));
}

/// Encodes one frame of HTTP/2.
fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, stream], payload].concat()
}

#[tokio::test]
async fn a_socket_answers_whatever_authority_a_request_names() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    let dir = tempfile::tempdir().unwrap();
    let _program = started(dir.path(), &[]).await;
    let mut stream = tokio::net::UnixStream::connect(dir.path().join("csi.sock")).await.unwrap();
    let literal = |name: &str, value: &str| {
        let text = |text: &str| [&[u8::try_from(text.len()).unwrap()], text.as_bytes()].concat();
        [&[0x40][..], &text(name), &text(value)].concat()
    };
    // As gRPC in Python encodes it.
    let headers = [
        literal(":path", "/csi.v1.Identity/Probe"),
        literal(":authority", "%2Frun%2Fcsi.sock"),
        vec![0x83, 0x86],
        literal("te", "trailers"),
        literal("content-type", "application/grpc"),
    ]
    .concat();
    let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    let request = [preface, frame(4, 0, 0, &[]), frame(1, 4, 1, &headers), frame(0, 1, 1, &[0; 5])].concat();
    stream.write_all(&request).await.unwrap();
    let answer = async {
        loop {
            let mut header = [0; 9];
            stream.read_exact(&mut header).await.unwrap();
            let length = u32::from_be_bytes([0, header[0], header[1], header[2]]) as usize;
            let mut payload = vec![0; length];
            stream.read_exact(&mut payload).await.unwrap();
            match (header[3], header[8]) {
                // Message: ready, as a wrapped boolean.
                (0, 1) if length > 0 => return payload,
                (3 | 7, _) => panic!("the request was refused: {header:?} {payload:?}"),
                _ => {}
            }
        }
    };
    let message = tokio::time::timeout(Duration::from_secs(90), answer).await.unwrap();
    assert_eq!(message, [0, 0, 0, 0, 4, 10, 2, 8, 1]);
}

#[tokio::test]
async fn a_file_is_not_replaced_by_a_socket() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("csi.sock"), "precious").unwrap();
    let output = command(dir.path(), &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not a socket"));
    assert_eq!(std::fs::read(dir.path().join("csi.sock")).unwrap(), b"precious");
}

#[tokio::test]
async fn the_socket_goes_away_and_comes_back() {
    let dir = tempfile::tempdir().unwrap();
    let _program = started(dir.path(), &["--admin-listen", "127.0.0.1:0"]).await;
    let ready: serde_json::Value = serde_json::from_slice(&std::fs::read(dir.path().join("ready")).unwrap()).unwrap();
    let admin = dial::http(ready["admin"].as_str().unwrap()).unwrap();
    let ask = async |json: &str| {
        let request = http::Request::post("/admin/v1/socket")
            .header("content-type", "application/json")
            .body(substrate::body::full(json.to_owned()))
            .unwrap();
        substrate::body::call(admin.clone(), request).await.unwrap().status().as_u16()
    };
    assert_eq!(ask(r#"{"absentMs": 99999999}"#).await, 400);
    // The answer comes when the socket is gone. It stays away longer than a busy machine takes to look.
    assert_eq!(ask(r#"{"absentMs": 4000}"#).await, 200);
    let socket = dir.path().join("csi.sock");
    assert!(!socket.exists());
    until("the socket is back", || socket.exists()).await;
    let mut node = NodeClient::new(Channel(dial::unix(&socket)));
    assert_eq!(node.node_get_info(NodeGetInfoRequest {}).await.unwrap().into_inner().node_id, NODE);
}

#[tokio::test]
async fn it_answers_over_tcp_too() {
    let dir = tempfile::tempdir().unwrap();
    let _program = started(dir.path(), &["--endpoint", "tcp://127.0.0.1:0"]).await;
    let ready: serde_json::Value = serde_json::from_slice(&std::fs::read(dir.path().join("ready")).unwrap()).unwrap();
    let endpoint = ready["endpoint"].as_str().unwrap();
    assert!(endpoint.starts_with("tcp://127.0.0.1:") && !endpoint.ends_with(":0"), "{endpoint}");
    let driver = dial::grpc(endpoint).unwrap();
    let mut node = NodeClient::new(Channel(driver.clone()));
    assert_eq!(node.node_get_info(NodeGetInfoRequest {}).await.unwrap().into_inner().node_id, NODE);
    let outside = NodeUnpublishVolumeRequest { volume_id: "vol-1".into(), target_path: "/etc/x".into() };
    assert_eq!(node.node_unpublish_volume(outside).await.unwrap_err().code(), tonic::Code::InvalidArgument);
    // A web page whose DNS name points here is refused.
    let request = http::Request::post("/csi.v1.Node/NodeGetInfo").header("host", "evil.example:80");
    let request = request.header("origin", "http://evil.example").body(substrate::body::empty()).unwrap();
    assert!(substrate::body::call(driver, request).await.unwrap().status().is_client_error());
}

/// A cloud in this process on its own port, and a driver that only knows the two endpoints, as csi-sanity starts it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_driver_without_a_node_id_launches_its_own_instance() {
    let dir = tempfile::tempdir().unwrap();
    let world = substrate::World::live(substrate::world::Options::default());
    let process = substrate::Process::start(&world, "mock-ec2", |_| std::future::pending());
    let ctx = process.ctx().unwrap();
    let ec2 = mock_ec2::Ec2::new(&substrate::Seed::root(1), mock_ec2::Config::default()).unwrap();
    let cloud = csi_mock::serve::tcp(&ctx, "127.0.0.1:0".parse().unwrap(), ec2.start(&ctx)).await.unwrap();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let start = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_csi-mock"));
        command.args(["--endpoint", &at("csi.sock"), "--ready-file", &at("ready"), "--root", &at("root")]);
        command.args(["--ec2-endpoint", &format!("http://{cloud}"), "--zone", "us-east-1b"]);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        Program(command.spawn().unwrap())
    };
    let mut ids = Vec::new();
    for _ in 0..2 {
        let _program = start();
        until("the program is ready", || dir.path().join("ready").exists()).await;
        let ready = std::fs::read(dir.path().join("ready")).unwrap();
        let ready: serde_json::Value = serde_json::from_slice(&ready).unwrap();
        assert!(ready["endpoint"].as_str().unwrap().ends_with("csi.sock"));
        let mut node = NodeClient::new(Channel(dial::unix(dir.path().join("csi.sock"))));
        ids.push(node.node_get_info(NodeGetInfoRequest {}).await.unwrap().into_inner().node_id);
        std::fs::remove_file(dir.path().join("ready")).unwrap();
    }
    assert!(ids[0].starts_with("i-") && ids[0] == ids[1], "a driver that starts again is the same node: {ids:?}");
    let there = ec2.instances();
    assert_eq!((there.len(), &*there[0].zone), (1, "us-east-1b"));
}
