//! Hashes in names and labels: FNV of 32 bits, encoded with letters that form no words (`rand.SafeEncodeString`).

use k8s_openapi::api::core::v1::PodTemplateSpec;

use super::go_dump;

/// Letters of encoded hashes.
const ALPHANUMS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const OFFSET: u32 = 2_166_136_261;
const PRIME: u32 = 16_777_619;
const OFFSET_128: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
const PRIME_128: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;

/// Computes FNV-1 (`fnv.New32`).
pub(crate) fn fnv1(bytes: impl IntoIterator<Item = u8>) -> u32 {
    bytes.into_iter().fold(OFFSET, |hash, byte| hash.wrapping_mul(PRIME) ^ u32::from(byte))
}

/// Computes FNV-1a (`fnv.New32a`).
fn fnv1a(bytes: impl IntoIterator<Item = u8>) -> u32 {
    bytes.into_iter().fold(OFFSET, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(PRIME))
}

/// Computes FNV-1a of 128 bits (`fnv.New128a`).
pub(crate) fn fnv1a_128(bytes: impl IntoIterator<Item = u8>) -> u128 {
    bytes.into_iter().fold(OFFSET_128, |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(PRIME_128))
}

/// Encodes a text with [`ALPHANUMS`].
pub(crate) fn safe_encode(text: &str) -> String {
    text.bytes().map(|byte| char::from(ALPHANUMS[usize::from(byte) % ALPHANUMS.len()])).collect()
}

/// Computes the hash of a pod template (`controller.ComputeHash`).
pub(crate) fn of_template(template: &PodTemplateSpec, collision_count: Option<i32>) -> String {
    let value = serde_json::to_value(template).expect("a template has only string keys and numbers");
    let mut bytes = go_dump::template(&value).into_bytes();
    if let Some(count) = collision_count {
        bytes.extend(i64::from(count).to_le_bytes());
    }
    safe_encode(&fnv1a(bytes).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_go() {
        // hash/fnv: fnv.New32 and fnv.New32a of "abc".
        assert_eq!(fnv1(*b"abc"), 0x439c_2f4b);
        assert_eq!(fnv1a(*b"abc"), 0x1a47_e90b);
        assert_eq!(fnv1a_128(*b"abc"), 0xa68d_622c_ec8b_5822_836d_bc79_77af_7f3b);
        // '0' is 48, so the letter 21; '9' is 57, so the letter 3.
        assert_eq!(safe_encode("09"), "4f");
    }

    #[test]
    fn the_hash_of_a_template_is_that_of_upstream() {
        // Names of ReplicaSets that kube-controller-manager 1.36 made from these templates.
        for line in include_str!("go_hashes.txt").lines() {
            let (hash, template) = line.split_once(' ').unwrap();
            assert_eq!(of_template(&serde_json::from_str(template).unwrap(), None), hash, "{template}");
        }
    }

    #[test]
    fn a_collision_changes_the_hash() {
        let template = PodTemplateSpec::default();
        let (none, first) = (of_template(&template, None), of_template(&template, Some(1)));
        assert_ne!(none, first);
        assert_eq!(none, of_template(&template.clone(), None));
        assert!(none.bytes().all(|byte| ALPHANUMS.contains(&byte)));
    }
}
