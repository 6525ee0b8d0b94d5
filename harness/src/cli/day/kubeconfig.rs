//! `mooring kubeconfig`: prints the kubeconfig of a Mooring, for kubectl elsewhere.

use http::Uri;
use serde_json::Value;

use super::Done;
use super::client::Running;
use super::state_directory::Which;
use crate::cli::refusal::{Refusal, lacking};

/// Arguments of `mooring kubeconfig`.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct Args {
    #[command(flatten)]
    which: Which,
    /// The URL of the API server as kubectl reaches it, if it differs: the published port of a container, as in
    /// https://127.0.0.1:16443.
    #[arg(long, value_name = "URL", value_parser = server)]
    server: Option<String>,
}

/// Parses the URL of an API server.
fn server(text: &str) -> Result<String, String> {
    let uri: Option<Uri> = text.parse().ok();
    let good = uri.as_ref().is_some_and(|uri| {
        matches!(uri.scheme_str(), Some("https" | "http")) && uri.host().is_some() && matches!(uri.path(), "" | "/")
    });
    if good {
        return Ok(text.trim_end_matches('/').to_owned());
    }
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest).trim_matches('/');
    let meant = rest.parse::<std::net::SocketAddr>().map(|address| format!("; did you mean https://{address}?"));
    Err(format!("write a URL without a path, as in https://127.0.0.1:16443{}", meant.unwrap_or_default()))
}

pub(super) fn main(args: &Args) -> Result<Done, Refusal> {
    let running = Running::at(args.which.place()?)?;
    let path = running.place.kubeconfig();
    let failed = |why: String| lacking(format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(&path).map_err(|e| failed(e.to_string()))?;
    let mut config: Value = serde_json::from_str(&text).map_err(|e| failed(e.to_string()))?;
    if let Some(server) = &args.server {
        for cluster in config["clusters"].as_array_mut().into_iter().flatten() {
            cluster["cluster"]["server"] = server.as_str().into();
        }
    }
    let text = substrate::encode::pretty(&config);
    Ok(Done::new(config, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_a_url_without_a_path() {
        assert_eq!(server("https://127.0.0.1:16443/").as_deref(), Ok("https://127.0.0.1:16443"));
        assert_eq!(server("https://cloud.example:6443").as_deref(), Ok("https://cloud.example:6443"));
        assert!(server("127.0.0.1:16443").unwrap_err().ends_with("did you mean https://127.0.0.1:16443?"));
        for wrong in ["", "16443", "https://", "https://a/b", "ftp://a"] {
            assert!(server(wrong).unwrap_err().contains("as in https://"), "{wrong}");
        }
    }
}
