//! `pods/exec` and `pods/attach`: a websocket to a program that a client starts in a container, or to the container's own
//! (apiserver `registry/core/pod/rest/subresources.go`, `apimachinery/pkg/util/httpstream/wsstream`). The node gets the
//! messages as one stream ([`substrate::channels`]).

use std::time::Duration;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;
use substrate::Ctx;
use substrate::body::{Body, BoxError, boxed, call, empty};
use substrate::channels::{self, Decoder};
use substrate::link::{Frames, Streaming};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role, WebSocketConfig};
use tokio_tungstenite::tungstenite::{Error, Message};

use super::Server;
use super::call::Call;
use super::dials::NodeEndpoint;
use super::logs::{COMPLAINT, Located, TIMEOUT, beginning, reason_of};
use super::verb::Sub;
use crate::state::Status;

/// Subprotocols, the best first.
const PROTOCOLS: [&str; 4] = ["v5.channel.k8s.io", "v4.channel.k8s.io", "v3.channel.k8s.io", "channel.k8s.io"];
/// Messages of a client that wait for the node.
const WAITING: usize = 16;
/// Longest time without a message to the node.
const KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Time for the last message to a client.
const FAREWELL: Duration = Duration::from_secs(2);

/// Request for a websocket.
#[derive(Debug)]
struct Handshake {
    upgrade: OnUpgrade,
    accept: String,
    protocol: Option<&'static str>,
}

impl Handshake {
    fn read(parts: &Parts) -> Result<Self, Status> {
        let header = |name: &str| parts.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let asked = header("upgrade");
        if !asked.eq_ignore_ascii_case("websocket") {
            let why = match asked {
                "" => "Upgrade request required".to_owned(),
                other => format!(
                    "unable to upgrade to {other}: this server speaks websockets ({}), which kubectl uses since 1.31",
                    PROTOCOLS[0]
                ),
            };
            return Err(Status::bad_request(why));
        }
        let upgrade = parts.extensions.get::<OnUpgrade>().cloned();
        let upgrade = upgrade.ok_or_else(|| Status::bad_request("a websocket needs HTTP/1.1".to_owned()))?;
        let offered = parts.headers.get_all("sec-websocket-protocol").iter().filter_map(|value| value.to_str().ok());
        let offered: Vec<&str> = offered.flat_map(|value| value.split(',')).map(str::trim).collect();
        let protocol = PROTOCOLS.into_iter().find(|known| offered.contains(known));
        if protocol.is_none() && !offered.is_empty() {
            let (offered, known) = (offered.join(", "), PROTOCOLS.join(", "));
            return Err(Status::bad_request(format!("no subprotocol of [{offered}] is known; use one of [{known}]")));
        }
        let wanted = header("sec-websocket-key");
        if wanted.is_empty() || header("sec-websocket-version") != "13" {
            let why = "a websocket needs Sec-WebSocket-Key and Sec-WebSocket-Version: 13";
            return Err(Status::bad_request(why.to_owned()));
        }
        Ok(Self { upgrade, accept: derive_accept_key(wanted.as_bytes()), protocol })
    }

    fn answer(&self) -> Response<Body> {
        let mut response = Response::new(empty());
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        // A digest in base64 fits into a header.
        headers.extend(HeaderValue::from_str(&self.accept).map(|value| (header::SEC_WEBSOCKET_ACCEPT, value)));
        let protocol = self.protocol.map(|name| (header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(name)));
        headers.extend(protocol);
        response
    }
}

impl Server {
    /// Handles a request of pods/exec or pods/attach.
    pub(super) async fn exec(&self, parts: &Parts, asked: &Call) -> Result<Response<Body>, Status> {
        let flag = |name: &str| asked.query.flag(name).unwrap_or(false);
        if !["stdin", "stdout", "stderr"].into_iter().any(flag) {
            return Err(Status::bad_request("you must specify at least 1 of stdin, stdout, stderr".to_owned()));
        }
        let Located { path, node } = self.locate(asked, asked.query.get("container"))?;
        let unassigned = || Status::bad_request(format!("pod {} does not have a host assigned", asked.named()));
        let place = node.ok_or_else(unassigned)?.1?;
        let query = parts.uri.query().unwrap_or_default();
        let handshake = Handshake::read(parts);
        let verb = if asked.subresource == Sub::Attach { "attach" } else { "exec" };
        // After a refused websocket kubectl asks by SPDY, and prints that answer: it must have the reason.
        let check = if handshake.is_err() { "check=true&" } else { "" };
        let path = format!("/{verb}/{path}?{check}{query}");
        let (sender, receiver) = mpsc::channel::<Bytes>(WAITING);
        let body = futures_util::stream::unfold((receiver, self.ctx.clone()), |(mut receiver, ctx)| async move {
            let bytes = tokio::select! { biased;
                bytes = receiver.recv() => bytes?,
                // The node gives up a request from which it hears nothing.
                () = ctx.sleep(KEEP_ALIVE) => channels::encode(channels::STDIN, &[]),
            };
            Some((Ok::<_, BoxError>(Frame::data(bytes)), (receiver, ctx)))
        });
        let request = Request::post(&path).body(boxed(StreamBody::new(Box::pin(body))));
        let mut request = request.map_err(|error| Status::bad_request(error.to_string()))?;
        if let Ok(host) = HeaderValue::from_str(&place.authority()) {
            request.headers_mut().insert(header::HOST, host);
        }
        request.extensions_mut().insert(Streaming);
        request.extensions_mut().insert(Frames);
        let response = self
            .reach(&place, request)
            .await
            .map_err(|why| Status::new(500, "InternalError", format!("error dialing backend: {why}")))?;
        let code = response.status();
        if !code.is_success() {
            let why = String::from_utf8_lossy(&beginning(response.into_body(), COMPLAINT).await).into_owned();
            return Err(match code {
                StatusCode::NOT_FOUND => Status::new(404, "NotFound", why),
                _ => Status::bad_request(why),
            });
        }
        let handshake = handshake?;
        let answer = handshake.answer();
        let (ctx, from) = (self.ctx.clone(), response.into_body());
        self.ctx.spawn(async move {
            // A client that goes away before the upgrade needs no answer.
            if let Ok(connection) = handshake.upgrade.await {
                // The longest message of a client, as of a node.
                let limits = WebSocketConfig::default().max_message_size(Some(channels::LARGEST));
                let socket = WebSocketStream::from_raw_socket(TokioIo::new(connection), Role::Server, Some(limits));
                carry(&ctx, socket.await, from, sender).await;
            }
        });
        Ok(answer)
    }

    async fn reach(&self, place: &NodeEndpoint, request: Request<Body>) -> Result<Response<Body>, String> {
        let dial = self.shared.nodes.as_ref().ok_or("this server reaches no nodes")?;
        let deadline = self.ctx.now().mono + self.ctx.scaled_timeout(TIMEOUT);
        let exchange = async { call(dial(&self.ctx, place)?, request).await };
        let response = tokio::select! { biased;
            response = exchange => response,
            () = self.ctx.sleep_until(deadline) => Err("timeout awaiting response headers".into()),
        };
        response.map_err(|error| reason_of(&error, place))
    }
}

/// Carries the messages between a client and a node until one of them ends. Output continues while the node takes no
/// input: a program may write much before it reads.
async fn carry(
    ctx: &Ctx,
    mut socket: WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>,
    mut from: Body,
    to: mpsc::Sender<Bytes>,
) {
    let mut decoder = Decoder::default();
    // Message of the client for which the node has no room yet. The next one is not read meanwhile.
    let mut waiting: Option<Bytes> = None;
    'session: loop {
        tokio::select! { biased;
            frame = from.frame() => {
                let Some(Ok(frame)) = frame else { break };
                let Some(data) = frame.data_ref() else { continue };
                decoder.add(data);
                loop {
                    match decoder.take() {
                        Ok(Some((channel, content))) => {
                            let sent = send(&mut socket, channel, &content).await;
                            if sent.is_err() || channel == channels::RESULT {
                                break 'session;
                            }
                        }
                        Ok(None) => break,
                        Err(_) => break 'session,
                    }
                }
            }
            room = to.reserve(), if waiting.is_some() => {
                let Ok(room) = room else { break };
                if let Some(message) = waiting.take() {
                    room.send(message);
                }
            }
            message = socket.next(), if waiting.is_none() => match message {
                Some(Ok(message @ (Message::Binary(_) | Message::Text(_)))) => {
                    let bytes = message.into_data();
                    waiting = bytes.split_first().map(|(channel, content)| channels::encode(*channel, content));
                }
                // Pings are answered by the protocol.
                Some(Ok(Message::Ping(_) | Message::Pong(_) | Message::Frame(_))) => {}
                Some(Ok(Message::Close(_)) | Err(_)) | None => break,
            },
        }
    }
    // A client that is gone needs no farewell. A slow one gets some time.
    let deadline = ctx.now().mono + FAREWELL;
    let normal = CloseFrame { code: CloseCode::Normal, reason: "".into() };
    tokio::select! { biased;
        _ = socket.close(Some(normal)) => {}
        () = ctx.sleep_until(deadline) => {}
    }
}

async fn send(
    socket: &mut WebSocketStream<TokioIo<hyper::upgrade::Upgraded>>,
    channel: u8,
    content: &[u8],
) -> Result<(), Error> {
    let mut message = Vec::with_capacity(1 + content.len());
    message.push(channel);
    message.extend_from_slice(content);
    socket.send(Message::Binary(message.into())).await
}
