//! Tests that failed calls are reported as Go reports them, over real connections if that matters.

use std::path::Path;
use std::time::Duration;

use csi_proto::csi::volume_capability::access_mode::Mode;
use csi_proto::csi::{ControllerUnpublishVolumeRequest, ProbeRequest};
use rstest::rstest;
use substrate::link::LinkError;
use substrate::world::Options;
use substrate::{Ctx, Process, World, dial};
use tonic::{Code, Status};

use super::{Connection, RpcError, access_mode};

fn grpc(code: Code, message: &str) -> RpcError {
    RpcError::Grpc { code, message: message.to_owned() }
}

#[rstest]
#[case(Status::cancelled("gone"), "rpc error: code = Canceled desc = gone", false)]
#[case(Status::resource_exhausted("full"), "rpc error: code = ResourceExhausted desc = full", false)]
#[case(Status::aborted("busy"), "rpc error: code = Aborted desc = busy", false)]
#[case(Status::unavailable("later"), "rpc error: code = Unavailable desc = later", false)]
#[case(Status::deadline_exceeded("late"), "rpc error: code = DeadlineExceeded desc = late", false)]
#[case(Status::internal("no"), "rpc error: code = Internal desc = no", true)]
#[case(Status::unknown("no"), "rpc error: code = Unknown desc = no", true)]
#[case(Status::not_found("no"), "rpc error: code = NotFound desc = no", true)]
fn errors_of_the_driver_read_as_in_go(#[case] status: Status, #[case] text: &str, #[case] is_final: bool) {
    let error = RpcError::from(status);
    assert_eq!((error.to_string().as_str(), error.is_final()), (text, is_final));
}

#[rstest]
#[case(LinkError::Refused("csi".to_owned()),
    "connection error: desc = \"transport: Error while dialing: connection refused: nothing listens at csi\"")]
#[case(LinkError::Reset("csi".to_owned()), "error reading from server: connection to csi reset by peer")]
fn a_dead_driver_is_unavailable(#[case] failure: LinkError, #[case] text: &str) {
    assert_eq!(RpcError::from(Status::from_error(failure.into())), grpc(Code::Unavailable, text));
}

#[rstest]
#[case(h2::Reason::CANCEL, Code::Cancelled, "CANCEL")]
#[case(h2::Reason::REFUSED_STREAM, Code::Unavailable, "REFUSED_STREAM")]
#[case(h2::Reason::NO_ERROR, Code::Internal, "NO_ERROR")]
#[case(h2::Reason::ENHANCE_YOUR_CALM, Code::ResourceExhausted, "ENHANCE_YOUR_CALM")]
fn a_reset_before_the_deadline_has_the_code_of_its_reason(
    #[case] reason: h2::Reason,
    #[case] code: Code,
    #[case] name: &str,
) {
    live(|ctx, socket| async move {
        let peer = resetting(&socket, reason, Duration::ZERO);
        let driver = Connection::new(&ctx, dial::unix(&socket), Duration::from_secs(20));
        let error = driver.call(driver.identity().probe(ProbeRequest {})).await.expect_err("a reset");
        assert_eq!(error, grpc(code, &format!("stream terminated by RST_STREAM with error code: {name}")));
        drop(peer);
    });
}

#[test]
fn a_reset_at_the_deadline_is_the_deadline() {
    live(|ctx, socket| async move {
        // A grpc-go server counts from the arrival of the call; this one resets as early as a server can.
        let peer = resetting(&socket, h2::Reason::CANCEL, Duration::from_secs(1));
        let driver = Connection::new(&ctx, dial::unix(&socket), Duration::from_secs(1));
        let begun = ctx.now().mono;
        let request = ControllerUnpublishVolumeRequest::default();
        let error = driver.call(driver.controller().controller_unpublish_volume(request)).await.expect_err("a reset");
        assert_eq!(error.to_string(), "rpc error: code = DeadlineExceeded desc = context deadline exceeded");
        assert!(ctx.now().mono - begun >= Duration::from_secs(1));
        drop(peer);
    });
}

#[test]
fn an_error_after_the_deadline_is_deadline_exceeded() {
    let reset = std::io::Error::other(h2::Error::from(h2::Reason::CANCEL));
    let error = RpcError::new(&Status::from_error(reset.into()), true);
    assert_eq!(error.to_string(), "rpc error: code = DeadlineExceeded desc = context deadline exceeded");
}

#[test]
fn a_socket_that_is_gone_is_unavailable() {
    live(|ctx, socket| async move {
        let driver = Connection::new(&ctx, dial::unix(&socket), Duration::from_secs(20));
        let error = driver.call(driver.identity().probe(ProbeRequest {})).await.expect_err("no server listens");
        assert_eq!(error.code(), Some(Code::Unavailable));
        assert!(error.message().starts_with("connection error: desc = \"transport: Error while dialing: "), "{error}");
    });
}

#[rstest]
#[case(&["ReadWriteOnce"], false, Some(Mode::SingleNodeWriter))]
#[case(&["ReadWriteOnce"], true, Some(Mode::SingleNodeMultiWriter))]
#[case(&["ReadWriteOncePod"], false, Some(Mode::SingleNodeWriter))]
#[case(&["ReadWriteOncePod"], true, Some(Mode::SingleNodeSingleWriter))]
#[case(&["ReadWriteOncePod", "ReadWriteMany"], true, None)]
#[case(&["ReadWriteMany", "ReadWriteOnce"], false, Some(Mode::MultiNodeMultiWriter))]
#[case(&["ReadOnlyMany"], true, Some(Mode::MultiNodeReaderOnly))]
#[case(&["ReadOnlyMany", "ReadWriteOnce"], false, None)]
#[case(&[], false, None)]
fn access_modes_map_to_csi(#[case] modes: &[&str], #[case] multi_writer: bool, #[case] expected: Option<Mode>) {
    let modes: Vec<String> = modes.iter().map(|&m| m.to_owned()).collect();
    assert_eq!(access_mode(&modes, multi_writer).ok(), expected);
}

/// Runs `test` on the wall clock, with a process and a socket path.
fn live<F: Future<Output = ()>>(test: impl FnOnce(Ctx, std::path::PathBuf) -> F) {
    let dir = tempfile::tempdir().expect("a directory");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let world = World::live(Options::default());
        let process = Process::start(&world, "sidecar", |_| std::future::pending());
        test(process.ctx().expect("it runs"), dir.path().join("csi.sock")).await;
    });
}

/// Starts a driver that resets each call after `wait`; it ends when the returned value is dropped.
fn resetting(socket: &Path, reason: h2::Reason, wait: Duration) -> tokio::task::JoinSet<()> {
    let listener = tokio::net::UnixListener::bind(socket).expect("a socket");
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move {
        let (stream, _) = listener.accept().await.expect("a caller");
        let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
        let mut calls = tokio::task::JoinSet::new();
        while let Some(Ok((_request, mut answer))) = connection.accept().await {
            calls.spawn(async move {
                tokio::time::sleep(wait).await;
                answer.send_reset(reason);
            });
        }
    });
    tasks
}
