//! Options of an instance besides type, place and disks.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};

use super::code::Code;
use super::error::Ec2Error;
use super::listing::{Named, text};

/// Largest user data in bytes, before encoding.
const USER_DATA: usize = 16 << 10;

/// Options of a launch, as describe calls return them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LaunchOptions {
    /// The key pair.
    pub key_name: Option<String>,
    /// Instance profile: its ARN, or only its name until the account is known.
    pub instance_profile: Option<String>,
    /// True if it is EBS-optimized.
    pub ebs_optimized: bool,
    /// True if detailed monitoring is enabled.
    pub monitoring: bool,
    /// Options of its metadata service.
    pub metadata: MetadataOptions,
    /// True if TerminateInstances is refused.
    pub disable_api_termination: bool,
    /// True if StopInstances is refused.
    pub disable_api_stop: bool,
    /// True if a shutdown by the guest terminates it.
    pub shutdown_terminates: bool,
    /// User data, in base64.
    pub user_data: Option<String>,
    /// True if it drops packets for other addresses.
    pub source_dest_check: bool,
    /// `standard` or `unlimited`, on burstable types.
    pub cpu_credits: Option<String>,
}

impl Default for LaunchOptions {
    fn default() -> Self {
        Self {
            key_name: None,
            instance_profile: None,
            ebs_optimized: false,
            monitoring: false,
            metadata: MetadataOptions::default(),
            disable_api_termination: false,
            disable_api_stop: false,
            shutdown_terminates: false,
            user_data: None,
            source_dest_check: true,
            cpu_credits: None,
        }
    }
}

impl LaunchOptions {
    /// Returns the value of `instanceInitiatedShutdownBehavior`.
    pub fn shutdown_word(&self) -> &'static str {
        if self.shutdown_terminates { "terminate" } else { "stop" }
    }

    /// Returns its monitoring state.
    pub fn monitoring_word(&self) -> &'static str {
        if self.monitoring { "enabled" } else { "disabled" }
    }
}

/// Options of an instance's metadata service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetadataOptions {
    /// True if a session token is required.
    pub tokens_required: bool,
    /// Hops that an answer may take.
    pub hop_limit: u64,
    /// True if it answers.
    pub endpoint: bool,
    /// True if it answers over IPv6.
    pub ipv6: bool,
    /// True if it returns the tags.
    pub tags: bool,
}

impl Default for MetadataOptions {
    fn default() -> Self {
        Self { tokens_required: false, hop_limit: 1, endpoint: true, ipv6: false, tags: false }
    }
}

/// Changes of [`MetadataOptions`]; absent fields stay unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MetadataChange {
    /// `optional` or `required`.
    pub http_tokens: Option<String>,
    /// 1 to 64.
    pub hop_limit: Option<u64>,
    /// `enabled` or `disabled`.
    pub endpoint: Option<String>,
    /// `enabled` or `disabled`.
    pub ipv6: Option<String>,
    /// `enabled` or `disabled`.
    pub tags: Option<String>,
}

impl MetadataOptions {
    /// Applies the changes.
    ///
    /// # Errors
    /// `InvalidParameterValue`, naming the parameter.
    pub fn with(mut self, change: &MetadataChange) -> Result<Self, Ec2Error> {
        if let Some(word) = &change.http_tokens {
            self.tokens_required = choice("HttpTokens", word, ["required", "optional"])?;
        }
        if let Some(hops) = change.hop_limit {
            if !(1..=64).contains(&hops) {
                return Err(Ec2Error::InvalidParameterValue(format!(
                    "Value ({hops}) for parameter HttpPutResponseHopLimit is invalid. It must lie between 1 and 64."
                )));
            }
            self.hop_limit = hops;
        }
        let switch = |name: &str, word: &Option<String>, old: bool| match word {
            Some(word) => choice(name, word, ["enabled", "disabled"]),
            None => Ok(old),
        };
        self.endpoint = switch("HttpEndpoint", &change.endpoint, self.endpoint)?;
        self.ipv6 = switch("HttpProtocolIpv6", &change.ipv6, self.ipv6)?;
        self.tags = switch("InstanceMetadataTags", &change.tags, self.tags)?;
        Ok(self)
    }

    /// Returns the fields in describe calls.
    pub fn fields(&self) -> Vec<Named> {
        let word = |on: bool| if on { "enabled" } else { "disabled" };
        vec![
            text("state", "applied"),
            text("httpTokens", if self.tokens_required { "required" } else { "optional" }),
            text("httpPutResponseHopLimit", self.hop_limit),
            text("httpEndpoint", word(self.endpoint)),
            text("httpProtocolIpv6", word(self.ipv6)),
            text("instanceMetadataTags", word(self.tags)),
        ]
    }
}

/// Returns true for the first of two words, false for the second.
///
/// # Errors
/// `InvalidParameterValue` for any other word.
pub fn choice(name: &str, word: &str, [yes, no]: [&str; 2]) -> Result<bool, Ec2Error> {
    match word {
        word if word == yes => Ok(true),
        word if word == no => Ok(false),
        other => Err(Ec2Error::InvalidParameterValue(format!(
            "Value ({other}) for parameter {name} is invalid. Use {yes} or {no}."
        ))),
    }
}

/// Checks user data: base64 of at most 16 KiB.
///
/// # Errors
/// `InvalidParameterValue`, or `InvalidUserData.Malformed` for invalid base64.
pub fn check_user_data(text: &str) -> Result<(), Ec2Error> {
    let bytes = STANDARD.decode(text).map_err(|_| Ec2Error::Resource {
        code: Code::InvalidUserDataMalformed,
        text: "Invalid BASE64 encoding of user data.".to_owned(),
    })?;
    if bytes.len() <= USER_DATA {
        return Ok(());
    }
    Err(Ec2Error::InvalidParameterValue(format!("User data is limited to {USER_DATA} bytes")))
}
