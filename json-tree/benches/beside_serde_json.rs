//! Comparison with `serde_json::Value` on recorded objects of a real API server: read, copied, changed and written.
//! Prints nanoseconds for each, and the speed-up.

#![expect(clippy::disallowed_methods, reason = "a bench measures real time")]
#![expect(clippy::unwrap_used, reason = "what goes wrong in a bench ends it")]

use std::hint::black_box;
use std::time::{Duration, Instant};

/// Duration of each measurement, of which there are a few.
const SPAN: Duration = Duration::from_millis(200);
const TIMES: usize = 5;

/// Measured kinds: those of storage, and one with a pod template.
const KINDS: [&str; 5] = ["Node", "PersistentVolume", "PersistentVolumeClaim", "StatefulSet", "VolumeAttachment"];

/// Returns the recorded objects as text.
fn objects() -> Vec<String> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../fake-apiserver/testdata/protobuf-vectors.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    let vectors = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let of = |vector: &serde_json::Value| KINDS.iter().any(|kind| vector["kind"] == *kind);
    vectors.filter(of).map(|vector| vector["json"].to_string()).collect()
}

/// Returns the minimum time of `work` per item in nanoseconds, of several measurements.
fn nanoseconds(items: usize, mut work: impl FnMut()) -> f64 {
    let measure = |work: &mut dyn FnMut()| {
        let (begun, mut rounds) = (Instant::now(), 0_u32);
        while begun.elapsed() < SPAN {
            work();
            rounds += 1;
        }
        begun.elapsed().as_nanos() as f64 / f64::from(rounds) / items as f64
    };
    (0..TIMES).map(|_| measure(&mut work)).fold(f64::INFINITY, f64::min)
}

/// Measures the same expression with both trees: `Tree` and `json` in it are those of one tree.
macro_rules! both {
    ($what:literal, $texts:ident, |$trees:ident| $work:expr) => {{
        let ours = {
            use json_tree::{Value as Tree, json};
            let $trees: Vec<Tree> = $texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
            let _ = json!(null);
            nanoseconds($texts.len(), || $work)
        };
        let theirs = {
            use serde_json::{Value as Tree, json};
            let $trees: Vec<Tree> = $texts.iter().map(|text| serde_json::from_str(text).unwrap()).collect();
            let _ = json!(null);
            nanoseconds($texts.len(), || $work)
        };
        println!("{:<22} {ours:>8.0} ns {theirs:>12.0} ns {:>8.1}", $what, theirs / ours);
    }};
}

fn main() {
    // `cargo test --benches` and `cargo bench -- --list` run this too.
    if std::env::args().any(|a| a == "--list" || a == "--test") {
        return;
    }
    let texts = objects();
    let bytes = texts.iter().map(String::len).sum::<usize>() / texts.len();
    println!("{} recorded objects of {bytes} bytes\n", texts.len());
    println!("{:<22} {:>11} {:>15} {:>8}", "each object", "json-tree", "serde_json", "times");
    both!("read", texts, |_trees| for text in &texts {
        black_box(serde_json::from_str::<Tree>(text).unwrap());
    });
    both!("copy", texts, |trees| for tree in &trees {
        black_box(tree.clone());
    });
    both!("copy, change, compare", texts, |trees| for tree in &trees {
        let mut changed = tree.clone();
        changed["status"]["phase"] = json!("Running");
        changed["metadata"]["labels"]["app.kubernetes.io/name"] = json!("mooring");
        black_box(changed == *tree);
    });
    both!("write", texts, |trees| for tree in &trees {
        black_box(serde_json::to_string(tree).unwrap());
    });
}
