//! A standalone `mock-ec2` program, and the AWS CLI against it.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::{eventually, http, without_aws_settings};

/// A running `mock-ec2`, killed when dropped.
#[derive(Debug)]
pub struct Server {
    child: Child,
    endpoint: String,
    home: tempfile::TempDir,
}

impl Server {
    /// Starts `binary` on a free port with `instances` (a seed list in YAML) and `flags`, and waits until it answers.
    ///
    /// # Errors
    /// If it does not become ready; with its output.
    pub fn start(binary: &str, instances: &str, flags: &[&str]) -> Result<Self> {
        let home = tempfile::tempdir()?;
        let [ready, seeds, log] = ["ready.json", "instances.yaml", "log"].map(|name| home.path().join(name));
        std::fs::write(&seeds, instances)?;
        let out = std::fs::File::create(&log)?;
        let child = Command::new(binary)
            .args(["--listen", "127.0.0.1:0", "--ready-file"])
            .args([&ready, Path::new("--instances"), &seeds])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .spawn()
            .with_context(|| format!("start {binary}"))?;
        let mut server = Self { child, endpoint: String::new(), home };
        let reported = eventually(|| std::fs::read(&ready).context("no ready file"))
            .with_context(|| std::fs::read_to_string(&log).unwrap_or_default())?;
        let reported: Value = serde_json::from_slice(&reported)?;
        server.endpoint = reported["endpoint"].as_str().context("no endpoint")?.to_owned();
        Ok(server)
    }

    /// Returns its URL.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Result<String> {
        let answer = http::send(&self.endpoint, method, path, headers, body)?;
        ensure!(answer.status == 200, "{method} {path} {body}: {answer:?}");
        Ok(answer.body)
    }

    /// Returns the response to a request of the admin API, or of another path outside the EC2 API.
    ///
    /// # Errors
    /// If it is refused; with the response.
    pub fn admin(&self, method: &str, path: &str) -> Result<String> {
        self.request(method, path, &[("content-type", "application/json")], "")
    }

    /// Returns the text of element `tag` in the response to an EC2 action.
    ///
    /// # Errors
    /// If it is refused or has no such element.
    pub fn ask(&self, form: &str, tag: &str) -> Result<String> {
        // A dummy signature, which the server accepts as long as no credentials are configured.
        let signature =
            "AWS4-HMAC-SHA256 Credential=mooring/20260101/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=0";
        let headers = [("content-type", "application/x-www-form-urlencoded"), ("authorization", signature)];
        let answer = self.request("POST", "/", &headers, &format!("{form}&Version=2016-11-15"))?;
        let text = answer.split_once(&format!("<{tag}>")).and_then(|(_, rest)| rest.split_once("</"));
        Ok(text.with_context(|| format!("no {tag} in {answer}"))?.0.to_owned())
    }

    /// Returns the AWS CLI with this cloud's environment and its own HOME.
    pub fn aws(&self) -> Command {
        self.client("aws")
    }

    /// Returns a program with this cloud's environment and its own HOME, in which it runs.
    pub fn client(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        without_aws_settings(&mut command);
        command
            .current_dir(self.home.path())
            .env("HOME", self.home.path())
            .env("AWS_ENDPOINT_URL", &self.endpoint)
            .env("AWS_ACCESS_KEY_ID", "mooring")
            .env("AWS_SECRET_ACCESS_KEY", "mooring")
            .env("AWS_DEFAULT_REGION", "us-east-1")
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .env("AWS_PAGER", "")
            .env("COLUMNS", "100");
        command
    }

    /// Returns the output of `aws ec2 <line>`; `line` is split at spaces.
    ///
    /// # Errors
    /// If it fails; with its output.
    pub fn ec2(&self, line: &str) -> Result<String> {
        let Output { status, stdout, stderr } = self.aws().arg("ec2").args(line.split_whitespace()).output()?;
        let (out, err) = (String::from_utf8(stdout)?, String::from_utf8_lossy(&stderr));
        ensure!(status.success(), "aws ec2 {line} ended with {status}:\n{out}{err}");
        Ok(out)
    }

    /// Returns the same as JSON.
    ///
    /// # Errors
    /// If it fails or its output is not JSON.
    pub fn ec2_json(&self, line: &str) -> Result<Value> {
        let text = self.ec2(&format!("{line} --output json"))?;
        serde_json::from_str(&text).with_context(|| text)
    }

    /// Returns the standard error of `aws ec2 <line>`, which must fail.
    ///
    /// # Errors
    /// If it succeeds.
    pub fn ec2_refused(&self, line: &str) -> Result<String> {
        let output = self.aws().arg("ec2").args(line.split_whitespace()).output()?;
        if output.status.success() {
            bail!("aws ec2 {line} was not refused:\n{}", String::from_utf8_lossy(&output.stdout));
        }
        Ok(String::from_utf8(output.stderr)?.trim().to_owned())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
