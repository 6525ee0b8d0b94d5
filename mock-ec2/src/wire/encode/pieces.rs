//! Long lists of volumes, encoded while they are sent: ten thousand volumes are ten megabytes of text.

use std::sync::Arc;
use std::vec::IntoIter;

use super::Surroundings;
use crate::state::command::Reply;
use crate::state::volume::Volume;
use crate::wire::services::Service;
use crate::wire::xml::Xml;

/// Number of volumes from which an answer is encoded in pieces.
const MANY: usize = 100;
/// Approximate size of a piece in bytes.
const PIECE: usize = 64 << 10;

/// Answer to a request.
#[derive(Debug)]
pub enum Pieces {
    /// All of it.
    Whole(String),
    /// A list that is encoded piece by piece.
    List(VolumeList),
}

impl Surroundings {
    /// Encodes the answer to `action`, with the same bytes as [`Surroundings::reply`].
    pub fn answer(&self, action: &'static str, request_id: &str, reply: Reply) -> Pieces {
        match reply {
            Reply::Volumes { volumes, next_token } if volumes.len() >= MANY => Pieces::List(VolumeList {
                surroundings: self.clone(),
                root: [action, "Response"].concat(),
                head: Some(request_id.to_owned()),
                volumes: volumes.into_iter(),
                tail: Some(next_token),
            }),
            reply => Pieces::Whole(self.reply(action, request_id, &reply)),
        }
    }
}

/// Pieces of the answer of DescribeVolumes.
#[derive(Debug)]
pub struct VolumeList {
    surroundings: Surroundings,
    root: String,
    /// Request id, until the start is written.
    head: Option<String>,
    volumes: IntoIter<Arc<Volume>>,
    /// Token, until the end is written.
    tail: Option<Option<String>>,
}

impl Iterator for VolumeList {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut xml = Xml::default();
        self.tail.as_ref()?;
        xml.reserve(PIECE + (PIECE >> 3));
        if let Some(request_id) = self.head.take() {
            xml = Xml::document();
            xml.open_root(&self.root, Service::Ec2.namespace());
            xml.text("requestId", &request_id);
            xml.open("volumeSet");
        }
        while xml.len() < PIECE {
            let Some(volume) = self.volumes.next() else {
                xml.close("volumeSet");
                xml.optional("nextToken", self.tail.take().flatten());
                xml.close(&self.root);
                break;
            };
            xml.element("item", |xml| self.surroundings.volume(xml, &volume, true));
        }
        Some(xml.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::zone::Zone;

    #[test]
    fn the_pieces_are_the_whole() {
        let zones = vec![Zone::new("us-east-1", "us-east-1a", 1)];
        let (region, account_id, volume_arn) = ("us-east-1".to_owned(), "0".to_owned(), "arn:".to_owned());
        let surroundings = Surroundings { region, account_id, zones, volume_arn };
        for (count, token) in [(0, None), (MANY - 1, None), (MANY, None), (1_000, Some("t".to_owned()))] {
            let volumes = (0..count).map(|n| Arc::new(Volume::blank(format!("vol-{n:017x}").parse().unwrap())));
            let reply = Reply::Volumes { volumes: volumes.collect(), next_token: token };
            let whole = surroundings.reply("DescribeVolumes", "r", &reply);
            let pieces = match surroundings.answer("DescribeVolumes", "r", reply) {
                Pieces::Whole(text) => vec![text],
                Pieces::List(list) => list.collect(),
            };
            assert_eq!(pieces.concat(), whole);
            assert!(count < 1_000 || pieces.len() > 5);
        }
    }
}
