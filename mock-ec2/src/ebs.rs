//! The EBS direct API, as far as changed-block services need it: ListSnapshotBlocks and ListChangedBlocks.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::BoxFuture;
use http::request::Parts;
use http::{HeaderValue, Method, Response, StatusCode, header};
use jiff::SignedDuration;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use substrate::{Body, Ctx, body};

use crate::blocks::{self, BLOCK};
use crate::cloud::Ec2;
use crate::state::ids::SnapshotId;
use crate::wire::{auth, signature};

/// Least and most items of a page.
const PAGE: (usize, usize) = (100, 10_000);
/// Days that block tokens live.
const TOKEN_DAYS: i64 = 7;

/// Why a request is refused: status, type, text.
type Refusal = (StatusCode, &'static str, String);

fn invalid(text: impl Into<String>) -> Refusal {
    (StatusCode::BAD_REQUEST, "ValidationException", text.into())
}

/// Answers a request below `/snapshots/`.
pub(crate) fn serve(ec2: Ec2, ctx: Ctx, parts: Parts) -> BoxFuture<'static, Response<Body>> {
    Box::pin(async move {
        let (status, kind, value) = match answer(&ec2, &ctx, &parts).await {
            Ok(value) => (StatusCode::OK, None, value),
            Err((status, kind, message)) => (status, Some(kind), json!({ "message": message })),
        };
        let mut response = Response::new(body::full(value.to_string()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(kind) = kind {
            headers.insert("x-amzn-errortype", HeaderValue::from_static(kind));
        }
        response
    })
}

async fn answer(ec2: &Ec2, ctx: &Ctx, parts: &Parts) -> Result<Value, Refusal> {
    let denied = |e: crate::state::error::Ec2Error| (StatusCode::FORBIDDEN, "AccessDeniedException", e.to_string());
    auth::caller(parts, b"").map_err(denied)?;
    let (config, settings) = (ec2.config(), ec2.settings());
    if let Some(region) = auth::region(parts).filter(|region| *region != settings.region) {
        return Err(denied(crate::regions::refusal(&region, &settings.regions)));
    }
    if !config.credentials.is_empty() {
        let scope = signature::Scope { region: &config.region, service: "ebs" };
        signature::verify(parts, b"", &config.credentials, scope, ctx.now().wall).map_err(denied)?;
    }
    let path: Vec<&str> = parts.uri.path().trim_matches('/').split('/').collect();
    let query: BTreeMap<String, String> = signature::pairs(parts.uri.query().unwrap_or_default()).into_iter().collect();
    if parts.method != Method::GET {
        return Err((StatusCode::METHOD_NOT_ALLOWED, "ValidationException", "only GET is served".to_owned()));
    }
    let ask = Ask { ec2, ctx, query: &query };
    match path.as_slice() {
        ["snapshots", snapshot, "blocks"] => ask.snapshot_blocks(snapshot).await,
        ["snapshots", snapshot, "changedblocks"] => ask.changed_blocks(snapshot).await,
        _ => Err((StatusCode::NOT_FOUND, "ResourceNotFoundException", "nothing is served there".to_owned())),
    }
}

struct Ask<'a> {
    ec2: &'a Ec2,
    ctx: &'a Ctx,
    query: &'a BTreeMap<String, String>,
}

impl Ask<'_> {
    async fn snapshot_blocks(&self, snapshot: &str) -> Result<Value, Refusal> {
        let (id, _, size, file) = self.open(snapshot)?;
        let (from, most) = self.page()?;
        let found = self.away(move || blocks::present(&file, from, most + 1)).await?;
        let token = |block: u64| self.token(&id, block);
        let list = found.iter().take(most).map(|b| json!({ "BlockIndex": b, "BlockToken": token(*b) }));
        Ok(self.reply("Blocks", list.collect(), found.get(most).copied(), size))
    }

    async fn changed_blocks(&self, snapshot: &str) -> Result<Value, Refusal> {
        let (id, volume, size, second) = self.open(snapshot)?;
        let (from, most) = self.page()?;
        let Some(first) = self.query.get("firstSnapshotId") else {
            // Without a first one everything has changed.
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

    /// The snapshot called `text`: its id, volume, size in GiB and bytes.
    fn open(&self, text: &str) -> Result<(SnapshotId, String, u64, File), Refusal> {
        let id: SnapshotId = text.parse().map_err(|e| invalid(format!("The snapshot ID '{text}' {e}.")))?;
        let found = self.ec2.poke(self.ctx, |state, _| state.snapshot(&id).cloned());
        let snapshot = found.map_err(|e| (StatusCode::NOT_FOUND, "ResourceNotFoundException", e.to_string()))?;
        if snapshot.state.as_str() != "completed" {
            return Err(invalid(format!("The snapshot '{id}' is {}.", snapshot.state.as_str())));
        }
        let Some(dir) = &self.ec2.config().volume_dir else {
            return Err(invalid("This cloud keeps no bytes; start it with --volume-dir."));
        };
        let file = File::open(dir.join(id.as_str()));
        let file = file.map_err(|e| invalid(format!("The snapshot '{id}' has no bytes here: {e}.")))?;
        Ok((id, snapshot.volume.to_string(), snapshot.size_gib, file))
    }

    /// The first block and the most blocks that are asked for.
    fn page(&self) -> Result<(u64, usize), Refusal> {
        let number = |name: &str| match self.query.get(name) {
            None => Ok(None),
            Some(text) => text.parse::<u64>().map(Some).map_err(|_| invalid(format!("{name}: `{text}` is no number"))),
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

    fn reply(&self, name: &str, list: Vec<Value>, next: Option<u64>, size: u64) -> Value {
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
        reply
    }

    fn token(&self, snapshot: &SnapshotId, block: u64) -> String {
        let secret = self.ec2.secret("blocks");
        STANDARD.encode(Sha256::new().chain_update(secret).chain_update(format!("{snapshot} {block}")).finalize())
    }

    /// Reads files where nobody else waits for the disk.
    async fn away<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> Result<T, Refusal> {
        let failed = |e: io::Error| (StatusCode::INTERNAL_SERVER_ERROR, "InternalServerException", e.to_string());
        self.ctx.blocking(work).await.map_err(failed)
    }
}
