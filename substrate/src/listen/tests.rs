//! Connections of patient and impatient clients, on real sockets.

use std::future::Future;
use std::io;
use std::net::SocketAddr;

use http::{Request, Response};
use http_body_util::BodyExt;
use tokio::io::AsyncReadExt;

use super::*;
use crate::body::{self, Body, BoxError};
use crate::process::Process;
use crate::world::{Options, World};

/// Time limit of a client. A prompt client keeps it also on a busy machine.
const SHORT: Duration = Duration::from_secs(1);
/// Time within which a closing connection has closed, on a busy machine.
const LONG: Duration = Duration::from_secs(90);

const TIMEOUTS: ConnectionTimeouts =
    ConnectionTimeouts { idle: Some(Duration::from_secs(2)), head: SHORT, body: SHORT };

/// Answers with the length of the body; `/slow` after a while, `/stream` with a piece now and one later.
async fn answer(request: Request<Body>) -> Result<Response<Body>, BoxError> {
    let path = request.uri().path().to_owned();
    match path.as_str() {
        "/slow" => tokio::time::sleep(SHORT * 4).await,
        "/stream" => {
            let pieces = futures_util::stream::unfold(0, |n| async move {
                tokio::time::sleep(SHORT * 3 * n).await;
                let frame = http_body::Frame::data(bytes::Bytes::from(format!("piece {n};")));
                (n < 2).then_some((Ok::<_, BoxError>(frame), n + 1))
            });
            return Ok(Response::new(body::boxed(http_body_util::StreamBody::new(pieces))));
        }
        _ => {}
    }
    match request.into_body().collect().await {
        Ok(all) => Ok(Response::new(body::full(format!("{} bytes", all.to_bytes().len())))),
        Err(error) => Ok(Response::builder().status(400).body(body::full(error.to_string()))?),
    }
}

fn play<F: Future<Output = ()>>(timeouts: ConnectionTimeouts, most: Option<usize>, test: impl FnOnce(SocketAddr) -> F) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    runtime.block_on(async {
        let world = World::live(Options::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let process = Process::start(&world, "server", |_| std::future::pending());
        let ctx = process.ctx().unwrap();
        let service = HttpService::new(|request| Box::pin(answer(request)));
        let mut admission = Admission::of(&ctx);
        admission.most = most.unwrap_or(admission.most);
        ctx.clone().spawn(accept(ctx, listener, service, None, timeouts, admission));
        test(address).await;
    });
}

/// Reads from `stream` until it ends.
async fn rest(stream: &mut TcpStream) -> String {
    let mut text = Vec::new();
    let read = tokio::time::timeout(LONG, stream.read_to_end(&mut text)).await.expect("it is closed");
    // A reset is an end, too.
    assert!(read.is_ok() || read.is_err_and(|e| e.kind() == io::ErrorKind::ConnectionReset));
    String::from_utf8_lossy(&text).into_owned()
}

async fn say(address: SocketAddr, text: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(text.as_bytes()).await.unwrap();
    stream
}

#[test]
fn an_incomplete_request_times_out() {
    play(TIMEOUTS, None, async |address| {
        let messages = [
            ("", ""),
            ("POST / HTT", ""),
            ("PRI * HTTP/2.0\r\n", ""),
            ("POST / HTTP/1.1\r\nhost: a\r\ncontent-le", ""),
            ("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n", "did not arrive in time"),
            ("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\n12345", "did not arrive in time"),
            ("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n5\r\n123", "did not arrive in time"),
            ("GET / HTTP/1.1\r\nhost: a\r\n\r\n", "0 bytes"),
            ("GET / HTTP/1.1\r\nhost: a\r\n\r\nGET / HT", "0 bytes"),
        ];
        let clients = messages.map(|(message, answered)| async move {
            let text = rest(&mut say(address, message).await).await;
            assert!(text.contains(answered) && text.is_empty() == answered.is_empty(), "{message}: {text}");
        });
        futures_util::future::join_all(clients).await;
        // The preface of HTTP/2 without a request.
        let mut stream = say(address, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0").await;
        rest(&mut stream).await;
    });
}

#[test]
fn slow_requests_are_answered() {
    play(TIMEOUTS, None, async |address| {
        let mut slow = say(address, "GET /slow HTTP/1.1\r\nhost: a\r\n\r\n").await;
        let mut streamed = say(address, "GET /stream HTTP/1.1\r\nhost: a\r\n\r\n").await;
        // Each piece arrives in time, but all of them together take longer.
        let mut piecemeal = say(address, "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 24\r\n\r\n").await;
        for _ in 0..24 {
            tokio::time::sleep(SHORT / 8).await;
            piecemeal.write_all(b"x").await.unwrap();
        }
        assert!(rest(&mut slow).await.contains("0 bytes"));
        assert!(rest(&mut streamed).await.contains("piece 1;"));
        assert!(rest(&mut piecemeal).await.contains("24 bytes"));
    });
}

#[test]
fn a_steady_client_keeps_its_connection_and_one_that_never_begins_does_not() {
    let steady = ConnectionTimeouts { idle: None, ..TIMEOUTS };
    play(steady, None, async |address| {
        let mut silent = TcpStream::connect(address).await.unwrap();
        let stream = TcpStream::connect(address).await.unwrap();
        let io = TokioIo::new(stream);
        let executor = hyper_util::rt::TokioExecutor::new();
        let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
        let work = async {
            for pause in [Duration::ZERO, SHORT * 4, SHORT] {
                tokio::time::sleep(pause).await;
                let request = Request::builder().uri("http://a/").body(body::empty()).unwrap();
                assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
            }
        };
        tokio::select! { () = work => {}, ended = connection => panic!("{ended:?}") }
        assert_eq!(rest(&mut silent).await, "");
    });
}

#[test]
fn a_full_listener_closes_the_idlest_or_refuses() {
    let patient = ConnectionTimeouts { idle: Some(LONG), head: LONG, body: LONG };
    play(patient, Some(3), async |address| {
        let ask = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
        let mut kept = Vec::new();
        for _ in 0..3 {
            let mut stream = say(address, ask).await;
            let mut some = [0; 12];
            stream.read_exact(&mut some).await.unwrap();
            kept.push(stream);
        }
        // The fourth connection is answered: the first one makes room.
        let mut fourth = say(address, "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
        assert!(rest(&mut fourth).await.contains("200 OK"));
        rest(&mut kept[0]).await;
        // All connections wait for an answer.
        let mut waiting = Vec::new();
        for _ in 0..3 {
            waiting.push(say(address, "GET /slow HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await);
        }
        tokio::time::sleep(SHORT).await;
        let text = rest(&mut say(address, ask).await).await;
        assert!(text.starts_with("HTTP/1.1 503 ") && text.ends_with("\r\n\r\ntoo many connections\n"), "{text}");
        for stream in &mut waiting {
            assert!(rest(stream).await.contains("200 OK"));
        }
        assert!(
            rest(&mut say(address, "GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await)
                .await
                .contains("200 OK")
        );
    });
}
