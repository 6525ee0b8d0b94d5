//! Adds the cluster's context to existing kubeconfigs and removes it again. All other entries stay.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};

/// Number of attempts to take the lock of a kubeconfig, as in kubectl.
const TRIES: u32 = 100;
/// Pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);
/// Lists of a kubeconfig with entries by name.
const LISTS: [&str; 3] = ["clusters", "users", "contexts"];
/// Words that YAML readers do not take for text.
const WORDS: [&str; 10] = ["true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan"];

/// Path of kubectl's kubeconfig: the first existing file in $KUBECONFIG, else its last file; without the variable
/// ~/.kube/config.
///
/// # Errors
/// If there is no home directory.
pub(in crate::cli) fn default_path() -> Result<PathBuf, String> {
    let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let listed: Vec<PathBuf> = std::env::split_paths(&listed).filter(|path| !path.as_os_str().is_empty()).collect();
    if let Some(path) = listed.iter().find(|path| path.exists()).or(listed.last()) {
        return Ok(path.clone());
    }
    let home = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute());
    home.map(|home| home.join(".kube").join("config")).ok_or_else(|| "HOME is not set".to_owned())
}

/// Adds cluster, user and context of the kubeconfig `own` to the one at `path`, and makes the context the current one.
/// Creates the file if needed.
///
/// # Errors
/// If the file is not a kubeconfig (it stays as it is), or if the filesystem fails.
pub(in crate::cli) fn merge(path: &Path, own: &Value) -> Result<(), String> {
    if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    }
    let _lock = Lock::take(path)?;
    let mut config = read(path)?.unwrap_or_else(|| {
        Map::from_iter([("apiVersion".to_owned(), "v1".into()), ("kind".to_owned(), "Config".into())])
    });
    for list in LISTS {
        let entries = config.entry(list).or_insert(Value::Null);
        if entries.is_null() {
            *entries = Value::Array(Vec::new());
        }
        let Value::Array(entries) = entries else { return Err(format!("{}: `{list}` is not a list", path.display())) };
        for entry in own[list].as_array().into_iter().flatten() {
            match entries.iter_mut().find(|there| there["name"] == entry["name"]) {
                Some(there) => there.clone_from(entry),
                None => entries.push(entry.clone()),
            }
        }
    }
    config.insert("current-context".to_owned(), own["current-context"].clone());
    write(path, &config)
}

/// Removes cluster, user and context `name` from the kubeconfig at `path`, and returns whether one was there. Removes
/// the file if nothing else is left. No other context becomes the current one: the next command would reach a cluster
/// that its user did not choose.
///
/// # Errors
/// As [`merge`].
pub(in crate::cli) fn remove(path: &Path, name: &str) -> Result<bool, String> {
    if !path.exists() {
        return Ok(false);
    }
    let _lock = Lock::take(path)?;
    let Some(mut config) = read(path)? else { return Ok(false) };
    let mut removed = false;
    for list in LISTS {
        if let Some(Value::Array(entries)) = config.get_mut(list) {
            let before = entries.len();
            entries.retain(|entry| entry["name"] != name);
            removed |= entries.len() < before;
        }
    }
    if !removed {
        return Ok(false);
    }
    if config.get("current-context").is_some_and(|current| current == name) {
        config.insert("current-context".to_owned(), "".into());
    }
    let is_empty = |list: &str| config.get(list).and_then(Value::as_array).is_none_or(Vec::is_empty);
    let own = ["apiVersion", "kind", "current-context", "preferences"];
    if LISTS.iter().all(|list| is_empty(list))
        && config.keys().all(|k| own.contains(&k.as_str()) || LISTS.contains(&k.as_str()))
    {
        return fs::remove_file(path).map(|()| true).map_err(|e| format!("{}: {e}", path.display()));
    }
    write(path, &config).map(|()| true)
}

/// Reads the kubeconfig at `path`; none if there is no file.
fn read(path: &Path) -> Result<Option<Map<String, Value>>, String> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(format!("{}: {e}", path.display())),
    };
    if text.trim().is_empty() {
        return Ok(None);
    }
    match substrate::yaml::from_str::<Value>(&text) {
        Ok(Value::Object(config)) => Ok(Some(config)),
        Ok(_) => Err(format!("{} is not a kubeconfig, and stays as it is", path.display())),
        Err(e) => {
            // The rest of the message quotes lines of the file, which contains secrets.
            let why = e.to_string().lines().next().unwrap_or_default().to_owned();
            Err(format!("{} cannot be read as YAML, and stays as it is: {why}", path.display()))
        }
    }
}

/// Writes the file atomically. A symbolic link stays; its target is written.
fn write(path: &Path, config: &Map<String, Value>) -> Result<(), String> {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut text = String::new();
    entries(&mut text, config, 0);
    fake_apiserver::kubeconfig::write(&real, &text).map_err(|e| format!("{}: {e}", path.display()))
}

/// Lock of kubectl and kind: a file beside the kubeconfig that only one process can create.
struct Lock(PathBuf);

impl Lock {
    fn take(path: &Path) -> Result<Self, String> {
        let mut name = path.as_os_str().to_owned();
        name.push(".lock");
        let lock = PathBuf::from(name);
        for _ in 0..TRIES {
            match File::options().write(true).create_new(true).open(&lock) {
                Ok(_) => return Ok(Self(lock)),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => std::thread::sleep(PAUSE),
                Err(e) => return Err(format!("{}: {e}", lock.display())),
            }
        }
        let lock = lock.display();
        Err(format!("{lock} is there: another program writes {}; if none does, remove {lock}", path.display()))
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // If this fails, the next process reports the lock.
        let _ = fs::remove_file(&self.0);
    }
}

/// Writes a map as YAML blocks.
fn entries(out: &mut String, map: &Map<String, Value>, indent: usize) {
    for (key, value) in map {
        out.push_str(&" ".repeat(indent));
        out.push_str(&scalar(key));
        out.push(':');
        block(out, value, indent);
    }
}

/// Writes the value after a key or after the dash of an item.
fn block(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            out.push('\n');
            entries(out, map, indent + 2);
        }
        Value::Array(list) if !list.is_empty() => {
            out.push('\n');
            for item in list {
                out.push_str(&" ".repeat(indent));
                out.push('-');
                match item {
                    // The first entry is on the line of the dash.
                    Value::Object(map) if !map.is_empty() => {
                        let mut inner = String::new();
                        entries(&mut inner, map, indent + 2);
                        out.push(' ');
                        out.push_str(inner.trim_start());
                    }
                    other => block(out, other, indent + 2),
                }
            }
        }
        Value::String(text) => {
            out.push(' ');
            out.push_str(&scalar(text));
            out.push('\n');
        }
        other => {
            out.push(' ');
            out.push_str(&other.to_string());
            out.push('\n');
        }
    }
}

/// Formats a text for every YAML reader: plain if that is safe, else in quotes.
fn scalar(text: &str) -> String {
    let begins = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '/');
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=@+:".contains(c);
    let word = WORDS.contains(&text.to_ascii_lowercase().as_str());
    if begins && text.chars().all(plain) && !text.ends_with(':') && !word {
        return text.to_owned();
    }
    // A JSON string is a YAML string.
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn own(name: &str, server: &str) -> Value {
        json!({
            "clusters": [{ "name": name, "cluster": { "server": server } }],
            "users": [{ "name": name, "user": { "token": "0123" } }],
            "contexts": [{ "name": name, "context": { "cluster": name, "user": name } }],
            "current-context": name,
        })
    }

    const FOREIGN: &str = "# mine\napiVersion: v1\nkind: Config\npreferences: {}\ncurrent-context: prod\nclusters:\n- name: prod\n  cluster: {server: 'https://prod:443', insecure-skip-tls-verify: true}\ncontexts:\n- context:\n    cluster: prod\n    user: me\n  name: prod\nusers:\n- name: me\n  user:\n    token: \"12345\"\n    exec:\n      apiVersion: client.authentication.k8s.io/v1\n      command: aws\n      args: [eks, \"on\", \"007\", \"a: b\", \"\"]\n      env: null\n      interactiveMode: \"No\"\n";

    #[test]
    fn a_context_comes_and_goes_and_what_is_foreign_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        fs::write(&path, FOREIGN).unwrap();
        let before: Value = substrate::yaml::from_str(FOREIGN).unwrap();
        merge(&path, &own("mooring-a", "https://127.0.0.1:1")).unwrap();
        merge(&path, &own("mooring-a", "https://127.0.0.1:2")).unwrap();
        let merged: Value = substrate::yaml::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(merged["current-context"], "mooring-a");
        assert_eq!(merged["clusters"][1]["cluster"]["server"], "https://127.0.0.1:2");
        assert_eq!(merged["users"][1]["user"]["token"], "0123");
        assert_eq!(merged["users"][0], before["users"][0]);
        assert!(remove(&path, "mooring-a").unwrap());
        let mut after: Value = substrate::yaml::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(after["current-context"], "", "no other cluster is chosen for the user");
        after["current-context"] = "prod".into();
        assert_eq!(after, before);
        assert!(!remove(&path, "mooring-a").unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "no lock and no part is left");
    }

    #[test]
    fn a_file_of_ours_alone_goes_with_its_last_context() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("kube").join("config");
        merge(&path, &own("mooring-a", "https://127.0.0.1:1")).unwrap();
        merge(&path, &own("mooring-b", "https://127.0.0.1:2")).unwrap();
        assert!(remove(&path, "mooring-a").unwrap() && path.exists());
        assert!(remove(&path, "mooring-b").unwrap() && !path.exists());
    }

    #[test]
    fn a_file_that_is_no_kubeconfig_stays_and_its_lines_are_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config");
        for (text, why) in
            [("- a\n", "not a kubeconfig"), ("a: [hunter2\n", "YAML"), ("clusters: {a: 1}\n", "`clusters`")]
        {
            fs::write(&path, text).unwrap();
            let error = merge(&path, &own("mooring-a", "https://127.0.0.1:1")).unwrap_err();
            assert!(error.contains(why) && !error.contains("hunter2"), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), text);
        }
    }

    #[test]
    fn a_link_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let (path, real) = (folder.path().join("config"), folder.path().join("real"));
        fs::write(&real, FOREIGN).unwrap();
        std::os::unix::fs::symlink(&real, &path).unwrap();
        merge(&path, &own("mooring-a", "https://127.0.0.1:1")).unwrap();
        assert!(path.is_symlink() && fs::read_to_string(&real).unwrap().contains("mooring-a"));
    }

    #[test]
    fn every_text_is_read_as_it_was() {
        for text in [
            "", "on", "No", "007", "1e3", "0x1F", "~", "a: b", "a #b", "- a", "{a}", "é\n\"", " a", "key:", "NaN",
            "a=b==",
        ] {
            let mut out = String::new();
            entries(&mut out, &Map::from_iter([("k".to_owned(), text.into())]), 0);
            let back: Value = substrate::yaml::from_str(&out).unwrap();
            assert_eq!(back["k"], text, "{out}");
        }
    }
}
