//! Tests of the parameters.

use super::*;

fn map(pairs: &[(&str, &str)]) -> Map {
    let base = [("provisioningMode", "efs-ap"), ("fileSystemId", "fs-01234567"), ("directoryPerms", "700")];
    base.iter().chain(pairs).map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn point(gid: i64) -> AccessPoint {
    AccessPoint {
        id: "fsap-1".to_owned(),
        file_system: "fs-01234567".to_owned(),
        client_token: "t".to_owned(),
        directory: "/base/pvc-1".to_owned(),
        uid: gid,
        gid,
        permissions: "700".to_owned(),
        tags: Map::new(),
        created: jiff::Timestamp::UNIX_EPOCH,
    }
}

#[rstest::rstest]
#[case(&[("provisioningMode", "efs-fs")], "Provisioning mode efs-fs is not supported")]
#[case(&[("fileSystemId", " ")], "one of fileSystemId")]
#[case(&[("fileSystemIdConfigRef", "a/b/c")], "fileSystemIdConfigRef is not supported here")]
#[case(&[("uid", "-1")], "uid must be greater or equal than 0")]
#[case(&[("gid", "x")], "Failed to parse invalid gid")]
#[case(&[("gidRangeStart", "0")], "gidRangeStart must be greater than 0")]
#[case(&[("gidRangeStart", "5")], "Missing gidRangeEnd parameter")]
#[case(&[("gidRangeEnd", "5")], "Missing gidRangeStart parameter")]
#[case(&[("gidRangeStart", "5"), ("gidRangeEnd", "5")], "gidRangeEnd must be greater than gidRangeStart")]
#[case(&[("reuseAccessPoint", "yes")], "Invalid value for reuseAccessPoint parameter")]
#[case(&[("enableTagging", "")], "Invalid value for enableTagging parameter")]
#[case(&[("subPathPattern", "${.PVC.uid}")], "contains invalid elements")]
fn a_wrong_parameter_is_named(#[case] given: &[(&str, &str)], #[case] expected: &str) {
    let error = Parameters::read(&map(given)).unwrap_err();
    assert_eq!(error.code(), tonic::Code::InvalidArgument);
    assert!(error.message().contains(expected), "{}", error.message());
}

#[test]
fn the_mode_is_needed() {
    let mut given = map(&[]);
    given.remove("provisioningMode");
    assert_eq!(Parameters::read(&given).unwrap_err().message(), "Missing provisioningMode parameter");
}

#[test]
fn a_volume_gets_the_lowest_free_group() {
    let plain = Parameters::read(&map(&[])).unwrap();
    assert_eq!(plain.owners(&[]).unwrap(), (50_000, 50_000));
    assert_eq!(plain.owners(&[point(50_000), point(50_002)]).unwrap(), (50_001, 50_001));
    let user = Parameters::read(&map(&[("uid", "7")])).unwrap();
    assert_eq!(user.owners(&[point(50_000)]).unwrap(), (7, 50_001));
    let narrow = Parameters::read(&map(&[("gidRangeStart", "5"), ("gidRangeEnd", "6")])).unwrap();
    assert!(narrow.owners(&[point(5), point(6)]).unwrap_err().message().contains("free GID"));
    assert_eq!(narrow.matches(&point(7)), Err("its GID is not that of the storage class"));
    assert_eq!(narrow.matches(&point(6)), Ok(()));
    let based = Parameters::read(&map(&[("basePath", "/other")])).unwrap();
    assert_eq!(based.matches(&point(50_000)), Err("it has another base path than the storage class"));
}

#[test]
fn the_directory_follows_the_pattern() {
    let names = [("csi.storage.k8s.io/pvc/name", "data"), ("csi.storage.k8s.io/pvc/namespace", "team")];
    let (directory, unique, long) =
        substrate::world::simulate(substrate::world::Options::default(), async move |world| {
            let process = substrate::Process::start(&world, "efs-csi-controller", |_| std::future::pending());
            let ctx = process.ctx().unwrap();
            let of = |more: &[(&str, &str)]| {
                let given = map(&[&names[..], more].concat());
                Parameters::read(&given).unwrap().directory(&ctx, "pvc-1").map_err(|e| e.message().to_owned())
            };
            let pattern = ("subPathPattern", "${.PVC.namespace}/${.PVC.name}");
            (
                of(&[("basePath", "/base"), pattern, ("ensureUniqueDirectory", "false")]),
                of(&[pattern]),
                [of(&[("basePath", "x".repeat(101).as_str())]), of(&[("basePath", "/1/2/3/4/5")])],
            )
        });
    assert_eq!(directory.unwrap(), "/base/team/data");
    assert!(unique.unwrap().starts_with("/team/data-"));
    let [long, deep] = long.map(Result::unwrap_err);
    assert!(long.contains("100 characters") && deep.contains("4 subdirectories"), "{long} {deep}");
}
