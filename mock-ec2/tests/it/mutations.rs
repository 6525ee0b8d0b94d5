//! 100,000 broken requests, without a panic, a server failure or broken XML.

use mock_ec2::LatencyProfile::Instant;
use mock_ec2::fuzz;
use proptest::prelude::*;
use substrate::Seed;
use substrate::seed::between;

use crate::broken::{REQUESTS_TO_BREAK, broken};
use crate::common::{config, play, read, signed};

/// Number of requests.
const REQUESTS: u64 = 100_000;
/// Number of requests per cloud, so that lists stay short.
const ROUND: u64 = 250;

#[test]
fn a_hundred_thousand_broken_requests_break_nothing() {
    play(1, config(Instant), |cloud| async move {
        let mut rng = Seed::root(11).child("mutations").rng();
        let (mut volume, mut snapshot) = (String::new(), String::new());
        let instance = cloud.instance("node-a");
        let mut good = 0;
        for n in 0..REQUESTS {
            if n % ROUND == 0 {
                cloud.admin("POST", "reset", Some(serde_json::json!({}))).await;
                volume = cloud.volume().await;
                let form = format!("Action=CreateSnapshot&Version=2016-11-15&VolumeId={volume}");
                snapshot = cloud.ask(&form).await.first("snapshotId").unwrap();
                cloud.world.trace().keep(1);
            }
            let plain = REQUESTS_TO_BREAK[between(&mut rng, 0, REQUESTS_TO_BREAK.len() as u64 - 1) as usize]
                .replace("VOLUME", &volume)
                .replace("INSTANCE", &instance)
                .replace("SNAPSHOT", &snapshot);
            let form = broken(&format!("Version=2016-11-15&{plain}"), &mut rng);
            let answer = read(cloud.send(signed(&form)).await.unwrap()).await;
            assert!((200..500).contains(&answer.status), "{form}: {}\n{}", answer.status, answer.body);
            let id = answer.first("requestId").or_else(|| answer.first("RequestID"));
            assert_eq!(id.as_ref(), Some(&answer.request_id), "{form}: {}", answer.body);
            good += u64::from(answer.status == 200);
        }
        // Enough requests reach the machine.
        assert!(good > REQUESTS / 20 && good < REQUESTS, "{good}");
    });
}

proptest! {
    #[test]
    fn any_bytes_are_a_command_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Err(error) = fuzz::form(&bytes) {
            prop_assert!(error.status() < 500 && !error.to_string().is_empty());
        }
    }

    #[test]
    fn any_lines_are_requests_with_answers(
        lines in proptest::collection::vec((0..REQUESTS_TO_BREAK.len(), "[ -~]{0,9}", 0..60usize), 1..12),
    ) {
        let line = |(n, text, at): &(usize, String, usize)| {
            let mut line = format!("Version=2016-11-15&{}", REQUESTS_TO_BREAK[*n]);
            let at = line.len() - at % line.len();
            line.insert_str(at, text);
            line
        };
        let text: Vec<String> = lines.iter().map(line).collect();
        fuzz::requests(text.join("\n").as_bytes()).map_err(TestCaseError::fail)?;
    }

    #[test]
    fn any_text_survives_xml(text in "(?s).{0,60}") {
        let read = fuzz::xml(&text).map_err(TestCaseError::fail)?;
        let expected: String = text
            .chars()
            .map(|c| match c {
                '\u{0}'..='\u{8}' | '\u{b}' | '\u{c}' | '\u{e}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
                c => c,
            })
            .collect();
        // Parsers may trim whitespace around text.
        prop_assert_eq!(read.trim(), expected.trim());
    }
}
