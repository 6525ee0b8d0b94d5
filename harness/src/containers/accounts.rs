//! Accounts that a container knows: those of the system. An image has no others, so that its programs show ids, such as
//! that of an fsGroup, as numbers.

use super::NOBODY;

/// First id that Linux distributions give to a person.
const PERSON: u32 = 1000;

/// Returns `/etc/passwd` or `/etc/group` without the accounts of people.
pub(super) fn of_system(text: &str) -> String {
    let is_kept = |line: &&str| {
        let id = line.split(':').nth(2).and_then(|id| id.parse::<u32>().ok());
        id.is_none_or(|id| id < PERSON || id == NOBODY)
    };
    text.split_inclusive('\n').filter(is_kept).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_people_are_left_out() {
        let passwd =
            "root:x:0:0:root:/root:/bin/sh\nann:x:1000:1000::/home/ann:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n";
        let kept = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n";
        assert_eq!(of_system(passwd), kept);
        assert_eq!(of_system("disk:x:6:ann\nann:x:1000:\n# a comment"), "disk:x:6:ann\n# a comment");
    }
}
