//! A running compose project, found through the labels that both `docker compose` and `docker-compose` set on
//! containers. This module never starts a project or takes one down.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::Command;

use serde_json::Value;
use substrate::admin::Secret;

/// Labels of a container.
const PROJECT: &str = "com.docker.compose.project";
const SERVICE: &str = "com.docker.compose.service";
/// Services that identify a project as Mooring's.
pub const SERVERS: [&str; 2] = ["mock-ec2", "fake-apiserver"];
/// Path of fake-apiserver's kubeconfig in its container.
const KUBECONFIG: &str = "/run/kubernetes/kubeconfig";
/// Ports of the servers in their containers.
const EC2_PORT: u16 = 4566;
const KUBERNETES_PORT: u16 = 6443;
const KUBERNETES_HTTP_PORT: u16 = 8080;

/// A project and its containers, by service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Project {
    name: String,
    containers: BTreeMap<String, String>,
}

/// Addresses of a project's servers on this machine.
#[derive(Clone, Debug)]
pub struct ServerAddresses {
    /// The cloud, `http://…`.
    pub ec2: String,
    /// The API server with TLS, `https://…`.
    pub kubernetes: String,
    /// The API server without TLS, `http://…`.
    pub kubernetes_http: String,
    /// The kubeconfig for this machine, as JSON.
    pub kubeconfig: Value,
    /// Bearer token for the API server and for admin requests to the cloud.
    pub token: Secret,
}

impl Project {
    /// Finds the project called `name`; without a name, the only project that runs Mooring's servers.
    ///
    /// # Errors
    /// If docker does not answer, there is no such project, or there are several.
    pub fn find(name: Option<&str>) -> Result<Self, String> {
        let format = format!("{{{{.ID}}}} {{{{.Label \"{PROJECT}\"}}}} {{{{.Label \"{SERVICE}\"}}}}");
        let listed = docker(&["ps", "--all", "--filter", &format!("label={PROJECT}"), "--format", &format])?;
        Self::choose(read(&listed), name)
    }

    fn choose(all: Vec<Self>, name: Option<&str>) -> Result<Self, String> {
        let names = |all: &[Self]| all.iter().map(|p| p.name.clone()).collect::<Vec<_>>().join(", ");
        let ours: Vec<Self> =
            all.into_iter().filter(|p| SERVERS.iter().any(|server| p.containers.contains_key(*server))).collect();
        let others = names(&ours);
        match name {
            Some(name) => ours.into_iter().find(|p| p.name == name).ok_or_else(|| match others.as_str() {
                "" => format!(
                    "no compose project runs mock-ec2 or fake-apiserver, {name} neither: `docker-compose up -d` first"
                ),
                others => {
                    format!("no compose project called {name} runs mock-ec2 or fake-apiserver; there is {others}")
                }
            }),
            None => {
                let mut ours = ours.into_iter();
                match (ours.next(), ours.next()) {
                    (Some(one), None) => Ok(one),
                    (None, _) => {
                        Err("no compose project runs mock-ec2 or fake-apiserver: `docker-compose up -d` first"
                            .to_owned())
                    }
                    _ => Err(format!("several compose projects run Mooring: {others}; name one with --project")),
                }
            }
        }
    }

    /// Name of the project.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Names of its services.
    pub fn services(&self) -> impl Iterator<Item = &str> {
        self.containers.keys().map(String::as_str)
    }

    /// Id of the container of a service.
    ///
    /// # Errors
    /// If there is none.
    pub fn container(&self, service: &str) -> Result<&str, String> {
        self.containers
            .get(service)
            .map(String::as_str)
            .ok_or_else(|| format!("{} has no service {service}", self.name))
    }

    /// Address of a port of a service on this machine.
    ///
    /// # Errors
    /// If the port is not published, or the container does not run.
    pub fn port(&self, service: &str, port: u16) -> Result<SocketAddr, String> {
        let message = docker(&["port", self.container(service)?, &format!("{port}/tcp")])?;
        let mut addresses = message.lines().filter_map(|line| line.trim().parse::<SocketAddr>().ok());
        let address = addresses.next().ok_or_else(|| format!("port {port} of {service} is not published"))?;
        // A port that is published on all addresses is reachable on loopback.
        let here = SocketAddr::from(([127, 0, 0, 1], address.port()));
        Ok(if address.ip().is_unspecified() { here } else { address })
    }

    /// Health of each service: `healthy`, `starting`, `unhealthy`, or the container's state if it has no health check.
    ///
    /// # Errors
    /// If docker does not answer.
    pub fn health(&self) -> Result<BTreeMap<String, String>, String> {
        let format = "{{if .State.Health}}{{.State.Health.Status}}{{else}}{{.State.Status}}{{end}}";
        let mut args = vec!["inspect", "--format", format];
        args.extend(self.containers.values().map(String::as_str));
        let message = docker(&args)?;
        Ok(self.containers.keys().cloned().zip(message.lines().map(|line| line.trim().to_owned())).collect())
    }

    /// Addresses of its servers and the credentials for them.
    ///
    /// # Errors
    /// If a server does not run yet.
    pub fn server_addresses(&self) -> Result<ServerAddresses, String> {
        let kubernetes = format!("https://{}", self.port("fake-apiserver", KUBERNETES_PORT)?);
        let kubernetes_http = format!("http://{}", self.port("fake-apiserver", KUBERNETES_HTTP_PORT)?);
        let ec2 = format!("http://{}", self.port("mock-ec2", EC2_PORT)?);
        let text = self.read_file("fake-apiserver", KUBECONFIG)?;
        let (kubeconfig, token) =
            for_here(&text, &kubernetes).ok_or_else(|| format!("{KUBECONFIG}: is not a kubeconfig"))?;
        Ok(ServerAddresses { ec2, kubernetes, kubernetes_http, kubeconfig, token })
    }

    fn read_file(&self, service: &str, path: &str) -> Result<String, String> {
        let place = tempfile::tempdir().map_err(|e| e.to_string())?;
        let copy = place.path().join("file");
        docker(&["cp", &format!("{}:{path}", self.container(service)?), &copy.display().to_string()])?;
        std::fs::read_to_string(&copy).map_err(|e| format!("{path} of {service}: {e}"))
    }
}

/// Rewrites the kubeconfig of a container for the host, and returns it with its token.
fn for_here(text: &str, endpoint: &str) -> Option<(Value, Secret)> {
    let mut config: Value = serde_json::from_str(text).ok()?;
    let token = Secret::new(config["users"].get(0)?["user"]["token"].as_str()?);
    let cluster = config.get_mut("clusters")?.get_mut(0)?.get_mut("cluster")?;
    cluster.as_object_mut()?.insert("server".to_owned(), endpoint.into());
    Some((config, token))
}

/// Parses lines such as `ID PROJECT SERVICE`. If a service has several containers, the first one is used.
fn read(listed: &str) -> Vec<Project> {
    let mut all: BTreeMap<&str, BTreeMap<String, String>> = BTreeMap::new();
    for line in listed.lines() {
        let mut words = line.split_whitespace();
        if let (Some(id), Some(project), Some(service)) = (words.next(), words.next(), words.next()) {
            all.entry(project).or_default().entry(service.to_owned()).or_insert_with(|| id.to_owned());
        }
    }
    all.into_iter().map(|(name, containers)| Project { name: name.to_owned(), containers }).collect()
}

/// Runs docker and returns its output.
///
/// # Errors
/// Returns its standard error.
pub fn docker(args: &[&str]) -> Result<String, String> {
    let output = Command::new("docker").args(args).output().map_err(|e| format!("docker does not start: {e}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    Err(format!("docker {}: {}", args.first().unwrap_or(&""), message.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "1 shop mock-ec2\n2 shop fake-apiserver\n3 blog db\n4 blog web\n";

    #[test]
    fn a_project_is_found_by_its_servers_or_by_its_name() {
        let shop = Project::choose(read(TWO), None).unwrap();
        assert_eq!((shop.name(), shop.container("fake-apiserver").unwrap()), ("shop", "2"));
        assert!(shop.container("web").unwrap_err().contains("no service web"));
        assert_eq!(Project::choose(read(TWO), Some("shop")).unwrap(), shop);
        let error = Project::choose(read(TWO), Some("blog")).unwrap_err();
        assert!(error.contains("called blog") && error.contains("there is shop"), "{error}");
    }

    #[test]
    fn none_and_several_say_what_to_do() {
        let none = Project::choose(read("3 blog db\n"), None).unwrap_err();
        assert!(none.contains("docker-compose up -d"), "{none}");
        let several = Project::choose(read(&format!("{TWO}5 other mock-ec2\n")), None).unwrap_err();
        assert!(several.contains("other, shop") && several.contains("--project"), "{several}");
    }

    #[test]
    fn a_kubeconfig_leads_to_the_published_port() {
        let text = r#"{"clusters": [{"cluster": {"server": "https://fake-apiserver:6443", "x": 1}}], "users": [{"user": {"token": "word"}}]}"#;
        let (config, token) = for_here(text, "https://127.0.0.1:7").unwrap();
        assert_eq!(config["clusters"][0]["cluster"], serde_json::json!({"server": "https://127.0.0.1:7", "x": 1}));
        assert_eq!(token.reveal(), "word");
        assert!(for_here("{}", "https://127.0.0.1:7").is_none());
    }
}
