//! The kubeconfig for clients: one cluster, one user, all credentials embedded.

use std::io::Write;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use substrate::json::json;

use crate::tls::Credentials;

/// Name of its cluster, user and context.
const NAME: &str = "fake-apiserver";

/// Returns a kubeconfig for `endpoint` (`https://127.0.0.1:6443`) with the CA and its user's credentials embedded: the
/// bearer token and, if given, the client certificate. It is JSON, which is also YAML.
pub fn render(endpoint: &str, ca_pem: &str, token: &str, client: Option<&Credentials>) -> String {
    render_as(NAME, endpoint, ca_pem, token, client)
}

/// Returns a kubeconfig with `name` for its cluster, user and context.
pub fn render_as(name: &str, endpoint: &str, ca_pem: &str, token: &str, client: Option<&Credentials>) -> String {
    let mut user = json!({ "token": token });
    if let Some(client) = client {
        user["client-certificate-data"] = STANDARD.encode(&client.certificate).into();
        user["client-key-data"] = STANDARD.encode(&client.key).into();
    }
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{
            "name": name,
            "cluster": { "server": endpoint, "certificate-authority-data": STANDARD.encode(ca_pem) },
        }],
        "users": [{ "name": name, "user": user }],
        "contexts": [{ "name": name, "context": { "cluster": name, "user": name, "namespace": "default" } }],
        "current-context": name,
    });
    // A map with string keys always serialises.
    substrate::encode::pretty(&config)
}

/// Writes `content` to `path` atomically, readable by its owner only.
///
/// # Errors
/// The error of the filesystem.
pub fn write(path: &Path, content: &str) -> std::io::Result<()> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    // Created with mode 0600 under an unpredictable name.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(content.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn only_its_owner_reads_it_and_an_older_one_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kubeconfig");
        write(&path, "old").unwrap();
        write(&path, &render("https://127.0.0.1:1", "PEM", "secret", None)).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let config: substrate::json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(config["clusters"][0]["cluster"]["server"], "https://127.0.0.1:1");
        assert_eq!(config["clusters"][0]["cluster"]["certificate-authority-data"], "UEVN");
        assert_eq!(config["users"][0]["user"]["token"], "secret");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }
}
