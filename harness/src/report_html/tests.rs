use substrate::Trace;
use substrate::events::{FaultFired, ProcessCrashed, ProcessStarted};
use substrate::fault::Effect;
use substrate::world::{Options, simulate};

use super::*;
use crate::events::ScenarioStep;
use crate::timeline::Timeline;

const EVIL: &str = "</script><img src=x onerror=alert(1)><!--\u{2028}";

fn run(record: impl FnOnce(&Trace)) -> Run {
    let listener = Listener::default();
    simulate(Options::default(), async |world| {
        listener.attach(world.trace());
        record(world.trace());
    });
    Run::new("run", 1, &listener, Timeline::default(), &[])
}

fn step(trace: &Trace, does: &str) {
    trace.info(&"scenario".into(), ScenarioStep { step: 0, does: does.to_owned() });
}

fn page(runs: Vec<Run>) -> Page {
    Page { title: EVIL.to_owned(), command: EVIL.to_owned(), runs, ..Page::default() }
}

/// Data of a page, as its script reads it.
fn data(html: &str) -> serde_json::Value {
    let (_, rest) = html.split_once("id=\"data\">").unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn names_are_escaped_in_markup() {
    let mut one = run(|trace| step(trace, EVIL));
    one.file = File::new(EVIL, EVIL);
    one.verdict.message = EVIL.to_owned();
    let html = page(vec![one]).html();
    assert!(!html.contains("<img") && !html.contains("onerror=alert(1)>"), "{html}");
    assert_eq!(html.matches("</script>").count(), 2, "the data and the script");
    let (_, rest) = html.split_once("id=\"data\">").unwrap();
    assert!(!rest.contains('\u{2028}'), "it ends a line of an old script");
    let data = data(&html);
    assert_eq!(data["runs"][0]["file"]["text"], EVIL, "it is shown as it is");
    assert_eq!(data["runs"][0]["events"][0]["carries"]["does"], EVIL);
}

#[test]
fn the_policy_allows_the_own_script_and_style_and_nothing_else() {
    let html = page(Vec::new()).html();
    let (_, rest) = html.split_once("Content-Security-Policy\" content=\"").unwrap();
    let policy = rest.split_once('"').unwrap().0;
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-") && !policy.contains("unsafe"), "{policy}");
    // Attributes that the script sets are allowed; those in the document are not.
    let (before, script) = html.split_once("<script>").unwrap();
    for attribute in [" style=\"", " onclick=\"", " src=\""] {
        assert!(!before.contains(attribute), "{attribute}");
    }
    let script = script.replace("http://www.w3.org/2000/svg", "");
    for elsewhere in ["http:", "https:", "@import", "url(", "fetch(", "innerHTML", "eval("] {
        assert!(!before.contains(elsewhere) && !script.contains(elsewhere), "{elsewhere}");
    }
}

#[test]
fn a_large_run_is_shortened_and_says_by_how_much() {
    let large = || {
        run(|trace| {
            for n in 0..4_000 {
                step(trace, &format!("step {n} {}", "x".repeat(600)));
            }
        })
    };
    let html = page((0..20).map(|_| large()).collect()).html();
    assert!(html.len() < LARGEST, "{}", html.len());
    let data = data(&html);
    assert_eq!(data["runs"].as_array().unwrap().len(), RUNS);
    assert_eq!(data["notes"][0], format!("{} more runs are not shown.", 20 - RUNS));
    let run = &data["runs"][0];
    let shown = run["events"].as_array().unwrap();
    assert!(!shown.is_empty());
    assert_eq!(run["leftOut"].as_u64().unwrap() + shown.len() as u64, run["heard"].as_u64().unwrap());
    assert!(shown.last().unwrap()["title"].as_str().unwrap().contains("step 3999"), "the newest stay");
}

#[test]
fn a_process_that_a_fault_ends_follows_from_it_and_its_start_from_its_end() {
    let one = run(|trace| {
        let process = "csi-attacher".into();
        trace.info(&process, ProcessStarted { incarnation: 1 });
        let effect = Effect::Crash("csi-attacher".to_owned());
        trace.info(&"mock-ec2".into(), FaultFired::new("end", "AttachVolume", effect));
        trace.info(&process, ProcessCrashed {});
        trace.info(&process, ProcessStarted { incarnation: 2 });
    });
    let data = serde_json::to_value(&one).unwrap();
    let cause = |at: usize| data["events"][at]["cause"][0].as_u64();
    assert_eq!((cause(0), cause(2), cause(3)), (None, Some(1), Some(2)));
    assert_eq!(data["lanes"][0]["name"], "cloud");
}
