//! Generated identifiers from seeded streams: EC2 ids, uuids, generateName suffixes.

use rand_core::Rng;
use uuid::Uuid;

/// Returns an EC2-style id: `prefix-` and 17 lower-case hex digits (`vol-0a1b…`, `i-0…`), the first one 0 as in AWS.
pub fn ec2(rng: &mut impl Rng, prefix: &str) -> String {
    let (a, b) = (rng.next_u64(), rng.next_u64());
    let hex = format!("{a:016x}{b:016x}");
    format!("{prefix}-0{}", &hex[..16])
}

/// Returns a version 4 uuid.
pub fn uuid(rng: &mut impl Rng) -> Uuid {
    let mut bytes = [0; 16];
    rng.fill_bytes(&mut bytes);
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}

/// Returns the version 4 uuid of these bytes.
pub fn uuid_of(bytes: [u8; 16]) -> Uuid {
    uuid::Builder::from_random_bytes(bytes).into_uuid()
}

/// Letters that cannot spell words (apimachinery `util/rand`).
const ALPHANUMS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// Returns the five characters that `generateName` appends (apiserver `storage/names/generate.go`).
pub fn name_suffix(rng: &mut impl Rng) -> String {
    (0..5).map(|_| char::from(ALPHANUMS[(rng.next_u32() as usize) % ALPHANUMS.len()])).collect()
}

/// Returns `bytes` random bytes in hex, for bearer tokens and request ids.
pub fn token(rng: &mut impl Rng, bytes: usize) -> String {
    let mut raw = vec![0; bytes];
    rng.fill_bytes(&mut raw);
    raw.iter().map(|b| format!("{b:02x}")).collect()
}
