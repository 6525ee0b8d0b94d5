//! The SnapshotMetadata service over the EBS direct API: allocated blocks of a snapshot, and changed blocks between
//! two.

use csi_proto::csi::snapshot_metadata_server::SnapshotMetadata;
use csi_proto::csi::{
    BlockMetadata, BlockMetadataType, GetMetadataAllocatedRequest, GetMetadataAllocatedResponse,
    GetMetadataDeltaRequest, GetMetadataDeltaResponse,
};
use futures_util::stream::{self, BoxStream, StreamExt};
use tonic::{Request, Response, Status};

use super::create::GIB;
use super::ec2::{Blocks, Ec2Error};
use super::service::{ControllerService, internal, is_id};
use crate::calls::About;
use crate::capabilities::Feature;
use crate::check::{self, invalid};

/// Smallest and largest page of the direct API, in blocks.
const PAGE: (usize, usize) = (100, 10_000);
/// Default number of blocks in a message: small enough for gRPC's limit of 4 MiB.
const DEFAULT: usize = 1000;

/// Query for blocks.
#[derive(Clone, Debug)]
struct Ask {
    path: String,
    /// Snapshot to compare with.
    base: Option<String>,
    /// First byte.
    offset: i64,
    /// Largest number of blocks in a message.
    most: usize,
}

impl Ask {
    fn new(path: String, base: Option<String>, offset: i64, most: i32) -> Result<Self, Status> {
        if offset < 0 {
            return Err(invalid("starting_offset", "must not be negative"));
        }
        let most = check::max_entries("max_results", most)?.unwrap_or(DEFAULT);
        Ok(Self { path, base, offset, most })
    }
}

fn snapshot<'a>(field: &str, id: &'a str) -> Result<&'a str, Status> {
    let id = check::required(field, id)?;
    if is_id(id, "snap") { Ok(id) } else { Err(Status::not_found(format!("{field}: `{id}` does not exist"))) }
}

/// Converts an error of the direct API.
fn refused(error: &Ec2Error) -> Status {
    match error.code() {
        "ResourceNotFoundException" => Status::not_found(format!("snapshot_id: {error}")),
        // No bytes, not ready, or of different volumes: not comparable (CSI: code 9).
        "ValidationException" => Status::failed_precondition(format!("cannot determine the blocks: {error}")),
        _ => internal("cannot ask for the blocks", error),
    }
}

/// Message: the blocks and the volume's size.
type Message = (Vec<BlockMetadata>, i64);

/// Splits a page into messages of at most `most` blocks.
fn messages(page: &Blocks, ask: &Ask) -> Vec<Message> {
    let (size, capacity) = (page.block_size, page.volume_size.saturating_mul(GIB));
    let blocks =
        page.blocks.iter().map(|b| BlockMetadata { byte_offset: b.block_index.saturating_mul(size), size_bytes: size });
    // A block that ends before the first requested byte is left out; the one that contains it is included.
    let blocks: Vec<_> = blocks.filter(|b| b.byte_offset.saturating_add(size) > ask.offset).collect();
    blocks.chunks(ask.most.max(1)).map(|chunk| (chunk.to_vec(), capacity)).collect()
}

impl ControllerService {
    async fn page(&self, ask: &Ask, token: Option<String>, block_size: i64) -> Result<Blocks, Status> {
        let most = ask.most.clamp(PAGE.0, PAGE.1);
        let mut query = Vec::new();
        if let Some(base) = &ask.base {
            query.push(("firstSnapshotId", base.clone()));
        }
        query.push(("maxResults", most.to_string()));
        match token {
            Some(token) => query.push(("pageToken", token)),
            None if block_size > 0 => query.push(("startingBlockIndex", (ask.offset / block_size).to_string())),
            None => {}
        }
        self.ec2.blocks(&ask.path, &query).await.map_err(|e| refused(&e))
    }

    /// Returns the messages of an answer. The first page is read at once, so that its error is the answer of the call,
    /// not of the stream. Other pages are read on demand.
    async fn blocks(&self, ask: Ask) -> Result<BoxStream<'static, Result<Message, Status>>, Status> {
        // Size of a block, which the direct API returns only with the first page.
        const BLOCK: i64 = 512 << 10;
        let first = self.page(&ask, None, BLOCK).await?;
        if ask.offset > 0 && ask.offset >= first.volume_size.saturating_mul(GIB) {
            return Err(Status::out_of_range(format!(
                "starting_offset: {} lies beyond the end of the volume of {} GiB",
                ask.offset, first.volume_size
            )));
        }
        let service = self.clone();
        let pages = stream::unfold(Some((first, ask)), move |state| {
            let service = service.clone();
            async move {
                let (page, ask) = state?;
                let reported = messages(&page, &ask).into_iter().map(Ok).collect::<Vec<_>>();
                let next = match page.next_token.clone() {
                    None => None,
                    Some(token) => match service.page(&ask, Some(token), BLOCK).await {
                        Ok(next) => Some((next, ask)),
                        Err(error) => {
                            return Some((
                                stream::iter(reported.into_iter().chain([Err(error)]).collect::<Vec<_>>()),
                                None,
                            ));
                        }
                    },
                };
                Some((stream::iter(reported), next))
            }
        });
        Ok(pages.flatten().boxed())
    }
}

fn about(rpc: &'static str, target: &str) -> About {
    About { rpc, target: target.to_owned(), needs: Some(Feature::SnapshotMetadataService), ..About::default() }
}

#[tonic::async_trait]
impl SnapshotMetadata for ControllerService {
    type GetMetadataAllocatedStream = BoxStream<'static, Result<GetMetadataAllocatedResponse, Status>>;
    type GetMetadataDeltaStream = BoxStream<'static, Result<GetMetadataDeltaResponse, Status>>;

    async fn get_metadata_allocated(
        &self,
        request: Request<GetMetadataAllocatedRequest>,
    ) -> Result<Response<Self::GetMetadataAllocatedStream>, Status> {
        let request = request.into_inner();
        let about = about("GetMetadataAllocated", &request.snapshot_id);
        self.calls
            .stream(about, request, async |_, request| {
                let id = snapshot("snapshot_id", &request.snapshot_id)?;
                let ask = Ask::new(format!("{id}/blocks"), None, request.starting_offset, request.max_results)?;
                let reported = |(block_metadata, volume_capacity_bytes)| GetMetadataAllocatedResponse {
                    block_metadata_type: BlockMetadataType::FixedLength.into(),
                    volume_capacity_bytes,
                    block_metadata,
                };
                Ok(self.blocks(ask).await?.map(move |message| message.map(reported)).boxed())
            })
            .await
    }

    async fn get_metadata_delta(
        &self,
        request: Request<GetMetadataDeltaRequest>,
    ) -> Result<Response<Self::GetMetadataDeltaStream>, Status> {
        let request = request.into_inner();
        let about = about("GetMetadataDelta", &request.target_snapshot_id);
        self.calls
            .stream(about, request, async |_, request| {
                let base = snapshot("base_snapshot_id", &request.base_snapshot_id)?.to_owned();
                let target = snapshot("target_snapshot_id", &request.target_snapshot_id)?;
                let path = format!("{target}/changedblocks");
                let ask = Ask::new(path, Some(base), request.starting_offset, request.max_results)?;
                let reported = |(block_metadata, volume_capacity_bytes)| GetMetadataDeltaResponse {
                    block_metadata_type: BlockMetadataType::FixedLength.into(),
                    volume_capacity_bytes,
                    block_metadata,
                };
                Ok(self.blocks(ask).await?.map(move |message| message.map(reported)).boxed())
            })
            .await
    }
}
