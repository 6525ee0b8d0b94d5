//! Converts the configuration to the machine's settings.

use crate::config::{Config, Error};
use crate::state::Settings;
use crate::state::zone::Zone;

/// Returns the settings of `config`.
///
/// # Errors
/// The invalid field, and the reason.
pub(crate) fn settings(config: &Config) -> Result<Settings, Error> {
    let bad = |field: &str, reason: String| Err(Error::Config { field: field.to_owned(), reason });
    let region = &config.region;
    if region.split('-').count() < 3 || !region.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
        return bad("region", format!("`{region}` is not a region name, such as us-east-1"));
    }
    let account = &config.account_id;
    if account.len() != 12 || !account.bytes().all(|b| b.is_ascii_digit()) {
        return bad("account id", format!("`{account}` must be twelve digits"));
    }
    if config.zones.is_empty() {
        return bad("zones", "at least one is needed".to_owned());
    }
    for (position, zone) in config.zones.iter().enumerate() {
        if !zone.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') || zone.is_empty() {
            return bad("zones", format!("`{zone}` is not a zone name, such as {region}a"));
        }
        if config.zones[..position].contains(zone) {
            return bad("zones", format!("`{zone}` is there twice"));
        }
    }
    let zones = config.zones.iter().zip(1..).map(|(name, number)| Zone::new(region, name, number)).collect();
    Ok(Settings {
        region: region.clone(),
        regions: if config.regions.is_empty() { vec![region.clone()] } else { config.regions.clone() },
        account_id: account.clone(),
        zones,
        latency: config.latency,
        latency_rules: config.latency_rules.clone(),
    })
}
