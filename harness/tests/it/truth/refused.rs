//! Faults that have no meaning or could never fire are refused with their position.

use super::*;

/// Returns the error of the scenario first-volume with this fault, and the line of the fault.
fn refused(fault: &str) -> (Box<ScenarioError>, u64, String) {
    let text = with_faults(FIRST_VOLUME, &[fault]);
    let line = text.lines().position(|l| l.contains(fault)).unwrap() as u64 + 1;
    let written = text.lines().nth(line as usize - 1).unwrap().to_owned();
    match scenario::parse("test.yaml", &text) {
        Ok(_) => panic!("it is accepted: {fault}"),
        Err(error) => (error, line, written),
    }
}

#[test]
fn a_misspelled_fault_is_refused_with_place_and_nearest_word() {
    let stage = "plane: csi, op: NodeStageVolume";
    let cases = [
        (format!("{{name: f, match: {{{stage}}}, effect: {{crash: controler}}}}"), "controler", "controllers"),
        (
            format!("{{name: f, match: {{{stage}}}, effect: {{crash: node-a/kublet}}}}"),
            "node-a/kublet",
            "node-a/kubelet",
        ),
        (format!("{{name: f, match: {{{stage}}}, effect: {{reboot: nod-a}}}}"), "nod-a", "node-a"),
        (format!("{{name: f, match: {{{stage}}}, effect: {{grpc: ABORTD}}}}"), "ABORTD", "ABORTED"),
        (format!("{{name: f, match: {{{stage}}}, effect: {{grcp: ABORTED}}}}"), "grcp", "grpc"),
        ("{name: f, match: {plane: disk, op: write}, effect: {io_error: EIIO}}".into(), "EIIO", "EIO"),
        ("{name: f, match: {plane: k8s, op: patch}, effect: {error: Conflit}}".into(), "Conflit", "Conflict"),
        ("{name: f, match: {plane: k8s, op: watch-event}, effect: {watch: stal}}".into(), "stal", "stall"),
        (
            "{name: f, match: {plane: csi, op: NodeStageVolum}, effect: {count: true}}".into(),
            "NodeStageVolum",
            "NodeStageVolume",
        ),
        ("{name: f, match: {plane: k8s, op: [get, wriet]}, effect: {count: true}}".into(), "wriet", "write"),
        (
            "{name: f, match: {plane: ec2, op: AttachVolume, where: {volum: vol-1}}, effect: {count: true}}".into(),
            "volum",
            "volume",
        ),
        (
            "{name: f, match: {plane: k8s, op: watch-event, where: {type: ADDD}}, effect: {count: true}}".into(),
            "ADDD",
            "ADDED",
        ),
        (
            "{name: f, match: {plane: k8s, op: get, where: {process: fake-apisever}}, effect: {count: true}}".into(),
            "fake-apisever",
            "fake-apiserver",
        ),
        (
            format!("{{name: f, match: {{{stage}}}, effect: {{count: true}}, at: after_efect}}"),
            "after_efect",
            "after_effect",
        ),
        (
            format!("{{name: f, match: {{{stage}}}, effect: {{drop_request: true}}, at: after_effect}}"),
            "after_effect",
            "before",
        ),
        (
            "{name: f, match: {plane: ec2, op: AttachVolume}, effect: {error: IncorectState}}".into(),
            "IncorectState",
            "IncorrectState",
        ),
        ("{name: f, match: {plane: ec2, op: AttachVolume}, effect: {error: not-a-code}}".into(), "not-a-code", ""),
        (
            "{name: f, match: {plane: ec2, op: CreateVolume, where: {volume: vol-1}}, effect: {error: SlowDown}}"
                .into(),
            "volume",
            "at: after_effect",
        ),
        ("{name: f, match: {plane: link, op: request, where: {from: user}}, effect: {crash: self}}".into(), "user", ""),
        ("{name: f, match: {plane: clok, op: wall}, effect: {count: true}}".into(), "clok", "clock"),
        ("{name: f, match: {plane: link}, effect: {partition: [node-a, apisever]}}".into(), "apisever", "apiserver"),
        (
            "{name: f, match: {plane: link}, effect: {partition_one_way: [noded-a, apiserver]}}".into(),
            "noded-a",
            "node-a",
        ),
        (
            format!("{{name: f, match: {{{stage}}}, when: {{until: pvc/data=Bond}}, effect: {{count: true}}}}"),
            "pvc/data=Bond",
            "Bound",
        ),
        (
            format!("{{name: f, match: {{{stage}}}, when: {{until: pvcs/data}}, effect: {{count: true}}}}"),
            "pvcs/data",
            "",
        ),
        (format!("{{name: f, match: {{{stage}}}, when: {{frist: 1}}, effect: {{count: true}}}}"), "frist", "first"),
    ];
    let mut wrong = Vec::new();
    for (fault, word, nearest) in &cases {
        let (error, line, written) = refused(fault);
        let column = written[..written
            .find(&format!(" {word}"))
            .or_else(|| written.find(&format!("[{word}")).or_else(|| written.find(&format!("{{{word}"))))
            .unwrap()]
            .chars()
            .count() as u64
            + 2;
        let place = (error.line(), error.column());
        let output = format!("{error} {}", error.advice().unwrap_or_default());
        if place != (line, column)
            || error.text() != *word
            || !output.contains(&format!("`{nearest}`")) && !nearest.is_empty()
        {
            wrong.push(format!(
                "{fault}\n  want {:?} {word} -> {nearest}\n  got {place:?} {:?} {output}",
                (line, column),
                error.text()
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_condition_under_which_a_fault_could_never_fire_is_refused_with_its_place() {
    let cases = [
        ("{first: 0}", "first", "counts from 1"),
        ("{nth: 0}", "nth", "counts from 1"),
        ("{every: 0}", "every", "counts from 1"),
        ("{first: 1, nth: 2}", "nth", "does not go with `first`"),
        ("{nth: 2, every: 2}", "every", "does not go with `nth`"),
        ("{first: 1, every: 2}", "every", "could never fire"),
        ("{probability: 0}", "probability", "more than 0"),
        ("{for: 0s}", "for", "longer than 0s"),
    ];
    let mut wrong = Vec::new();
    for (when, field, message) in cases {
        let fault =
            format!("{{name: f, match: {{plane: csi, op: NodeStageVolume}}, when: {when}, effect: {{count: true}}}}");
        let (error, line, written) = refused(&fault);
        let output = error.to_string();
        let column = written[..written.find(&format!("{field}:")).unwrap()].chars().count() as u64 + 1;
        assert!(output.contains(&format!("when.{field}: ")) && output.contains(message), "{when}: {output}");
        let value = written[column as usize - 1..].split([':', ',', '}']).nth(1).unwrap().trim().to_owned();
        let place = (error.line(), error.column());
        let at_value = (line, column + field.len() as u64 + 2);
        if place != (line, column) && place != at_value {
            wrong.push(format!("{when}: want {:?} or {at_value:?} ({value}), got {place:?}", (line, column)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
