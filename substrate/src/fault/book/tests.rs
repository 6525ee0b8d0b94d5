//! The book: faults that fire, that are refused, and that end.

use super::super::{Lease, Match, When, catalogue};
use super::*;
use crate::fault::Span;

fn fault(when: When) -> Fault {
    Fault {
        name: "f".into(),
        matches: Match {
            plane: Plane::Ec2,
            op: Some("AttachVolume".into()),
            attributes: [("volume".to_owned(), "vol-1*".to_owned())].into_iter().collect(),
        },
        when,
        effect: Effect::Error("IncorrectState".into()),
        at: Moment::Before,
        lease: Lease::default(),
    }
}

const ATTACH: &[Operation] = &[Operation {
    plane: Plane::Ec2,
    name: "AttachVolume",
    classes: &["write"],
    about: "a volume is attached",
    attributes: &[catalogue::Attribute::new("volume", "which")],
    moments: catalogue::BEFORE,
    can: &[catalogue::Possible {
        effect: Kind::Error,
        at: catalogue::BEFORE,
        values: catalogue::Values::OneOf(&["IncorrectState", "InternalError"]),
        shows: "the call fails",
    }],
}];

fn empty() -> Faults {
    let book = Faults::new(Seed::root(1), TimeScale::default());
    book.declare(ATTACH);
    book
}

fn book(when: When) -> Faults {
    let book = empty();
    book.add(Duration::ZERO, fault(when)).unwrap();
    book
}

fn attach(volume: &str) -> bool {
    volume.starts_with("vol-1")
}

fn hits(book: &Faults, volumes: &[&str]) -> Vec<bool> {
    volumes
        .iter()
        .map(|v| {
            let attributes = [("volume", *v)];
            let point =
                Point { plane: Plane::Ec2, op: "AttachVolume", attributes: &attributes, moment: Moment::Before };
            book.check(Duration::from_secs(1), "mock", &point).is_some()
        })
        .collect()
}

#[test]
fn a_fault_fires_only_where_its_match_says() {
    let book = book(When::default());
    let volumes = ["vol-10", "vol-2", "vol-1"];
    assert_eq!(hits(&book, &volumes), volumes.map(attach));
    let report = book.get("f").unwrap();
    assert_eq!((report.hits, report.near_misses, report.last_hit_ms), (2, 1, Some(1000)));
}

#[test]
fn first_nth_and_every_count_matching_operations() {
    let v = ["vol-1"; 4];
    assert_eq!(hits(&book(When { first: Some(2), ..When::default() }), &v), [true, true, false, false]);
    assert_eq!(hits(&book(When { nth: Some(3), ..When::default() }), &v), [false, false, true, false]);
    assert_eq!(hits(&book(When { every: Some(2), ..When::default() }), &v), [false, true, false, true]);
}

#[test]
fn a_fault_that_follows_another_one_counts_from_its_first_hit() {
    let book = empty();
    let named = |name: &str, when: When| Fault { name: name.to_owned(), ..fault(when) };
    let second = When { nth: Some(1), following: Some("first".to_owned()), ..When::default() };
    let error = book.add(Duration::ZERO, named("second", second.clone())).unwrap_err();
    assert_eq!(error.field, "when.following");
    book.add(Duration::ZERO, named("first", When { nth: Some(2), ..When::default() })).unwrap();
    let mut leased = named("second", second);
    leased.lease.ttl = Some(Span(Duration::from_secs(5)));
    book.add(Duration::ZERO, leased).unwrap();
    // Its lease has not begun, and the operation at which the first one fires is not its own.
    let at = |secs: u64| {
        let attributes = [("volume", "vol-1")];
        let point = Point { plane: Plane::Ec2, op: "AttachVolume", attributes: &attributes, moment: Moment::default() };
        book.check(Duration::from_secs(secs), "p", &point).map(|firing| firing.name)
    };
    assert_eq!(at(1), None);
    assert_eq!(at(100).as_deref(), Some("first"));
    assert_eq!(at(101).as_deref(), Some("second"));
    assert_eq!(at(102), None);
    assert_eq!(at(106), None);
    assert_eq!(book.list().len(), 1, "its lease is over");
}

#[test]
fn a_fault_does_not_outlive_its_lease() {
    let book = empty();
    let mut f = fault(When::default());
    f.lease.ttl = Some(Span(Duration::from_millis(500)));
    book.add(Duration::ZERO, f).unwrap();
    assert_eq!(hits(&book, &["vol-1"]), [false]);
    assert!(book.is_empty());
}

#[test]
fn a_partition_cuts_both_ways_and_a_one_way_partition_one() {
    let book = empty();
    let mut f = fault(When::default());
    f.matches = Match { plane: Plane::Link, op: None, attributes: IndexMap::new() };
    f.effect = Effect::Partition(["a".into(), "b".into()]);
    book.add(Duration::ZERO, f.clone()).unwrap();
    assert!(book.cut(Duration::ZERO, "a", "b").is_some() && book.cut(Duration::ZERO, "b", "a").is_some());
    book.remove("f");
    f.effect = Effect::PartitionOneWay(["a".into(), "b".into()]);
    book.add(Duration::ZERO, f).unwrap();
    assert!(book.cut(Duration::ZERO, "a", "b").is_some() && book.cut(Duration::ZERO, "b", "a").is_none());
}

#[test]
fn a_fault_that_never_fires_reports_its_near_misses() {
    let book = book(When { nth: Some(2), ..When::default() });
    assert_eq!(hits(&book, &["vol-2", "vol-10"]), [false, false]);
    let report = book.get("f").unwrap();
    assert_eq!(
        report.near,
        ["AttachVolume: volume was `vol-2`, not `vol-1*`", "AttachVolume: it was the 1st, which is not its turn"]
    );
}

fn refused(change: impl FnOnce(&mut Fault)) -> String {
    let book = empty();
    let mut f = fault(When::default());
    change(&mut f);
    book.add(Duration::ZERO, f).map(|()| "accepted".to_owned()).unwrap_or_else(|m| m.to_string())
}

#[test]
fn an_invalid_fault_is_refused_with_its_field_and_nearest_word() {
    let cases: Vec<(String, &str)> = vec![
        (refused(|f| f.name = String::new()), "name: "),
        (refused(|f| f.name = "a/b".into()), "name: "),
        (refused(|f| f.when.probability = Some(2.0)), "when.probability: "),
        (refused(|f| f.when.probability = Some(0.0)), "when.probability: "),
        (refused(|f| f.when.first = Some(0)), "when.first: "),
        (refused(|f| (f.when.first, f.when.nth) = (Some(1), Some(2))), "when.nth: "),
        (refused(|f| (f.when.nth, f.when.every) = (Some(1), Some(2))), "when.every: "),
        (refused(|f| (f.when.first, f.when.every) = (Some(1), Some(2))), "when.every: "),
        (refused(|f| f.when.until = Some("pvc/data=Bound".into())), "when.until: this server does not watch"),
        (refused(|f| f.lease.ttl = Some(Span(Duration::ZERO))), "lease.ttl: "),
        (
            refused(|f| f.matches.op = Some("AttachVolum".into())),
            "match.op: `AttachVolum` is not an operation of the plane ec2; there are AttachVolume, write; did you mean `AttachVolume`?",
        ),
        (refused(|f| f.matches.plane = Plane::Csi), "match.plane: no operation here is on the plane csi"),
        (
            refused(|f| {
                f.matches.attributes.insert("volum".into(), "x".into());
            }),
            "match.where.volum: `volum` is not an attribute of these operations; there are process, volume; did you mean `volume`?",
        ),
        (
            refused(|f| f.effect = Effect::Error("IncorectState".into())),
            "effect.error: `IncorectState` is unknown; there are IncorrectState, InternalError; did you mean `IncorrectState`?",
        ),
        (
            refused(|f| f.effect = Effect::IoError("EIO".into())),
            "effect.io_error: cannot happen to `AttachVolume` on the plane ec2; possible there: count, crash, delay, error, hang, reboot",
        ),
        (
            refused(|f| f.at = Moment::BeforeReply),
            "at: `before_reply` is not a moment at which error acts here; it acts at before; did you mean `before`?",
        ),
        (refused(|f| f.effect = Effect::Hang(false)), "effect.hang: must be true"),
        (
            refused(|f| f.effect = Effect::Crash("controler".into())),
            "effect.crash: `controler` is not a process that this server can crash; there are self",
        ),
    ];
    for (message, begins) in cases {
        assert!(message.starts_with(begins), "{message}\nnot: {begins}");
    }
    assert_eq!(refused(|f| f.effect = Effect::Crash("self".into())), "accepted");
    assert_eq!(refused(|f| f.matches.op = Some("write".into())), "accepted");
    assert_eq!(refused(|f| f.effect = Effect::Count(true)), "accepted");
}

#[test]
fn names_of_processes_nodes_and_groups_are_checked_where_they_are_known() {
    let book = empty();
    book.name(Names {
        processes: ["node-a", "node-a/kubelet", "csi-attacher", "fake-apiserver"].map(str::to_owned).into(),
        groups: [("controllers".to_owned(), vec!["csi-attacher".to_owned()])].into(),
        nodes: ["node-a".to_owned()].into(),
        servers: [("apiserver".to_owned(), "fake-apiserver".to_owned())].into(),
    });
    let add = |effect: Effect| {
        let f = Fault { name: effect.name().into(), effect, ..fault(When::default()) };
        book.add(Duration::ZERO, f).map_err(|m| m.to_string())
    };
    let error = add(Effect::Crash("controler".into())).unwrap_err();
    assert!(error.ends_with("did you mean `controllers`?"), "{error}");
    add(Effect::Crash("controllers".into())).unwrap();
    assert!(add(Effect::Reboot("node-b".into())).unwrap_err().ends_with("did you mean `node-a`?"));
    let cut = |ends: [&str; 2]| Fault {
        matches: Match { plane: Plane::Link, op: None, attributes: IndexMap::new() },
        name: "cut".into(),
        effect: Effect::Partition(ends.map(str::to_owned)),
        ..fault(When::default())
    };
    let error = book.add(Duration::ZERO, cut(["node-a", "apisever"])).unwrap_err().to_string();
    assert!(error.contains("did you mean `apiserver`?"), "{error}");
    book.add(Duration::ZERO, cut(["node-a", "apiserver"])).unwrap();
    assert!(book.cut(Duration::ZERO, "node-a/kubelet", "apiserver").is_some(), "a node is all its processes");
    book.remove("cut");
    book.add(Duration::ZERO, cut(["csi-attacher", "apiserver"])).unwrap();
    assert!(book.cut(Duration::ZERO, "node-a/kubelet", "apiserver").is_none());
    let turned = Fault { when: When { first: Some(1), ..When::default() }, ..cut(["node-a", "apiserver"]) };
    let error = book.add(Duration::ZERO, Fault { name: "c2".into(), ..turned }).unwrap_err().to_string();
    assert!(error.starts_with("when.first: partition lasts"), "{error}");
}

#[test]
fn a_skewed_clock_is_one_process() {
    let book = empty();
    let skew = Fault {
        matches: Match {
            plane: Plane::Clock,
            op: None,
            attributes: [("process".to_owned(), "a".to_owned())].into_iter().collect(),
        },
        effect: Effect::Skew("-90s".into()),
        ..fault(When::default())
    };
    book.add(Duration::ZERO, skew.clone()).unwrap();
    assert_eq!((book.skew_ms(Duration::ZERO, "a"), book.skew_ms(Duration::ZERO, "b")), (-90_000, 0));
    let bad = Fault { name: "g".into(), effect: Effect::Skew("90s".into()), ..skew };
    assert!(book.add(Duration::ZERO, bad).unwrap_err().to_string().contains("with a sign"));
}

#[test]
fn a_code_of_aws_is_known_or_new_and_never_misspelled() {
    const CODES: &[Operation] = &[Operation {
        plane: Plane::Ec2,
        name: "DeleteVolume",
        classes: &[],
        about: "a volume is deleted",
        attributes: &[],
        moments: catalogue::BEFORE,
        can: &[catalogue::Possible {
            effect: Kind::Error,
            at: catalogue::BEFORE,
            values: catalogue::Values::Code(&["IncorrectState", "InvalidVolume.NotFound"]),
            shows: "the call fails",
        }],
    }];
    let book = Faults::new(Seed::root(1), TimeScale::default());
    book.declare(CODES);
    let add = |code: &str| {
        let mut f = fault(When::default());
        f.matches = Match { plane: Plane::Ec2, op: None, attributes: IndexMap::new() };
        (f.name, f.effect) = (format!("f{}", book.list().len()), Effect::Error(code.into()));
        book.add(Duration::ZERO, f).map_err(|m| (m.nearest.clone(), m.to_string()))
    };
    for code in ["IncorrectState", "InvalidVolume.NotFound", "SomethingElse", "InvalidVpcID.NotFound", "S3"] {
        add(code).unwrap_or_else(|e| panic!("{e:?}"));
    }
    for (code, meant) in [("IncorectState", "IncorrectState"), ("InvalidVolumeNotFound", "InvalidVolume.NotFound")] {
        let (nearest, message) = add(code).unwrap_err();
        assert_eq!(nearest.as_deref(), Some(meant));
        assert!(message.starts_with(&format!("effect.error: `{code}` is unknown")), "{message}");
    }
    for code in ["", "somethingElse", "Some Thing", "Some_Thing", "A.b", "A.B.C", "Some."] {
        assert!(add(code).unwrap_err().1.contains("not written as codes of AWS are"), "{code}");
    }
}

#[test]
fn an_attribute_that_is_not_known_yet_is_refused_with_the_moment_from_which_on_it_is() {
    const MADE: &[Operation] = &[Operation {
        plane: Plane::Ec2,
        name: "CreateVolume",
        classes: &[],
        about: "a volume is made",
        attributes: &[catalogue::Attribute::new("volume", "which").made()],
        moments: catalogue::ALL,
        can: &[],
    }];
    let book = empty();
    book.declare(MADE);
    let add = |op: &str, at: Moment| {
        let mut f = fault(When::default());
        (f.name, f.matches.op, f.effect, f.at) = (format!("{op}-{}", at.name()), None, Effect::Count(true), at);
        f.matches.op = (op != "any").then(|| op.into());
        book.add(Duration::ZERO, f)
    };
    let mistake = add("CreateVolume", Moment::Before).unwrap_err();
    assert_eq!((mistake.field.as_str(), mistake.word.as_deref()), ("match.where.volume", Some("volume")));
    assert_eq!(mistake.message, "is not known yet at `at: before` of CreateVolume, but from `at: after_effect` on");
    add("CreateVolume", Moment::AfterEffect).unwrap();
    add("CreateVolume", Moment::BeforeReply).unwrap();
    // The fault applies to those operations that have the attribute.
    add("any", Moment::Before).unwrap();
    assert_eq!(hits(&book, &["vol-1"]), [true]);
}

#[test]
fn a_user_request_cannot_crash_its_sender() {
    let book = Faults::new(Seed::root(1), TimeScale::default());
    book.name(Names {
        processes: ["csi-attacher", "fake-apiserver"].map(str::to_owned).into(),
        servers: [("user", "user"), ("apiserver", "fake-apiserver")].map(|(a, b)| (a.to_owned(), b.to_owned())).into(),
        ..Names::default()
    });
    let add = |name: &str, attribute: Option<(&str, &str)>, effect: Effect| {
        let attribute = attribute.into_iter().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
        let matches = Match { plane: Plane::Link, op: Some("request".into()), attributes: attribute };
        book.add(
            Duration::ZERO,
            Fault { name: name.into(), matches, effect, ..fault(When { first: Some(1), ..When::default() }) },
        )
    };
    let own = || Effect::Crash("self".into());
    for attribute in [("process", "user"), ("from", "user"), ("caller", "us*")] {
        let message = add("no", Some(attribute), own()).unwrap_err().to_string();
        assert!(
            message.starts_with(&format!("match.where.{}: `{}` is not a process", attribute.0, attribute.1)),
            "{message}"
        );
    }
    // The sender of lost messages need not be a process.
    add("lost", Some(("from", "user")), Effect::DropRequest(true)).unwrap();
    book.remove("lost");
    add("own", None, own()).unwrap();
    let request = |from: &str| {
        let attributes = [("from", from), ("to", "apiserver")];
        let point = Point { plane: Plane::Link, op: "request", attributes: &attributes, moment: Moment::Before };
        book.check(Duration::from_secs(1), from, &point).is_some()
    };
    assert_eq!([request("user"), request("csi-attacher"), request("csi-attacher")], [false, true, false]);
    let near = book.get("own").unwrap().near;
    assert_eq!(near[0], "request: it is of `user`, which is not a process that can crash");
}

/// Compares a book with one fault to a book that became the branch of that fault at its place.
#[test]
fn a_branch_is_the_run_that_had_its_fault_from_the_start() {
    use std::sync::atomic::{AtomicUsize, Ordering};

    let turn = |nth: u64| Fault { name: format!("turn-{nth}"), ..fault(When { nth: Some(nth), ..When::default() }) };
    let volumes = ["vol-1a", "vol-2", "vol-1b", "vol-1c", "vol-1d"];
    let own = |nth: u64| {
        let book = empty();
        book.add(Duration::ZERO, turn(nth)).unwrap();
        (hits(&book, &volumes), book.list().into_iter().map(|r| (r.fault, r.hits)).collect::<Vec<_>>())
    };
    let branch = |mine: usize| {
        let (book, asked) = (empty(), Arc::new(AtomicUsize::new(0)));
        let count = asked.clone();
        let parts: super::super::Parts = Arc::new(move |number| {
            count.fetch_add(1, Ordering::Relaxed);
            number == mine
        });
        let faults = vec![(1, turn(1)), (3, turn(3)), (2, turn(2))];
        book.branch(Branches { instead_of: "marker".to_owned(), faults, parts });
        book.add(Duration::ZERO, Fault { name: "marker".to_owned(), ..fault(When::default()) }).unwrap();
        let hits = hits(&book, &volumes);
        (hits, book.list().into_iter().map(|r| (r.fault, r.hits)).collect::<Vec<_>>(), asked.load(Ordering::Relaxed))
    };
    for nth in 1..=3_u64 {
        let (hits, list, asked) = branch(nth as usize);
        assert_eq!((hits, list), own(nth), "{nth}");
        assert_eq!(asked, nth as usize, "no server is asked after the place");
    }
    let (hits, _, asked) = branch(9);
    assert_eq!((hits, asked), (vec![false; 5], 3), "nothing fires in the run that is not a branch");
}

/// Returns a fault that counts each `AttachVolume`.
fn counter() -> Fault {
    let matches = Match { plane: Plane::Ec2, op: None, attributes: IndexMap::new() };
    Fault { name: "counter".into(), matches, effect: Effect::Count(true), ..fault(When::default()) }
}

#[test]
fn a_fault_that_counts_keeps_no_other_from_firing() {
    const BOTH: &[Operation] = &[Operation {
        can: &[
            ATTACH[0].can[0],
            catalogue::Possible {
                effect: Kind::Count,
                at: catalogue::BEFORE,
                values: catalogue::Values::Flag,
                shows: "nothing",
            },
        ],
        ..ATTACH[0]
    }];
    let book = Faults::new(Seed::root(1), TimeScale::default());
    book.declare(BOTH);
    book.add(Duration::ZERO, counter()).unwrap();
    book.add(Duration::ZERO, fault(When { nth: Some(2), ..When::default() })).unwrap();
    let fired = Arc::new(Mutex::new(Vec::new()));
    let (into, volume) = (fired.clone(), [("volume", "vol-1")]);
    book.follow(move |hit| into.lock().push(hit.fault.clone()));
    let point = Point { plane: Plane::Ec2, op: "AttachVolume", attributes: &volume, moment: Moment::Before };
    let effects = [1, 2, 3].map(|s| book.check(Duration::from_secs(s), "mock", &point).unwrap().effect.kind());
    assert_eq!(effects, [Kind::Count, Kind::Error, Kind::Count]);
    assert_eq!(*fired.lock(), ["counter", "counter", "f", "counter"]);
}

#[test]
fn branches_end_when_all_faults_do() {
    let book = empty();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let into = asked.clone();
    let parts: crate::fault::Parts = Arc::new(move |number| {
        into.lock().push(number);
        false
    });
    let faults = (1..=2).map(|nth| (nth, fault(When { nth: Some(nth as u64), ..When::default() }))).collect();
    book.branch(Branches { instead_of: "f".to_owned(), faults, parts });
    book.add(Duration::ZERO, fault(When::default())).unwrap();
    assert_eq!(hits(&book, &["vol-1"]), [false]);
    book.clear(None);
    assert_eq!(hits(&book, &["vol-1", "vol-1"]), [false, false]);
    assert_eq!(*asked.lock(), [1]);
}
