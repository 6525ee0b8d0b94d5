//! Common parts of every RPC: its trace events, fault points, log entry, and lock on the volume.

use parking_lot::Mutex;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use dashmap::DashSet;
use serde::Serialize;
use substrate::fault::catalogue::folded;
use substrate::fault::{Effect, Failure, FaultOutcome, Moment, Plane, Point};
use substrate::json::Text;
use substrate::{Ctx, EventType};
use tokio::sync::{mpsc, oneshot};
use tonic::{Code, Status};

use crate::capabilities::Feature;
use crate::events::{CsiCall, CsiDone, CsiViolation, Rule};
use crate::kept::{Kept, Message};
use crate::settings::Settings;

/// Absence of the socket after a fault.
const ABSENCE: Duration = Duration::from_secs(1);
/// Number of finished calls in the log.
const LOG: usize = 1000;

/// Calls of one driver process. Clones share ordinals, locks and the log.
#[derive(Clone, Debug)]
pub struct Calls(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    ctx: Ctx,
    settings: Settings,
    /// If set, calls emit events.
    traced: bool,
    /// Locked keys: a volume (or the name of a new one), and the node if the lock includes it. Never iterated, so its
    /// order does not matter.
    busy: DashSet<(String, String)>,
    /// Volume and node id of volumes staged by this process, for the lifecycle rules.
    staged: DashSet<(String, String)>,
    /// Channel to the listener for absences of the driver's socket.
    socket: OnceLock<mpsc::UnboundedSender<Absence>>,
    log: Mutex<Log>,
}

/// Order to the listener of the driver's socket: it removes the socket for a time.
#[derive(Debug)]
pub(crate) struct Absence {
    /// Duration.
    pub lasts: Duration,
    /// Told when the socket has been removed.
    pub begins: oneshot::Sender<()>,
}

#[derive(Debug, Default)]
struct Log {
    ordinal: u64,
    ended: u64,
    done: VecDeque<Record>,
    open: u64,
    /// By RPC and code: number of calls, and their total duration in milliseconds.
    totals: BTreeMap<(&'static str, &'static str), (u64, u64)>,
    violations: VecDeque<Violation>,
    /// Number of violations by rule.
    broken: BTreeMap<Rule, u64>,
}

/// Call that violates the lifecycle of CSI (csi.proto spec, "Volume Lifecycle"). The driver answers it by the
/// specification. The caller, or a scenario, is to blame for the call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The call, see [`Record::ordinal`].
    pub ordinal: u64,
    /// The rule.
    pub rule: Rule,
    /// The RPC.
    pub rpc: &'static str,
    /// The volume.
    pub volume: String,
    /// The node in the request; empty if it names none.
    pub node: String,
}

/// Finished call, as `GET /admin/v1/calls` returns it, without its secrets.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Record {
    /// Position among the calls of this driver by their start, from 1.
    pub ordinal: u64,
    /// Position among them by their end. Two calls overlapped if the two orders differ.
    pub ended: u64,
    /// The RPC (`NodeStageVolume`).
    pub rpc: &'static str,
    /// The volume.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// The node: its id in controller RPCs, its name in node RPCs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The staging or target path.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Start in milliseconds since the start of the world.
    pub began_ms: u64,
    /// Duration in milliseconds.
    pub took_ms: u64,
    /// The gRPC code by name (`OK`), or `CANCELLED` if the caller went away.
    pub code: &'static str,
    /// The error's message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<Kept>,
    /// The answer; None if the call failed or the answer is a stream.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result: Option<Kept>,
}

/// Subject of a call.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The RPC (`NodeStageVolume`).
    pub rpc: &'static str,
    /// The volume in the request.
    pub volume: String,
    /// The node: its id in controller RPCs, its name in node RPCs.
    pub node: String,
    /// The staging or target path.
    pub target: String,
    /// Name of the device in the publish context of a node RPC.
    pub device: String,
    /// Required capability of the RPC.
    pub needs: Option<Feature>,
    /// True if the driver's volumes are mounted without an attachment.
    pub needs_no_attachment: bool,
    /// True for ControllerPublishVolume with `readonly`.
    pub readonly: bool,
}

impl About {
    fn rpc(&self) -> Text {
        Text::new_static(self.rpc)
    }
}

/// Converts a text for the trace; None if empty.
fn some(text: &str) -> Option<Text> {
    (!text.is_empty()).then(|| text.into())
}

/// Call under way. If it is dropped before [`Calls::run`] ends it, it is recorded as cancelled.
#[derive(Debug)]
pub struct Call {
    calls: Calls,
    about: About,
    /// The user's program that calls; empty for any other caller.
    caller: String,
    ordinal: u64,
    began: Duration,
    request: Option<Kept>,
    /// Volume that the call created, which its request could not name.
    created: OnceLock<String>,
    /// Effect of a fault that falsifies the answer.
    falsifies: OnceLock<Effect>,
    done: bool,
}

/// Lock on a volume, or on a volume and a node; released when dropped.
#[derive(Debug)]
pub struct Held {
    calls: Calls,
    key: (String, String),
}

impl Drop for Held {
    fn drop(&mut self) {
        let was_held = self.calls.0.busy.remove(&self.key).is_some();
        debug_assert!(was_held, "the lock on {:?} was released twice", self.key);
    }
}

impl Calls {
    /// Creates the call log of the driver in `ctx`, with default settings.
    pub fn new(ctx: &Ctx) -> Self {
        Self::with(ctx, Settings::default())
    }

    /// Creates the call log of the driver in `ctx` with `settings`.
    pub fn with(ctx: &Ctx, settings: Settings) -> Self {
        Self::made(ctx, settings, true)
    }

    /// Creates a log for calls outside CSI, without events; faults still apply.
    pub(crate) fn untraced(ctx: &Ctx) -> Self {
        Self::made(ctx, Settings::default(), false)
    }

    fn made(ctx: &Ctx, settings: Settings, traced: bool) -> Self {
        let (busy, staged, socket, log) = (DashSet::new(), DashSet::new(), OnceLock::new(), Mutex::default());
        Self(Arc::new(Inner { ctx: ctx.clone(), settings, traced, busy, staged, socket, log }))
    }

    /// Returns the settings that can change at run time.
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Returns the driver's process.
    pub fn ctx(&self) -> &Ctx {
        &self.0.ctx
    }

    /// Runs one RPC like [`Calls::run`], and logs its request and answer.
    ///
    /// # Errors
    /// The error of `work` or of a fault.
    pub async fn rpc<Q: Message, T: Message>(
        &self,
        about: About,
        request: Q,
        work: impl AsyncFnOnce(&Call, Q) -> Result<T, Status>,
    ) -> Result<tonic::Response<T>, Status> {
        let mut call = self.begin(about, Some(Kept::new(&request)));
        let result = self.guarded(&call, async |call| work(call, request).await).await;
        call.end(&result, result.as_ref().ok().map(Kept::new));
        result.map(tonic::Response::new)
    }

    /// Runs an RPC with a streamed answer, which is not logged.
    ///
    /// # Errors
    /// The error of `work` or of a fault.
    pub async fn stream<Q: Message, T>(
        &self,
        about: About,
        request: Q,
        work: impl AsyncFnOnce(&Call, Q) -> Result<T, Status>,
    ) -> Result<tonic::Response<T>, Status> {
        let mut call = self.begin(about, Some(Kept::new(&request)));
        let result = self.guarded(&call, async |call| work(call, request).await).await;
        call.end(&result, None);
        result.map(tonic::Response::new)
    }

    /// Runs one RPC: records it, applies faults before it and before its reply, and records the result. `work` itself
    /// calls [`Call::after_effect`], between its side effect and the change of the driver's memory.
    ///
    /// # Errors
    /// The error of `work` or of a fault.
    pub async fn run<T>(
        &self,
        about: About,
        work: impl AsyncFnOnce(&Call) -> Result<T, Status>,
    ) -> Result<tonic::Response<T>, Status> {
        let mut call = self.begin(about, None);
        let result = self.guarded(&call, work).await;
        call.end(&result, None);
        result.map(tonic::Response::new)
    }

    async fn guarded<T>(&self, call: &Call, work: impl AsyncFnOnce(&Call) -> Result<T, Status>) -> Result<T, Status> {
        let lost = call.point(Moment::Before).await?;
        if let Some(feature) = call.about.needs {
            self.0.settings.need(feature)?;
        }
        let reply = work(call).await?;
        let lost = call.point(Moment::BeforeReply).await? || lost;
        if lost { Err(reply_lost()) } else { Ok(reply) }
    }

    fn begin(&self, about: About, request: Option<Kept>) -> Call {
        let ordinal = {
            let mut log = self.log();
            log.ordinal += 1;
            log.open += 1;
            log.ordinal
        };
        let caller = crate::caller::caller();
        self.emit(CsiCall {
            caller: some(&caller),
            rpc: about.rpc(),
            volume: some(&about.volume),
            node: some(&about.node),
            target: some(&about.target),
            device: some(&about.device),
            ordinal,
            needs_no_attachment: about.needs_no_attachment && about.rpc() == "NodePublishVolume",
            for_writing: about.rpc() == "ControllerPublishVolume"
                && !about.readonly
                && self.0.settings.has(Feature::PublishReadonly),
            stages_nothing: about.rpc() == "NodePublishVolume" && !self.0.settings.has(Feature::StageUnstageVolume),
        });
        Call {
            calls: self.clone(),
            about,
            caller,
            ordinal,
            began: self.0.ctx.now().mono,
            request,
            created: OnceLock::new(),
            falsifies: OnceLock::new(),
            done: false,
        }
    }

    fn emit(&self, event: impl EventType) {
        if self.0.traced {
            self.0.ctx.emit(event);
        }
    }

    /// Takes the lock on `key` (a volume id, or the name of a new volume).
    ///
    /// # Errors
    /// ABORTED while another operation on it is in flight (CSI: the caller must retry with backoff).
    pub fn lock(&self, key: &str) -> Result<Held, Status> {
        self.lock_at(key, "")
    }

    /// Takes the lock on a volume and a node together; operations on other nodes may run in parallel.
    ///
    /// # Errors
    /// ABORTED while another operation on both is in flight.
    pub fn lock_at(&self, volume: &str, node: &str) -> Result<Held, Status> {
        let key = (volume.to_owned(), node.to_owned());
        if self.0.busy.insert(key.clone()) {
            return Ok(Held { calls: self.clone(), key });
        }
        let at = if node.is_empty() { String::new() } else { format!(" and node `{node}`") };
        Err(Status::aborted(format!("an operation on volume `{volume}`{at} is in flight: retry later")))
    }

    /// Sets the listener of the driver's socket; a second call has no effect.
    pub(crate) fn listens(&self, socket: mpsc::UnboundedSender<Absence>) {
        // A driver has one socket.
        let _ = self.0.socket.set(socket);
    }

    /// Removes the driver's socket for the time `lasts`, after earlier absences. Returns a receiver that is told when the
    /// absence begins; None if the driver has no socket.
    pub(crate) fn drop_socket(&self, lasts: Duration) -> Option<oneshot::Receiver<()>> {
        let (begins, begun) = oneshot::channel();
        self.0.socket.get()?.send(Absence { lasts, begins }).ok()?;
        Some(begun)
    }

    /// Records that the node service of this process has staged or unstaged a volume.
    pub(crate) fn note_staged(&self, volume: &str, node_id: &str, staged: bool) {
        let key = (volume.to_owned(), node_id.to_owned());
        if staged {
            self.0.staged.insert(key);
        } else {
            self.0.staged.remove(&key);
        }
    }

    /// Returns true if the node service of this process has the volume staged.
    pub(crate) fn is_staged(&self, volume: &str, node_id: &str) -> bool {
        self.0.staged.contains(&(volume.to_owned(), node_id.to_owned()))
    }

    /// Returns the finished calls, oldest first.
    pub fn records(&self) -> Vec<Record> {
        self.log().done.iter().cloned().collect()
    }

    /// Returns the number of calls by RPC and code (`NodeStageVolume OK`).
    pub fn totals(&self) -> BTreeMap<String, u64> {
        self.log().totals.iter().map(|((rpc, code), (n, _))| (format!("{rpc} {code}"), *n)).collect()
    }

    /// Returns, by RPC and code, the number of calls and their total duration in milliseconds.
    pub fn times(&self) -> BTreeMap<(&'static str, &'static str), (u64, u64)> {
        self.log().totals.clone()
    }

    /// Returns the latest lifecycle violations, oldest first.
    pub fn violations(&self) -> Vec<Violation> {
        self.log().violations.iter().cloned().collect()
    }

    /// Returns the number of violations by rule.
    pub fn broken(&self) -> BTreeMap<Rule, u64> {
        self.log().broken.clone()
    }

    /// Returns the number of calls under way.
    pub fn open(&self) -> u64 {
        self.log().open
    }

    /// Empties the log.
    pub fn clear(&self) {
        let mut log = self.log();
        log.done.clear();
        log.totals.clear();
        log.violations.clear();
        log.broken.clear();
    }

    fn log(&self) -> parking_lot::MutexGuard<'_, Log> {
        self.0.log.lock()
    }
}

impl Call {
    /// Fault point between the side effect and the change of the driver's memory.
    ///
    /// # Errors
    /// The error of the fault.
    pub async fn after_effect(&self) -> Result<(), Status> {
        if self.point(Moment::AfterEffect).await? { Err(reply_lost()) } else { Ok(()) }
    }

    /// Records the id of a volume that the call created.
    pub fn created(&self, volume: &str) {
        // A call creates one volume; a second id belongs to a repeat within the call.
        let _ = self.created.set(volume.to_owned());
    }

    /// Records a lifecycle violation by this call.
    pub fn violates(&self, rule: Rule) {
        let About { rpc, volume, node, target, .. } = &self.about;
        let violation = Violation { ordinal: self.ordinal, rule, rpc, volume: volume.clone(), node: node.clone() };
        self.calls.emit(CsiViolation {
            rpc: self.about.rpc(),
            volume: some(volume),
            node: some(node),
            target: some(target),
            rule,
            ordinal: self.ordinal,
        });
        let mut log = self.calls.log();
        *log.broken.entry(rule).or_default() += 1;
        log.violations.push_back(violation);
        if log.violations.len() > LOG {
            log.violations.pop_front();
        }
    }

    /// Returns true if a fault makes the answer name another volume's device.
    pub fn wrong_device(&self) -> bool {
        matches!(self.falsifies(), Some(Effect::WrongDevice(true)))
    }

    /// Returns the effect of the fault that falsifies the answer, if there is one.
    pub(crate) fn falsifies(&self) -> Option<&Effect> {
        self.falsifies.get()
    }

    /// Returns the RPC, and the volume and the node of the request, for the trace.
    pub(crate) fn subject(&self) -> (Text, Option<Text>, Option<Text>) {
        (self.about.rpc(), some(&self.about.volume), some(&self.about.node))
    }

    /// Returns the driver's process.
    pub(crate) fn ctx(&self) -> &Ctx {
        self.calls.ctx()
    }

    /// Applies a fault at `moment`. Returns true if the reply must be dropped.
    async fn point(&self, moment: Moment) -> Result<bool, Status> {
        let about = &self.about;
        let attributes =
            [("volume", &*about.volume), ("node", &*about.node), ("target", &*about.target), ("caller", &*self.caller)];
        let point = Point { plane: Plane::Csi, op: about.rpc, attributes: &attributes, moment };
        match self.calls.ctx().meet(&point).await {
            FaultOutcome::Proceed => {}
            FaultOutcome::Fail { fault, failure } => {
                let message = format!("fault `{fault}`");
                return Err(match failure {
                    Failure::Grpc(code) => {
                        Status::new(code_by_name(&code).expect("the catalogue allows gRPC's codes"), message)
                    }
                    Failure::Named(word) => match code_by_name(&word) {
                        Some(code) => Status::new(code, message),
                        None => Status::internal(format!("{word}: {message}")),
                    },
                    Failure::Http(status) => Status::unavailable(format!("HTTP status {status}: {message}")),
                });
            }
            FaultOutcome::Break { .. } => return Err(Status::unavailable("connection reset by peer")),
            FaultOutcome::LoseReply { .. } => return Ok(true),
            FaultOutcome::Alter { effect: Effect::ResetStream(_), .. } => {
                // The caller is not told when.
                let _ = self.calls.drop_socket(ABSENCE);
                return Err(Status::unavailable("connection reset by peer: the socket went away"));
            }
            FaultOutcome::Alter {
                effect:
                    falsifies @ (Effect::WrongDevice(_)
                    | Effect::OmitEntry(_)
                    | Effect::RepeatEntry(_)
                    | Effect::NoContext(_)
                    | Effect::WrongCapacity(_)
                    | Effect::WrongNode(_)
                    | Effect::WrongZone(_)),
                ..
            } => {
                // Only the first such fault falsifies the answer.
                let _ = self.falsifies.set(falsifies);
            }
            outcome => point.unlisted(&outcome),
        }
        Ok(false)
    }

    fn end<T>(&mut self, result: &Result<T, Status>, kept: Option<Kept>) {
        self.done = true;
        match result {
            Ok(_) => self.record("OK", None, kept),
            Err(status) => self.record(code_name(status.code()), Some(status.message().to_owned()), None),
        }
    }

    fn record(&self, code: &'static str, message: Option<String>, result: Option<Kept>) {
        let ctx = self.calls.ctx();
        let ms = ctx.now().mono.saturating_sub(self.began).as_millis() as u64;
        let volume = self.created.get().unwrap_or(&self.about.volume);
        self.calls.emit(CsiDone {
            rpc: self.about.rpc(),
            volume: some(volume),
            node: some(&self.about.node),
            ordinal: self.ordinal,
            code: Text::new_static(code),
            took_ms: ms,
            message: message.clone(),
        });
        let some = |text: &String| (!text.is_empty()).then(|| text.clone());
        let mut record = Record {
            ordinal: self.ordinal,
            ended: 0,
            rpc: self.about.rpc,
            volume: some(volume),
            node: some(&self.about.node),
            target: some(&self.about.target),
            began_ms: self.began.as_millis() as u64,
            took_ms: ms,
            code,
            message,
            request: self.request.clone(),
            result,
        };
        let mut log = self.calls.log();
        log.open = log.open.saturating_sub(1);
        log.ended += 1;
        record.ended = log.ended;
        let total = log.totals.entry((record.rpc, code)).or_default();
        *total = (total.0 + 1, total.1.saturating_add(ms));
        log.done.push_back(record);
        if log.done.len() > LOG {
            log.done.pop_front();
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        // A crashed process records nothing.
        if !self.done && !self.calls.ctx().is_down() {
            self.record("CANCELLED", Some("the caller went away".to_owned()), None);
        }
    }
}

/// Returns a client's error for a connection that broke before the answer.
fn reply_lost() -> Status {
    Status::unavailable("connection reset by peer: the reply was lost")
}

const CODES: [(Code, &str); 17] = [
    (Code::Ok, "OK"),
    (Code::Cancelled, "CANCELLED"),
    (Code::Unknown, "UNKNOWN"),
    (Code::InvalidArgument, "INVALID_ARGUMENT"),
    (Code::DeadlineExceeded, "DEADLINE_EXCEEDED"),
    (Code::NotFound, "NOT_FOUND"),
    (Code::AlreadyExists, "ALREADY_EXISTS"),
    (Code::PermissionDenied, "PERMISSION_DENIED"),
    (Code::ResourceExhausted, "RESOURCE_EXHAUSTED"),
    (Code::FailedPrecondition, "FAILED_PRECONDITION"),
    (Code::Aborted, "ABORTED"),
    (Code::OutOfRange, "OUT_OF_RANGE"),
    (Code::Unimplemented, "UNIMPLEMENTED"),
    (Code::Internal, "INTERNAL"),
    (Code::Unavailable, "UNAVAILABLE"),
    (Code::DataLoss, "DATA_LOSS"),
    (Code::Unauthenticated, "UNAUTHENTICATED"),
];

/// Returns the name of a code in the gRPC specification (`FAILED_PRECONDITION`).
pub fn code_name(code: Code) -> &'static str {
    CODES.iter().find(|(c, _)| *c == code).map_or("UNKNOWN", |(_, name)| name)
}

/// Returns the code of a name, ignoring case and underscores (`FailedPrecondition` is valid).
pub fn code_by_name(name: &str) -> Option<Code> {
    CODES.iter().find(|(_, n)| folded(n) == folded(name)).map(|(code, _)| *code)
}
