//! The EBS direct API: lists, reads and writes blocks of snapshots. Every answer is JSON or a block.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use jiff::SignedDuration;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use substrate::{Body, Ctx, body};

use crate::blocks::{self, BLOCK};
use crate::cloud::Ec2;
use crate::state::assembly::StartSnapshot;
use crate::state::error::Ec2Error;
use crate::state::ids::SnapshotId;
use crate::wire::auth::Means;
use crate::wire::{auth, signature};

/// Smallest and largest page.
const PAGE: (usize, usize) = (100, 10_000);
/// Lifetime of block tokens in days.
const TOKEN_DAYS: i64 = 7;
/// Largest request in bytes: a block, and little more.
const LIMIT: usize = (BLOCK as usize) + (64 << 10);
/// Smallest, default and largest timeout in minutes.
const TIMEOUT: (u64, u64, u64) = (10, 60, 4_320);
/// Only checksum algorithm.
const ALGORITHM: &str = "SHA256";

/// Refusal of a request: status, type, text.
type Refusal = (StatusCode, &'static str, String);

/// Answer to a request.
enum Answer {
    Json(StatusCode, Value),
    /// A block.
    Block(Vec<u8>),
    /// Only the checksum of the written block.
    Written(String),
}

fn invalid(text: impl Into<String>) -> Refusal {
    (StatusCode::BAD_REQUEST, "ValidationException", text.into())
}

/// Converts an error of the machine.
fn refused(error: Ec2Error) -> Refusal {
    let text = error.to_string();
    match error {
        Ec2Error::SnapshotNotFound(_) => (StatusCode::NOT_FOUND, "ResourceNotFoundException", text),
        Ec2Error::QuotaExceeded { .. } => (StatusCode::PAYMENT_REQUIRED, "ServiceQuotaExceededException", text),
        Ec2Error::TokenMismatch => (StatusCode::CONFLICT, "ConflictException", text),
        Ec2Error::InsufficientVolumeCapacity(_) => (StatusCode::INTERNAL_SERVER_ERROR, "InternalServerException", text),
        _ => invalid(text),
    }
}

fn internal(text: String) -> Refusal {
    (StatusCode::INTERNAL_SERVER_ERROR, "InternalServerException", text)
}

/// Answers a request of the service.
pub(crate) fn serve(ec2: Ec2, ctx: Ctx, parts: Parts, body: Body) -> BoxFuture<'static, Response<Body>> {
    Box::pin(async move {
        let mut response = match answer(&ec2, &ctx, &parts, body).await {
            Ok(Answer::Json(status, value)) => json_response(status, &value),
            Ok(Answer::Block(bytes)) => {
                let sum = checksum(&bytes);
                let length = bytes.len();
                let mut response = Response::new(body::full(Bytes::from(bytes)));
                let headers = response.headers_mut();
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
                headers.insert("x-amz-data-length", HeaderValue::from(length));
                put_checksum(headers, &sum);
                response
            }
            Ok(Answer::Written(sum)) => {
                let mut response = Response::new(body::empty());
                *response.status_mut() = StatusCode::CREATED;
                put_checksum(response.headers_mut(), &sum);
                response
            }
            Err((status, kind, message)) => {
                let mut response = json_response(status, &json!({ "Message": message }));
                response.headers_mut().insert("x-amzn-errortype", HeaderValue::from_static(kind));
                response
            }
        };
        if let Ok(id) = HeaderValue::from_str(&ec2.counts().request_id()) {
            response.headers_mut().insert("x-amzn-requestid", id);
        }
        response
    })
}

fn json_response(status: StatusCode, value: &Value) -> Response<Body> {
    let mut response = Response::new(body::full(value.to_string()));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

fn put_checksum(headers: &mut HeaderMap, sum: &str) {
    headers.insert("x-amz-checksum-algorithm", HeaderValue::from_static(ALGORITHM));
    if let Ok(sum) = HeaderValue::from_str(sum) {
        headers.insert("x-amz-checksum", sum);
    }
}

fn checksum(bytes: &[u8]) -> String {
    STANDARD.encode(Sha256::digest(bytes))
}

async fn answer(ec2: &Ec2, ctx: &Ctx, parts: &Parts, body: Body) -> Result<Answer, Refusal> {
    let denied = |e: Ec2Error| (StatusCode::FORBIDDEN, "AccessDeniedException", e.to_string());
    let caller = auth::caller(parts, b"").map_err(denied)?;
    let bytes = body::collect(body, LIMIT).await;
    let bytes = bytes.map_err(|error| invalid(format!("the request body did not arrive: {error}")))?;
    let (config, settings) = (ec2.config(), ec2.settings());
    if let Some(region) = auth::region(parts).filter(|region| *region != settings.region) {
        return Err(denied(crate::regions::refusal(&region, &settings.regions)));
    }
    if !config.credentials.is_empty() {
        let scope = signature::Scope { region: &config.region, service: "ebs" };
        signature::verify(parts, &bytes, &config.credentials, scope, ctx.now().wall).map_err(denied)?;
    }
    if parts.method != Method::GET && caller.means != Means::Header {
        return Err(invalid("a request that changes state needs its signature in the Authorization header"));
    }
    let path: Vec<&str> = parts.uri.path().trim_matches('/').split('/').collect();
    let query: BTreeMap<String, String> = signature::pairs(parts.uri.query().unwrap_or_default()).into_iter().collect();
    let ask = Ask { ec2, ctx, query: &query };
    let (get, put, post) = (parts.method == Method::GET, parts.method == Method::PUT, parts.method == Method::POST);
    match path.as_slice() {
        ["snapshots", snapshot, "blocks"] if get => ask.snapshot_blocks(snapshot).await,
        ["snapshots", snapshot, "blocks", index] if get => ask.block(snapshot, index).await,
        ["snapshots", snapshot, "changedblocks"] if get => ask.changed_blocks(snapshot).await,
        ["snapshots"] if post => ask.start(&bytes).await,
        ["snapshots", snapshot, "blocks", index] if put => ask.put(snapshot, index, &parts.headers, bytes).await,
        ["snapshots", "completion", snapshot] if post => ask.complete(snapshot, &parts.headers).await,
        ["snapshots"] | ["snapshots", _, "blocks" | "changedblocks"] | ["snapshots", _, "blocks", _] => {
            let text = format!("{} is not served at {}", parts.method, parts.uri.path());
            Err((StatusCode::METHOD_NOT_ALLOWED, "ValidationException", text))
        }
        _ => Err((StatusCode::NOT_FOUND, "ResourceNotFoundException", "nothing is served there".to_owned())),
    }
}

/// Body of StartSnapshot.
#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields, default)]
struct Start {
    volume_size: Option<u64>,
    parent_snapshot_id: Option<String>,
    tags: Vec<Tag>,
    description: Option<String>,
    client_token: Option<String>,
    encrypted: Option<bool>,
    kms_key_arn: Option<String>,
    timeout: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase", deny_unknown_fields)]
struct Tag {
    key: String,
    #[serde(default)]
    value: String,
}

struct Ask<'a> {
    ec2: &'a Ec2,
    ctx: &'a Ctx,
    query: &'a BTreeMap<String, String>,
}

impl Ask<'_> {
    async fn snapshot_blocks(&self, snapshot: &str) -> Result<Answer, Refusal> {
        let (id, _, size, file) = self.open(snapshot)?;
        let (from, most) = self.page()?;
        let found = self.away(move || blocks::present(&file, from, most + 1)).await?;
        let token = |block: u64| self.token(&id, block);
        let list = found.iter().take(most).map(|b| json!({ "BlockIndex": b, "BlockToken": token(*b) }));
        Ok(self.reply("Blocks", list.collect(), found.get(most).copied(), size))
    }

    async fn changed_blocks(&self, snapshot: &str) -> Result<Answer, Refusal> {
        let (id, volume, size, second) = self.open(snapshot)?;
        let (from, most) = self.page()?;
        let Some(first) = self.query.get("firstSnapshotId") else {
            // Without a first snapshot every block counts as changed.
            let found = self.away(move || blocks::present(&second, from, most + 1)).await?;
            let list =
                found.iter().take(most).map(|b| json!({ "BlockIndex": b, "SecondBlockToken": self.token(&id, *b) }));
            return Ok(self.reply("ChangedBlocks", list.collect(), found.get(most).copied(), size));
        };
        let (first_id, first_volume, _, first) = self.open(first)?;
        if first_volume != volume {
            return Err(invalid("The snapshots are of different volumes."));
        }
        let found = self.away(move || blocks::changed(&first, &second, from, most + 1)).await?;
        let list = found.iter().take(most).map(|(block, old, new)| {
            let mut item = json!({ "BlockIndex": block });
            if *old {
                item["FirstBlockToken"] = self.token(&first_id, *block).into();
            }
            if *new {
                item["SecondBlockToken"] = self.token(&id, *block).into();
            }
            item
        });
        Ok(self.reply("ChangedBlocks", list.collect(), found.get(most).map(|f| f.0), size))
    }

    /// Opens the snapshot `text`: id, volume, size in GiB and bytes.
    fn open(&self, text: &str) -> Result<(SnapshotId, String, u64, File), Refusal> {
        let id = parse(text)?;
        let found = self.ec2.with_state(self.ctx, |state, _| state.snapshot(&id).cloned());
        let snapshot = found.map_err(|e| (StatusCode::NOT_FOUND, "ResourceNotFoundException", e.to_string()))?;
        if snapshot.state.as_str() != "completed" {
            return Err(invalid(format!("The snapshot '{id}' is {}.", snapshot.state.as_str())));
        }
        let Some(dir) = &self.ec2.config().volume_dir else {
            return Err(no_bytes());
        };
        let file = File::open(dir.join(id.as_str()));
        let file = file.map_err(|e| invalid(format!("The snapshot '{id}' has no bytes here: {e}.")))?;
        Ok((id, snapshot.volume.to_string(), snapshot.size_gib, file))
    }

    /// Returns the first block and the number of blocks requested.
    fn page(&self) -> Result<(u64, usize), Refusal> {
        let number = |name: &str| match self.query.get(name) {
            None => Ok(None),
            Some(text) => {
                text.parse::<u64>().map(Some).map_err(|_| invalid(format!("{name}: `{text}` is not a number")))
            }
        };
        let most = number("maxResults")?.map_or(PAGE.1, |n| usize::try_from(n).unwrap_or(PAGE.1));
        if !(PAGE.0..=PAGE.1).contains(&most) {
            return Err(invalid(format!("maxResults: must lie between {} and {}", PAGE.0, PAGE.1)));
        }
        let from = match self.query.get("pageToken") {
            None => number("startingBlockIndex")?.unwrap_or(0),
            Some(token) => {
                let text = STANDARD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
                let block = text.as_deref().and_then(|t| t.strip_prefix("block:")).and_then(|t| t.parse().ok());
                block.ok_or_else(|| invalid("pageToken: is not one of ours"))?
            }
        };
        Ok((from, most))
    }

    fn reply(&self, name: &str, list: Vec<Value>, next: Option<u64>, size: u64) -> Answer {
        let expiry = self.ctx.now().wall.checked_add(SignedDuration::from_hours(24 * TOKEN_DAYS));
        let mut reply = json!({
            "BlockSize": BLOCK,
            "ExpiryTime": expiry.map_or(0, |t| t.as_second()),
            "VolumeSize": size,
        });
        reply[name] = list.into();
        if let Some(block) = next {
            reply["NextToken"] = STANDARD.encode(format!("block:{block}")).into();
        }
        Answer::Json(StatusCode::OK, reply)
    }

    /// Handles GetSnapshotBlock.
    async fn block(&self, snapshot: &str, index: &str) -> Result<Answer, Refusal> {
        let (id, _, _, file) = self.open(snapshot)?;
        let block = number("BlockIndex", index)?;
        let given = self.query.get("blockToken").ok_or_else(|| invalid("blockToken: is missing"))?;
        // Some clients decode the plus signs of the token as spaces.
        if given.replace(' ', "+") != self.token(&id, block) {
            return Err(invalid(format!("blockToken: is not that of block {block} of {id}")));
        }
        self.away(move || blocks::read(&file, block)).await.map(Answer::Block)
    }

    /// Handles StartSnapshot.
    async fn start(&self, bytes: &[u8]) -> Result<Answer, Refusal> {
        let start: Start = serde_json::from_slice(bytes).map_err(|error| invalid(error.to_string()))?;
        self.check_bytes()?;
        let timeout = start.timeout.unwrap_or(TIMEOUT.1);
        if !(TIMEOUT.0..=TIMEOUT.2).contains(&timeout) {
            return Err(invalid(format!("Timeout: must lie between {} and {} minutes", TIMEOUT.0, TIMEOUT.2)));
        }
        let parent = start.parent_snapshot_id.as_deref().map(parse).transpose()?;
        let request = StartSnapshot {
            size_gib: start.volume_size.ok_or_else(|| invalid("VolumeSize: is missing"))?,
            parent: parent.clone(),
            description: start.description.unwrap_or_default(),
            encrypted: start.encrypted.unwrap_or(false),
            kms_key: start.kms_key_arn,
            timeout_minutes: timeout,
            client_token: start.client_token,
            tags: start.tags.into_iter().map(|tag| (tag.key, tag.value)).collect(),
        };
        self.can_write().await?;
        let made = self.ec2.start_snapshot(self.ctx, &request).await.map_err(refused)?;
        self.written().await?;
        let tags: Vec<Value> = made.tags.iter().map(|(key, value)| json!({ "Key": key, "Value": value })).collect();
        let mut reported = json!({
            "Description": made.description,
            "SnapshotId": made.id.as_str(),
            "OwnerId": self.ec2.settings().account_id,
            "Status": made.state.as_str(),
            "StartTime": made.start_time.as_second(),
            "VolumeSize": made.size_gib,
            "BlockSize": BLOCK,
            "Tags": tags,
        });
        if let Some(parent) = parent {
            reported["ParentSnapshotId"] = parent.as_str().into();
        }
        if let Some(key) = &made.kms_key_id {
            reported["KmsKeyArn"] = key.clone().into();
            reported["SseType"] = "sse-kms".into();
        }
        Ok(Answer::Json(StatusCode::CREATED, reported))
    }

    /// Handles PutSnapshotBlock.
    async fn put(&self, snapshot: &str, index: &str, headers: &HeaderMap, bytes: Bytes) -> Result<Answer, Refusal> {
        let (id, block) = (parse(snapshot)?, number("BlockIndex", index)?);
        self.ec2.look(self.ctx, |state| state.writable(&id, block).map(drop)).map_err(refused)?;
        let length = number("x-amz-Data-Length", text(headers, "x-amz-data-length")?)?;
        if length != BLOCK || bytes.len() as u64 != length {
            let text =
                format!("x-amz-Data-Length: {length}, with {} bytes in the body; a block has {BLOCK}", bytes.len());
            return Err(invalid(text));
        }
        if let Some(progress) = headers.get("x-amz-progress").and_then(|value| value.to_str().ok())
            && number("x-amz-Progress", progress)? > 100
        {
            return Err(invalid("x-amz-Progress: must lie between 0 and 100"));
        }
        algorithm(headers)?;
        let sum = checksum(&bytes);
        let given = text(headers, "x-amz-checksum")?;
        if given != sum {
            return Err(invalid(format!("x-amz-Checksum: {given} is not that of the body, {sum}")));
        }
        let file = self.ec2.open_to_write(self.ctx, &id).map_err(|error| internal(error.to_string()))?;
        let file = file.ok_or_else(no_bytes)?;
        self.can_write().await?;
        self.away(move || file.write_all_at(&bytes, block * BLOCK)).await?;
        let noted = self.ec2.with_state(self.ctx, |state, now| state.block_written(now, &id, block, &sum));
        noted.map_err(refused)?;
        self.written().await?;
        Ok(Answer::Written(sum))
    }

    /// Handles CompleteSnapshot.
    async fn complete(&self, snapshot: &str, headers: &HeaderMap) -> Result<Answer, Refusal> {
        let id = parse(snapshot)?;
        let blocks = number("x-amz-ChangedBlocksCount", text(headers, "x-amz-changedblockscount")?)?;
        let sum = headers.get("x-amz-checksum").and_then(|value| value.to_str().ok());
        if sum.is_some() {
            algorithm(headers)?;
            match text(headers, "x-amz-checksum-aggregation-method")? {
                "LINEAR" => {}
                other => {
                    return Err(invalid(format!(
                        "x-amz-Checksum-Aggregation-Method: `{other}` is not known; use LINEAR"
                    )));
                }
            }
        }
        let check = |written: &BTreeMap<u64, String>| {
            let mut whole = Sha256::new();
            for sum in written.values() {
                whole.update(STANDARD.decode(sum).unwrap_or_default());
            }
            let own = STANDARD.encode(whole.finalize());
            match sum {
                Some(given) if given != own => Err(Ec2Error::InvalidParameterValue(format!(
                    "x-amz-Checksum: {given} is not that of the blocks, {own}"
                ))),
                _ => Ok(()),
            }
        };
        self.can_write().await?;
        let done = self.ec2.with_state(self.ctx, |state, now| state.complete_snapshot(now, &id, blocks, check));
        let snapshot = done.map_err(refused)?;
        self.written().await?;
        Ok(Answer::Json(StatusCode::ACCEPTED, json!({ "Status": snapshot.state.as_str() })))
    }

    fn check_bytes(&self) -> Result<(), Refusal> {
        if self.ec2.config().volume_dir.is_some() { Ok(()) } else { Err(no_bytes()) }
    }

    async fn can_write(&self) -> Result<(), Refusal> {
        self.ec2.can_record(self.ctx).await.map_err(internal)
    }

    async fn written(&self) -> Result<(), Refusal> {
        self.ec2.recorded(self.ctx).await.map_err(internal)
    }

    fn token(&self, snapshot: &SnapshotId, block: u64) -> String {
        let secret = self.ec2.secret("blocks");
        STANDARD.encode(Sha256::new().chain_update(secret).chain_update(format!("{snapshot} {block}")).finalize())
    }

    /// Reads files on a blocking thread.
    async fn away<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, Refusal> {
        let failed = |e: io::Error| (StatusCode::INTERNAL_SERVER_ERROR, "InternalServerException", e.to_string());
        self.ctx.blocking(work).await.map_err(failed)
    }
}

fn no_bytes() -> Refusal {
    invalid("This cloud keeps no bytes; start it with --volume-dir.")
}

fn parse(text: &str) -> Result<SnapshotId, Refusal> {
    text.parse().map_err(|e| invalid(format!("The snapshot ID '{text}' {e}.")))
}

fn number(name: &str, text: &str) -> Result<u64, Refusal> {
    text.parse().map_err(|_| invalid(format!("{name}: `{text}` is not a number")))
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, Refusal> {
    let found = headers.get(name).and_then(|value| value.to_str().ok());
    found.ok_or_else(|| invalid(format!("{name}: the header is missing")))
}

fn algorithm(headers: &HeaderMap) -> Result<(), Refusal> {
    match text(headers, "x-amz-checksum-algorithm")? {
        ALGORITHM => Ok(()),
        other => Err(invalid(format!("x-amz-Checksum-Algorithm: `{other}` is not known; use {ALGORITHM}"))),
    }
}
