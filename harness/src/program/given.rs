//! The environment variables of a program.
//!
//! | Variable | Value |
//! |---|---|
//! | `KUBECONFIG` | a kubeconfig with the program's own endpoint of the API server and its own token |
//! | `MOORING_KUBERNETES_HTTP` | its own endpoint of the API server without TLS, `http://…` |
//! | `AWS_ENDPOINT_URL`, `AWS_EC2_ENDPOINT` | its own endpoint of the cloud; the EBS CSI driver reads the second variable |
//! | `AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY` | its own key, with the program's name as its id |
//! | `AWS_REGION`, `AWS_DEFAULT_REGION` | the cloud's region |
//! | `AWS_EC2_METADATA_DISABLED` | `true` |
//! | `CSI_ENDPOINT` | `unix:///PATH` of its CSI socket: a driver listens there, any other program finds the driver there |
//! | `CSI_ADDRESS` | the path without `unix://`, for `--csi-address` of the sidecars |
//! | `MOORING_PROGRAM` | its name |
//! | `MOORING_READY` | a JSON file with all addresses, in the form of the ready file of `mooring up` |
//!
//! All other variables are the runner's own, except those that may refer to another cluster or account: `AWS_*`,
//! `KUBE*`, `CSI_*`, `MOORING_*`.

use std::collections::BTreeMap;
use std::path::Path;

use controllers::node_agent::expansion::expanded;

use super::ProgramSpec;
use crate::secrets::{is_long, sounds_secret};
use substrate::admin::Secret;

/// Prefixes of variables of the runner that a program does not get.
const OTHERS: [&str; 4] = ["AWS_", "KUBE", "CSI_", "MOORING_"];

/// Files and addresses of the cluster for a program.
pub(crate) struct Surroundings<'a> {
    /// Its kubeconfig.
    pub kubeconfig: &'a Path,
    /// Its token in that kubeconfig.
    pub token: &'a Secret,
    /// Its endpoint of the API server without TLS.
    pub plain: &'a str,
    /// Its endpoint of the cloud.
    pub ec2: &'a str,
    /// Its secret key there.
    pub key: &'a Secret,
    /// The region.
    pub region: &'a str,
    /// Its CSI socket.
    pub csi: &'a Path,
    /// The file with all addresses.
    pub ready: &'a Path,
}

/// The environment of a program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Given {
    /// All its variables.
    pub variables: BTreeMap<String, String>,
    /// Values that must not appear in a log, longest first.
    pub secrets: Vec<String>,
}

impl Given {
    /// Returns the environment of `spec` with these files and addresses. `own` are the variables of the runner.
    pub fn new(spec: &ProgramSpec, around: &Surroundings<'_>, own: impl IntoIterator<Item = (String, String)>) -> Self {
        let mut variables: BTreeMap<String, String> =
            own.into_iter().filter(|(name, _)| !OTHERS.iter().any(|other| name.starts_with(other))).collect();
        let path = |path: &Path| path.display().to_string();
        let cluster = [
            ("KUBECONFIG", path(around.kubeconfig)),
            ("MOORING_KUBERNETES_HTTP", around.plain.to_owned()),
            ("AWS_ENDPOINT_URL", around.ec2.to_owned()),
            ("AWS_EC2_ENDPOINT", around.ec2.to_owned()),
            ("AWS_ACCESS_KEY_ID", spec.name.clone()),
            ("AWS_SECRET_ACCESS_KEY", around.key.reveal().to_owned()),
            ("AWS_REGION", around.region.to_owned()),
            ("AWS_DEFAULT_REGION", around.region.to_owned()),
            ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
            ("CSI_ENDPOINT", format!("unix://{}", around.csi.display())),
            ("CSI_ADDRESS", path(around.csi)),
            ("MOORING_PROGRAM", spec.name.clone()),
            ("MOORING_READY", path(around.ready)),
        ];
        variables.extend(cluster.map(|(name, value)| (name.to_owned(), value)));
        let more: Vec<(String, String)> =
            spec.env.iter().map(|(name, value)| (name.clone(), expanded(value, &variables))).collect();
        variables.extend(more);
        let named = variables.iter().filter(|(name, _)| sounds_secret(name)).map(|(_, value)| value.clone());
        let mut secrets: Vec<String> = named.chain([around.token.reveal().to_owned()]).collect();
        secrets.retain(|secret| is_long(secret) && !secret.contains('\n'));
        secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        secrets.dedup();
        Self { variables, secrets }
    }

    /// Returns the command of `spec` with its variables expanded.
    pub fn command(&self, spec: &ProgramSpec) -> Vec<String> {
        spec.command.iter().map(|word| expanded(word, &self.variables)).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::PathBuf;

    use super::*;

    fn given(env: &[(&str, &str)], own: &[(&str, &str)]) -> Given {
        let pairs = |list: &[(&str, &str)]| list.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect();
        let env: BTreeMap<String, String> = pairs(env);
        let own: BTreeMap<String, String> = pairs(own);
        let spec = ProgramSpec {
            name: "mine".to_owned(),
            command: vec!["./mine".to_owned(), "--csi-address=$(CSI_ADDRESS)".to_owned(), "$$(HOME) $(NO)".to_owned()],
            env,
            replaces: BTreeSet::new(),
            directory: PathBuf::from("/"),
            line: 0,
            column: 0,
        };
        let (token, key) = (Secret::new("token-of-mine"), Secret::new("key-of-mine"));
        let around = Surroundings {
            kubeconfig: Path::new("/run/kubeconfig"),
            token: &token,
            plain: "http://127.0.0.1:2",
            ec2: "http://127.0.0.1:1",
            key: &key,
            region: "eu-west-1",
            csi: Path::new("/run/csi.sock"),
            ready: Path::new("/run/ready.json"),
        };
        let mut given = Given::new(&spec, &around, own);
        given.variables.insert("COMMAND".to_owned(), given.command(&spec).join(" "));
        given
    }

    #[test]
    fn a_program_gets_the_cluster_and_nothing_that_points_elsewhere() {
        let given = given(
            &[("LEVEL", "$(AWS_REGION)-5"), ("AWS_REGION", "mars")],
            &[("PATH", "/bin"), ("AWS_PROFILE", "work"), ("KUBECONFIG", "/home/me"), ("MOORING_PARENT_PIPE", "1")],
        );
        let of = |name: &str| given.variables.get(name).map(String::as_str);
        assert_eq!((of("PATH"), of("AWS_PROFILE"), of("MOORING_PARENT_PIPE")), (Some("/bin"), None, None));
        assert_eq!((of("KUBECONFIG"), of("AWS_ACCESS_KEY_ID")), (Some("/run/kubeconfig"), Some("mine")));
        assert_eq!((of("CSI_ENDPOINT"), of("CSI_ADDRESS")), (Some("unix:///run/csi.sock"), Some("/run/csi.sock")));
        assert_eq!((of("LEVEL"), of("AWS_REGION")), (Some("eu-west-1-5"), Some("mars")), "its own win");
        assert_eq!(of("COMMAND"), Some("./mine --csi-address=/run/csi.sock $(HOME) $(NO)"));
    }

    #[test]
    fn secret_names_mark_secrets_and_short_words_do_not() {
        let given =
            given(&[("DB_PASSWORD", "hunter2hunter2"), ("PIN_SECRET", "1234")], &[("GITHUB_TOKEN", "ghp_abcdef")]);
        assert_eq!(given.secrets, ["hunter2hunter2", "token-of-mine", "key-of-mine", "ghp_abcdef"]);
    }
}
